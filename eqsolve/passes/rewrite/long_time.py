"""The limit of long times of a system that comes to rest: a fixed point, derived.

Processes tend to constants, correlations C(t, t') to numbers, a Gaussian noise to one Gaussian variable of each path, and the
integral of a response over the past to a static susceptibility χ, so that ∫ R(t, s) x(s) ds tends to χ x. A path's state x is
the stable root of its force. Where the force has a factor that vanishes at x = 0, the root is that of the rest on the side on
which the path leaves zero, and zero where it leaves on neither: x = 0 or x > 0 of a population, a soft threshold.

With it comes ``stability``: small disturbances δz of the noises, of their own for each path, move correlations by E[x_z²] δz²
and these the variance of the noises; it is 1 minus the gain of this loop, positive where the state is stable (de Almeida &
Thouless 1978, doi:10.1088/0305-4470/11/5/028).
"""

import functools
import itertools
from typing import Any, cast

import sympy
from sympy import Abs, Add, Basic, Dummy, Expr, Max, Min, Mul, Piecewise, Pow, S, cancel, exp, expand

from eqsolve.errors import ModelError
from eqsolve.language.laws import Bernoulli, Normal, Point, Uniform
from eqsolve.language.model import Equation
from eqsolve.language.nodes import GP, E, Int, Inverse, Resp, entries
from eqsolve.language.symbols import Correlation, Function, Plain, Process, Random, Response, Time, Unknown, Value, fresh_name
from eqsolve.language.system import FixedPoint, Flow, System, members
from eqsolve.passes.check.check import check
from eqsolve.passes.forms.expressions import free_times, rebuilt
from eqsolve.verbs import lazy_import


@functools.lru_cache(maxsize=64)
def derive_long_time(model: System | Flow, name: str | None, integrated: bool) -> FixedPoint:
    """Return the fixed point that a system, or the mean field of a flow, tends to if it comes to rest."""
    check(model)
    if model.is_indexed:
        model = lazy_import("written_out")(model, {})[0]
    system = lazy_import("derive_dmft")(model, None)._with(location=model.location) if isinstance(model, Flow) else model
    limit = _Limit(system, name or f"{model.name}_long_time", integrated).fixed_point()
    return limit._with(location=model.location)


def _is_nonnegative(law: Any) -> bool:
    """Whether a law is seen to have no negative values."""
    return isinstance(law, Bernoulli) or (isinstance(law, Uniform | Point) and bool(law.args[0].is_nonnegative))


def _refuse(system: System, why: str) -> ModelError:
    return ModelError(f"{system.label}: its limit of long times is not derived, since {why}")


class _Limit:
    """The symbols of the limit of one system."""

    def __init__(self, system: System, name: str, integrated: bool) -> None:
        self.system, self.name, self.conditions = system, name, list(system.conditions)
        self.small: Any = Dummy("small", positive=True) if integrated else S.One
        kernels = [law.covariance for law in system.laws.values() if isinstance(law, GP)]
        driving = {value.head for kernel in kernels for value in kernel.atoms(Value)}
        self.equations = {eq.head: eq for eq in system.equations}
        causes = {
            "its white noise keeps it moving; `eqsolve stationary` finds the state": system.whites,
            "its constraints have no limit that is derived": system.constraints,
            "it is solved in steps, with noise drawn in each": system.step is not None or system.stepped,
        }
        if reasons := [cause for cause, holds in causes.items() if holds]:
            raise _refuse(system, reasons[0])
        given = [key.head for key in system.init if isinstance(key, Value) and isinstance(key.head, Correlation)
                 and key.moments[0] == key.moments[1] and isinstance(key.moments[0], Time)]  # fmt: skip
        if given:
            raise _refuse(system, f"`{given[0].name}` is given at equal times, so that paths may go on fluctuating")
        self.taken = set(system.names) | set(system.observables)
        self.numbers: dict[Any, Any] = {}
        for head in system.unknowns:
            if isinstance(head, Response):
                word = f"chi_{head.name.removeprefix('R_')}" if head.name != "R" else "chi"
                side = self._side(head)
                known: Any = {"positive": True} if side else {}
                self.numbers[head] = (side or 1) * Unknown(fresh_name(word, self.taken), None, **known)
                self.numbers[head] /= self.small if self.equations[head].rhs.has(E) else 1
            elif isinstance(head, Correlation):
                faint = 2 if head in driving and not self.equations[head].rhs.has(E) else 0
                known = {"positive": True} if head in driving else {"nonnegative": True}  # zero where all paths rest there
                self.numbers[head] = Unknown(head.name, None, **known) * self.small**faint
            elif isinstance(head, Function):
                known = {"positive": True} if self._is_mean_of_positive(head) else {}
                self.numbers[head] = Unknown(head.name, None, **known)
        self.sources: dict[Process, Random] = {}  # standard Gaussian variables
        self.noises: dict[Process, Expr] = {}  # by these
        self.roots: dict[Process, Expr] = {}
        self.sizes: dict[Process, Expr] = {}  # of roots that may vanish
        self.pieces: dict[Process, Any] = {}  # of roots that are straight between kinks
        self.slopes: dict[tuple[Process, Process], Expr] = {}  # of roots, by noise
        self.instant: dict[tuple[Process, Process], Expr] = {}  # the part of these without memory
        self.means: dict[E, Unknown] = {}  # numbers that only covariances need
        self.marks: dict[Any, Dummy] = {head: Dummy(head.name, real=True) for head in system.processes}
        self.closed: dict[Any, Expr] = {}  # susceptibilities that others give
        for eq in system.equations:
            if isinstance(eq.head, Response) and not eq.is_differential and not eq.rhs.atoms(E):
                right, number = self.still(eq.rhs), self.numbers[eq.head]
                own = expand(right).coeff(number)
                rest = expand(right - own * number)
                if not own.has(number) and not rest.has(number):  # linear in itself: it goes into the others
                    self.closed[eq.head] = self.numbers[eq.head] = cancel(rest / (1 - own))
        self._draw()
        self._settle()

    def _side(self, head: Response) -> int:
        """Return the sign of a susceptibility, 0 where it is not known: that with which the noise enters a stable force."""
        right = self.equations[head].rhs
        responses = right.atoms(Resp)
        if len(responses) != 1 or not right.has(E):
            return 0
        (inner,) = responses
        if not isinstance(inner.output, Value) or not self._is_state(inner.output.head):
            return 0
        held = Dummy("response", positive=True)
        weight = right.xreplace({node: held for node in right.atoms(E)}).diff(held)
        force = self.equations[inner.output.head].rhs
        for _ in range(3):  # definitions of definitions; self-referring ones have no end
            force = force.xreplace({
                value: self.equations[value.head].rhs for value in force.atoms(Value)
                if value.head in self.equations and isinstance(value.head, Process) and not self._is_state(value.head)
            })  # fmt: skip
        noise = next((value for value in force.atoms(Value) if value.head == inner.noise.head), None)
        if noise is None:
            return 0
        slope = weight * force.xreplace({noise: (mark := Dummy("z"))}).diff(mark)
        slope = slope.xreplace({value: Dummy("size", positive=True) for value in slope.atoms(Value)})
        return 1 if slope.is_positive else -1 if slope.is_negative else 0

    def _is_mean_of_positive(self, head: Function) -> bool:
        right = self.equations[head].rhs
        states = {value: Dummy("size", positive=True) for value in right.atoms(Value) if self._only_positive(value.head)}
        return isinstance(right, E) and bool(right.argument.xreplace(states).is_positive)

    def _only_positive(self, head: Any) -> bool:
        change = self.system.substitute.get(head)
        return change is not None and change.func is exp

    # --- what stands at rest
    def still(self, expr: Any) -> Any:
        """Return an expression at rest; processes are their marks."""
        if isinstance(expr, Int):
            return self._integral(expr)
        if isinstance(expr, Value):
            if not all(isinstance(moment, Time) for moment in expr.moments):
                raise _refuse(self.system, f"`{expr}` stands at another time")
            return self.marks[expr.head] if isinstance(expr.head, Process) else self.numbers[expr.head]
        if isinstance(expr, E):
            return self._mean(expr)
        if isinstance(expr, exp) and free_times(expr.xreplace({value: Dummy("value") for value in expr.atoms(Value)})):
            return self._faded(expr)
        if isinstance(expr, Time):
            raise _refuse(self.system, f"the time `{expr}` itself enters")
        return rebuilt(expr, self.still)

    def _faded(self, expr: Expr) -> Expr:
        """Return the limit of e^{−kt}: zero for positive k, which becomes a condition."""
        (clock,) = free_times(expr)
        rate = -expr.args[0].diff(clock)
        if clock in rate.free_symbols or rate.free_symbols & set(self.marks.values()):
            raise _refuse(self.system, f"`{expr}` has no limit that is known")
        if (holds := rate.as_coeff_Mul()[1] > 0) not in self.conditions:
            self.conditions.append(holds)
        return S.Zero

    def _integral(self, node: Int) -> Expr:
        total = S.Zero
        for term in Add.make_args(expand(node.integrand)):
            parts = Mul.make_args(term)
            kernels = [item for item in parts if isinstance(item, Value) and isinstance(item.head, Response)]
            if not kernels:
                raise _refuse(self.system, f"`{node}` adds up a past that does not fade")
            rest = Mul(*(self.still(item) for item in parts if item not in kernels))
            total += rest * Mul(*(self.numbers[item.head] for item in kernels))
        return total

    def _mean(self, node: E) -> Expr:
        """Return an expectation; a response in it is the derivative of what stands still, less what answers at once."""
        argument = node.argument
        responses = argument.atoms(Resp)
        if not responses:
            return _expected(self.put(self.still(argument)))
        (inner,) = responses
        rest = argument.xreplace({inner: S.One})
        output, noise = self.still(inner.output), inner.noise.head
        total = self._chain(output, noise, self.slopes) - self._chain(output, noise, self.instant)
        return _expected(self.put(self.still(rest) * total))

    def put(self, expr: Expr) -> Expr:
        """Return an expression with roots and noises in place of the marks."""
        expr = expr.xreplace({Abs(self.marks[head]): size for head, size in self.sizes.items()})
        plain = [head for head in self.roots if head not in self.pieces]
        expr = expr.xreplace({self.marks[head]: self.roots[head] for head in plain})
        for pieces, marks in self.pieces.values():
            if expr.free_symbols & marks:
                rooted = [functools.reduce(Basic.xreplace, swaps, expr) for swaps, _ in pieces]
                expr = Piecewise(*((it, holds) for it, (_, holds) in zip(rooted, pieces, strict=True)))
        return self.put_noises(expr)

    # --- noises
    def _draw(self) -> None:
        """Give every noise its Gaussian variable; of two that belong together, the first by the second."""
        self.laws = {members(key): law for key, law in self.system.laws.items() if isinstance(law, GP)}
        for heads, law in self.laws.items():
            if law.mean != 0 and len(heads) > 1:
                raise _refuse(self.system, f"the mean of `{heads[0].name}` is not zero")
            if len(heads) > 2:
                raise _refuse(self.system, "more than two noises are driven together")
            for head in reversed(heads):
                self.sources[head] = Random(head.name, None, (Normal(0, 1),))
                self.noises[head] = self.small * self.sources[head] + self.still(law.mean)

    def _variances(self) -> None:
        """Write noises as normal variables of the variances that their covariances say, now that means are known."""
        self.joined: dict[Basic, Basic] = {}
        for heads, law in self.laws.items():
            kernel, share = law.covariance, S.Zero
            if isinstance(kernel, sympy.MatrixBase):
                (own, both), (_, given) = ([self._numbered(kernel[i, j]) for j in range(2)] for i in range(2))
                scales, share = [own - both**2 / given, given], both / given
            else:
                scales = [self._numbered(kernel) / self.small**2]
            drawn = [Random(head.name, None, (Normal(0, scale),)) for head, scale in zip(heads, scales, strict=True)]
            self.joined |= dict(zip([self.sources[head] for head in heads], drawn, strict=True))
            if share != 0:
                self.joined[self.sources[heads[0]]] = share * drawn[1] + drawn[0]

    def _numbered(self, kernel: Expr) -> Expr:
        """Return a covariance at rest; a mean over paths in it is a number of its own, since laws hold no means."""
        still = self.still(kernel)
        for node in sorted(still.atoms(E), key=str):
            if node not in self.means:
                real = {mark: Dummy("state", real=True) for mark in self.marks.values()}
                known: Any = {"nonnegative": True} if node.argument.xreplace(real).is_nonnegative else {}
                self.means[node] = Unknown(fresh_name(f"mean_{len(self.means) + 1}", self.taken), None, **known)
        return still.xreplace(self.means)

    # --- paths
    def _settle(self) -> None:
        """Find the root of every process."""
        paths = [eq for eq in self.system.equations if isinstance(eq.head, Process)]
        plain: dict[Any, Any] = {eq.head: self.still(eq.rhs) for eq in paths}
        for _ in paths:  # definitions go into what uses them
            for head, right in plain.items():
                known = {self.marks[other]: plain[other] for other in plain if not self._is_state(other) and other != head
                         and not plain[other].has(self.marks[other])}  # fmt: skip
                plain[head] = right.xreplace(known)
        for noise in self.noises:
            self.slopes[noise, noise] = self.instant[noise, noise] = S.One
        moving = [eq for eq in paths if eq.is_differential or plain[eq.head].has(self.marks[eq.head])]
        for eq in moving:
            head, mark, right = cast(Process, eq.head), self.marks[eq.head], plain[eq.head]
            if any(right.has(self.marks[other.head]) for other in moving if other is not eq):
                raise _refuse(self.system, f"`{head.name}` moves together with other states")
            root, slope = self._root(head, right if eq.is_differential else right - mark, mark)
            self.roots[head] = self.put_noises(root)
            for noise in self.noises:
                self.slopes[head, noise] = self.put_noises(slope[noise])
                if not eq.is_differential:
                    at_once = _without_memory(eq.rhs)
                    self.instant[head, noise] = self.put_noises(self.still(at_once).diff(self.marks[noise]))
        for eq in paths:
            if eq not in moving:
                head, right = cast(Process, eq.head), plain[eq.head]
                at_once = self.still(_without_memory(eq.rhs)).xreplace(
                    {self.marks[other]: plain[other] for other in plain if other != head and other not in self.roots}
                )
                self.roots[head] = self.put(right)
                for noise in self.noises:
                    self.slopes[head, noise] = self.put(self._chain(right, noise, self.slopes))
                    self.instant[head, noise] = self.put(self._chain(at_once, noise, self.instant))

    def _chain(self, expr: Expr, noise: Process, slopes: dict[tuple[Process, Process], Expr]) -> Expr:
        """Return the derivative by a noise of an expression in marks."""
        parts = [expr.diff(mark) * slopes.get((head, noise), S.Zero) for head, mark in self.marks.items() if expr.has(mark)]
        return Add(*parts)

    def _is_state(self, head: Any) -> bool:
        return bool(self.equations[head].is_differential)

    def put_noises(self, expr: Expr) -> Expr:
        return expr.xreplace({self.marks[head]: value for head, value in self.noises.items()})

    def _root(self, head: Process, force: Expr, mark: Dummy) -> tuple[Expr, dict[Process, Expr]]:
        """Return the stable root of a force, and its derivatives by the noises."""
        force = Mul(*(factor for factor in Mul.make_args(force) if not factor.is_positive))
        if self.small != 1:
            return self._integrated_root(head, force, mark)
        if force.diff(mark).is_nonnegative:
            raise _refuse(self.system, f"nothing draws `{head.name}` back")
        size = Dummy("y", positive=True)
        sides = {}
        for side in (1,) if self._only_positive(head) else (1, -1):
            there = expand(force.xreplace({mark: side * size}).doit())
            powers = (term.as_independent(size)[1].as_powers_dict() for term in Add.make_args(there))
            power = min((orders.get(size, S.Zero) for orders in powers), default=S.Zero)
            sides[side] = (power, expand(there / size**power).xreplace({size: side * mark}))
        if all(power == 0 for power, _ in sides.values()):
            return self._simple_root(head, force, mark)
        if len(sides) == 2 and expand(sum((rest.diff(mark) for _, rest in sides.values()), S.Zero)) == 0:
            # x' = x g(x): one of the two roots is stable, and which one a start that keeps its sign
            # tells
            start = self.system.init.get(head, S.Zero)
            if isinstance(start, Expr):
                known = {item: Dummy("start", nonnegative=True) for item in start.atoms(Random) if _is_nonnegative(item.law)}
                positive = start.xreplace(known).is_nonnegative
            else:
                positive = _is_nonnegative(start)
            if not positive:
                why = f"`{head.name}` may end on either side of 0"
                raise _refuse(self.system, f"{why}; where it is positive, declare substitute={{{head.name}: exp(y(t))}}")
            del sides[-1]
        total, size_of, pieces = S.Zero, S.Zero, []
        for side, (_, rest) in sides.items():
            slope = rest.diff(mark)
            if expand(slope).has(mark):
                raise _refuse(self.system, f"the force on `{head.name}` has no root that is known in closed form")
            push, hold = expand(rest.xreplace({mark: S.Zero})), cancel(-slope)  # hold > 0 where the root is stable
            part = (Max if side > 0 else Min)(push, 0) / hold
            total, size_of = total + part, size_of + side * part
            pieces.append((push, hold, push > 0 if side > 0 else push < 0))
        slopes = {}
        self.sizes[head] = self.put_noises(size_of)
        for noise in self.noises:
            parts = [(push.diff(self.marks[noise]) / hold, inside) for push, hold, inside in pieces]
            slopes[noise] = Add(*(Piecewise(piece, (0, True)) for piece in parts))
        return total, slopes

    def _integrated_root(self, head: Process, force: Expr, mark: Dummy) -> tuple[Expr, Any]:
        """Return the root where a force −εθ holds the integral θ of the others, ε → 0."""
        change = self.system.substitute.get(head, S.Zero)
        inner = [value for value in change.atoms(Value) if isinstance(value.head, Process)]
        if len(inner) != 1 or free_times(change.xreplace({inner[0]: S.One})):
            why = f"`{head.name}` is not declared as a function of an integral of the force"
            raise _refuse(self.system, why)
        noises = [self.marks[noise] for noise in self.noises]
        total = cancel(force.xreplace({noise: self.small * noise for noise in noises}) / self.small)
        total = total.xreplace({self.small: S.Zero})
        angle = Plain(fresh_name(f"{inner[0].head.name}_value", self.taken), None)
        weight, hold = change.xreplace({inner[0]: angle}), total.diff(mark)
        free = total.xreplace({mark: S.Zero})
        push = free.xreplace({noise: noise / self.small for noise in noises})
        root = Inverse(angle - hold * weight, angle)(push)
        rise = weight.diff(angle)
        slope = (rise / (1 - hold * rise)).xreplace({angle: root})
        slopes = [slope * push.diff(noise) for noise in noises]
        return weight.xreplace({angle: root}), dict(zip(self.noises, slopes, strict=True))

    def _leading(self, expr: Expr) -> Expr:
        """Return an expression as ε → 0; means are of order one, or of one over ε."""
        means, sizes = {}, {}
        for node in expr.atoms(E):
            powers = (power for power in range(3) if not cancel(node.argument * self.small**power).has(self.small))
            sizes[node] = self.small ** next(powers, 1)
            means[node] = Dummy("mean")
        leading = cancel(expr.xreplace({node: mark / sizes[node] for node, mark in means.items()}))
        back = {mark: E(node.argument * sizes[node]) for node, mark in means.items()}
        return leading.xreplace({self.small: S.Zero}).xreplace(back)

    def _simple_root(self, head: Process, force: Expr, mark: Dummy) -> tuple[Expr, dict[Process, Expr]]:
        slope = force.diff(mark)
        if (pieces := _straight_roots(force, mark)) is not None:
            slopes = {noise: Dummy("slope", real=True) for noise in self.noises}
            for swaps, _ in pieces:
                root = swaps[-1][mark]
                swaps[-1].update({slopes[it]: root.diff(self.marks[it]) for it in self.noises})
            self.pieces[head] = pieces, {mark, *slopes.values()}
            return self.put(mark), slopes
        terms = Add.make_args(expand(force) if not force.has(Piecewise) else force)
        held = Add(*(term for term in terms if term.has(mark)))
        variable = Plain(fresh_name(f"{head.name}_value", self.taken), None)
        root = Inverse(-held.xreplace({mark: variable}), variable)(Add(*(term for term in terms if not term.has(mark))))
        slopes = {noise: (force.diff(self.marks[noise]) / -slope).xreplace({mark: root}) for noise in self.noises}
        return root, slopes

    # --- the fixed point
    def fixed_point(self) -> FixedPoint:
        """Return the equations of all numbers, with the observables and the stability."""
        self._variances()
        equations = []
        for eq in self.system.equations:
            if isinstance(eq.head, Process) or eq.head in self.closed:
                continue
            bare = eq.rhs.xreplace({node: S.One for node in eq.rhs.atoms(Int)})
            if not isinstance(eq.head, Response) and any(isinstance(value.head, Response) for value in bare.atoms(Value)):
                raise _refuse(self.system, f"a response without an integral drives `{eq.key}`, as white noise does")
            right = self.still(eq.rhs)
            number = self.numbers[eq.head]
            if eq.is_differential and isinstance(eq.head, Response):
                starts = [value for key, value in self.system.init.items() if isinstance(key, Value) and key.head == eq.head]
                right += self.still(starts[0])
            left = S.Zero
            if not eq.is_differential:  # solved for the number where it enters linearly, as it is seen without a mean
                scale = number.as_independent(self.small)[1] if self.small != 1 else S.One
                side, left = (number / scale).as_coeff_Mul()
                own = expand(right).coeff(left) if not right.atoms(E) else S.Zero
                rest = right if right.atoms(E) else expand(right - own * left)
                once = own.has(left) or rest.has(left)
                right = right / (side * scale) if once else rest / (side * scale - own)
            right = self._leading(right) if self.small != 1 else right
            equations.append(Equation(self.named(left), self.named(right)))
        equations += [Equation(number, self.named(node)) for node, number in self.means.items()]
        observables = {name: self.named(self.still(expr)) for name, expr in self.system.observables.items()}
        observables |= {f"chi_{head.name.removeprefix('R_')}": self.named(expr) for head, expr in self.closed.items()}
        if self.noises:
            observables[fresh_name("stability", self.taken)] = self.named(self.stability())
        if self.small != 1:
            observables = {name: self._leading(expr) for name, expr in observables.items()}
        known = {head.name: self.named(root) for head, root in self.roots.items()}
        variables = {name: it for name, it in known.items() if self.small == 1 or not it.has(self.small)}
        make = functools.partial(
            FixedPoint, self.name, equations, observables=observables,
            variables=variables, conditions=self.conditions, flow=self.system.flow, cite=self.system.cite,
        )  # fmt: skip
        used = set(make().settable.values())  # (parameters of laws among them)
        return make(defaults={key: self.system.defaults[key] for key in self.system.defaults if key in used})

    def named(self, expr: Any) -> Any:
        return expr.xreplace(self.joined) if self.noises else expr

    def stability(self) -> Expr:
        """Return det(1 − M), M the map of small perturbations of correlations to themselves."""
        correlations = [head for head in self.numbers if isinstance(head, Correlation)]
        rows = [(self.numbers[head], self.equations[head].rhs) for head in correlations]
        marks = [number for number, _ in rows]
        moved = {head: Dummy(f"V_{head.name}") for head in self.noises}
        everything: list[Basic] = [*marks, *moved.values()]
        kernels = {heads[0]: entries(law.covariance)[0] for heads, law in self.laws.items()}
        rows += [(moved[head], kernels[head]) for head in self.noises if head in kernels]
        scale = S.One
        gain = sympy.zeros(len(everything), len(everything))
        for number, right in rows:
            place = everything.index(number)
            direct = self.still(right.xreplace({node: Dummy("mean") for node in right.atoms(E)}))
            scale *= 1 - _by(direct, number)  # (a relation that is solved for its own left-hand side)
            for column, mark in enumerate(marks):
                gain[place, column] += _by(direct, mark)
            for node in right.atoms(E):
                weight = self.still(right.xreplace({node: (held := Dummy("mean"))})).diff(held)
                for noise, change in moved.items():
                    gain[place, everything.index(change)] += weight * self._pair(node, noise)
        left = sympy.eye(len(everything)) - gain
        names = {entry: Dummy("entry") for entry in left if entry not in (0, 1)}
        back = {name: entry for entry, name in names.items()}
        return left.applyfunc(lambda entry: names.get(entry, entry)).det().xreplace(back) / scale

    def _pair(self, node: E, noise: Process) -> Expr:
        """Return E[f_z g_z'] of E[f(t) g(t')]: the square of the slope where both are the same."""
        clocks = free_times(node.argument)
        if len(clocks) != 2:
            return S.Zero
        early, late = ({head: Dummy(head.name, real=True) for head in self.marks} for _ in range(2))
        values = [value for value in node.argument.atoms(Value) if isinstance(value.head, Process)]
        body = node.argument.xreplace({v: (early if v.moments[0] == clocks[0] else late)[v.head] for v in values})
        total = S.Zero
        for (one, left), (two, right) in itertools.product(early.items(), late.items()):
            slopes = [self.slopes.get((item, noise), S.Zero) for item in (one, two)]
            total += body.diff(left).diff(right) * (_squared(slopes[0]) if one == two else slopes[0] * slopes[1])
        back = {mark: self.marks[head] for table in (early, late) for head, mark in table.items()}
        return _expected(self.put(total.xreplace(back)))


def _straight_roots(force: Expr, mark: Dummy) -> list[tuple[Any, Any]] | None:
    """Return the stable root of a force made of straight pieces, None where it has others.

    For each piece: what stands for kinks, steps and in the end the state itself, and the condition.
    At a kink the force says on which side the root lies: beyond, where it is positive.
    """
    kinked = [node for node in force.atoms(Max, Min) if node.has(mark) and len(node.args) == 2]
    kinked = [node for node in kinked if not any(node.has(other) for other in kinked if other != node)]
    if not kinked:
        slope = force.diff(mark)
        root = -force.xreplace({mark: S.Zero}) / slope
        return None if slope.has(mark) else [(({mark: root},), S.true)]
    node = min(kinked, key=str)
    gap = node.args[0] - node.args[1]
    if (rise := gap.diff(mark)).has(mark):
        return None
    first = rise * force.xreplace({mark: -gap.xreplace({mark: S.Zero}) / rise})
    above, below = node.args if isinstance(node, Max) else node.args[::-1]  # by sign of the gap
    roots: list[Any] = []
    for arg, up, holds in ((above, S.One, first > 0), (below, S.Zero, S.true)):
        steps: dict[Basic, Any] = {node: arg, sympy.Heaviside(gap): up, sympy.Heaviside(-gap): 1 - up}
        if (rest := _straight_roots(force.xreplace({node: arg}), mark)) is None:
            return None
        roots += [((steps, *swaps), sympy.And(holds, inner)) for swaps, inner in rest]
    return roots


def _by(expr: Expr, number: Expr) -> Expr:
    """Return a derivative by a number that may be written with a factor."""
    (mark,) = number.atoms(Unknown) or number.free_symbols
    return expr.diff(mark) * mark / number


def _without_memory(expr: Any) -> Any:
    if isinstance(expr, Int):
        return S.Zero
    return expr if isinstance(expr, Value | E) else rebuilt(expr, _without_memory)


def _squared(slope: Expr) -> Expr:
    """Return the square of a sum of pieces that exclude each other."""
    parts = Add.make_args(slope)
    if not all(isinstance(part, Piecewise) and part.args[1].expr == 0 for part in parts):
        return slope**2
    return Add(*(Piecewise((part.args[0].expr ** 2, part.args[0].cond), (0, True)) for part in parts))


def _expected(expr: Expr) -> Expr:
    """Return the mean; of what is not random, itself. Powers of steps are steps."""
    powers = [node for node in expr.atoms(Pow) if node.base.func in (sympy.sign, sympy.Heaviside) and node.exp.is_Integer]
    expr = expr.xreplace({it: it.base ** (it.exp % 2 if it.base.func is sympy.sign else 1) for it in powers})
    return E(expr) if expr.atoms(Random) else expr
