"""The nodes a sympy expression does not have: expectations, responses, integrals over time, inverse functions, noises."""

from __future__ import annotations

from typing import Any, ClassVar

from sympy import Abs, Basic, Dummy, Expr, ImmutableMatrix, Piecewise, S, Symbol, Tuple, oo, sign
from sympy.core.containers import Tuple as TupleType
from sympy.core.symbol import Str
from sympy.logic.boolalg import Boolean

from eqsolve.errors import ModelError
from eqsolve.language.source import here, user_location
from eqsolve.language.symbols import Plain, Process, Time, Value, Written, as_expression, part

SENSES = ("ito", "stratonovich")


class Node(Written):
    """Base of the language's expression nodes, which sympy never evaluates."""


class E(Node):
    """Expectation over every random variable and process in the argument."""

    argument: Expr = part(0)
    text, latex = "E[{}]", r"\mathbb{{E}}\left[{}\right]"

    def __new__(cls, argument: Any) -> E:
        inner = as_expression(argument, "E")
        if isinstance(inner, Boolean) and not isinstance(inner, Symbol):
            raise ModelError(
                f"{here()}E takes an expression, got the condition `{inner}`; its probability is "
                f"E(sympy.Piecewise((1, {inner}), (0, True)))"
            )
        return Expr.__new__(cls, inner)

    def _eval_derivative(self, variable: Expr) -> Expr:
        return E(self.argument.diff(variable))


class Resp(Node):
    """Response of a process (or a function of processes) at time t to a noise at time t', ∂x(t)/∂z(t').

    It stands for the regular part; an instantaneous part proportional to a Dirac function is not included.
    """

    output: Expr = part(0)
    noise: Value = part(1)
    bracketed, latex = True, r"\frac{{\partial {}}}{{\partial {}}}"

    def __new__(cls, output: Any, noise: Any) -> Resp:
        output, noise = as_expression(output, "Resp"), as_expression(noise, "Resp")
        if not (isinstance(noise, Value) and isinstance(noise.head, Process)):
            raise ModelError(
                f"{here()}Resp takes the noise as its second argument, a process at a time such as `z(tp)`; got `{noise}`"
            )
        return Expr.__new__(cls, output, noise)

    def _sympystr(self, printer: Any) -> str:
        output = printer._print(self.output)
        if not isinstance(self.output, Value):
            output = f"[{output}]"
        return f"∂{output}/∂{printer._print(self.noise)}"


class Int(Node):
    """Integral over a time: ``Int(R_f(t, s) * w(s), (s, 0, t))``."""

    integrand: Expr = part(0)
    variable: Time = part(1, 0)
    low: Expr = part(1, 1)
    high: Expr = part(1, 2)
    bracketed = True
    canonical_variables = property(lambda self: {self.variable: self.variable})  # sympy's own are symbols, not times

    def __new__(cls, integrand: Any, *limits: Any) -> Int:
        if len(limits) != 1 or not isinstance(limits[0], tuple | TupleType) or len(limits[0]) != 3:
            given = f"{len(limits)} arguments, {', '.join(map(str, limits))}" if len(limits) != 1 else f"`{limits[0]}`"
            raise ModelError(
                f"{here()}Int takes an integrand and its range as one tuple, Int(f, (s, 0, t)); got for the range {given}"
            )
        variable, low, high = (as_expression(entry, "the range of Int") for entry in limits[0])
        if not isinstance(variable, Time):
            raise ModelError(f"{here()}Int integrates over a time variable, got `{variable}`; declare it with times()")
        return Expr.__new__(cls, as_expression(integrand, "Int"), Tuple(variable, low, high))

    bound_symbols = property(lambda self: [self.variable])

    @property
    def free_symbols(self) -> set[Basic]:
        ends = self.low.free_symbols | self.high.free_symbols
        return ends | (self.integrand.free_symbols - {self.variable})

    def _eval_subs(self, old: Basic, new: Basic) -> Expr | None:
        limits = self.variable, self.low._subs(old, new), self.high._subs(old, new)
        return Int(self.integrand, limits) if old == self.variable else None

    def _eval_derivative(self, variable: Expr) -> Expr:
        inner = Int(self.integrand.diff(variable), (self.variable, self.low, self.high))
        upper = self.integrand.subs(self.variable, self.high) * self.high.diff(variable)
        lower = self.integrand.subs(self.variable, self.low) * self.low.diff(variable)
        return inner * (0 if inner.integrand == 0 else 1) + upper - lower

    def _sympystr(self, printer: Any) -> str:
        low, high = (printer.parenthesize(end, 1000, strict=True) for end in (self.low, self.high))
        return f"∫_{low}^{high} {_factor(printer, self.integrand)} d{self.variable.name}"

    def _body(self, printer: Any) -> str:
        return (
            rf"\int_{{{printer._print(self.low)}}}^{{{printer._print(self.high)}}} "
            rf"{_factor(printer, self.integrand, latex=True)}\, \mathrm{{d}}{printer._print(self.variable)}"
        )


def _factor(printer: Any, integrand: Expr, latex: bool = False) -> str:
    text: str = printer._print(integrand)
    if not integrand.is_Add:
        return text
    return rf"\left({text}\right)" if latex else f"({text})"


def _matrix(part: Any) -> Any:
    return [_matrix(entry) for entry in part] if isinstance(part, list | tuple) else as_expression(part, "GP")


def entries(part: Any) -> list[Any]:
    """Return the entries of a matrix, row by row; an expression is its only one."""
    return list(part) if isinstance(part, ImmutableMatrix) else [part]


class NoiseLaw(Basic):
    """Base of the laws of driving processes."""

    font: ClassVar[str] = "mathrm"

    def _shown(self, printer: Any) -> str:
        return ", ".join(printer._print(arg) for arg in self.args)

    def _sympystr(self, printer: Any) -> str:
        return f"{type(self).__name__}({self._shown(printer)})"

    def _latex(self, printer: Any) -> str:
        return rf"\{self.font}{{{type(self).__name__}}}\left({self._shown(printer)}\right)"


class GP(NoiseLaw):
    """Law of a centred (or given-mean) Gaussian process: ``GP(delta * C_f(t, tp))``.

    For a tuple of processes the covariance is a matrix of kernels.
    """

    covariance: Any = part(0)
    mean: Expr = part(1)

    def __new__(cls, covariance: Any, mean: Any = 0) -> GP:
        kernel, centre = (
            ImmutableMatrix(_matrix(part)) if isinstance(part, list | tuple) else as_expression(part, "GP")
            for part in (covariance, mean)
        )
        return Basic.__new__(cls, kernel, centre)

    font = "mathcal"

    def _shown(self, printer: Any) -> str:
        return f"{printer._print(self.mean)}, {printer._print(self.covariance)}"


class White(NoiseLaw):
    """Law of white noise: ``White(2*T)`` is ⟨ξ(t) ξ(t')⟩ = 2T δ(t − t').

    Parameters
    ----------
    strength
        What multiplies the Dirac function: an expression in parameters, or a function of the running time.
    sense
        ``"ito"`` or ``"stratonovich"``, for a coefficient of the noise that depends on a process.
    """

    strength: Expr = part(0)

    def __new__(cls, strength: Any, sense: Any = None) -> White:
        value = as_expression(strength, "White")
        if value.is_number and not (value.is_real and value.is_finite and value >= 0):
            raise ModelError(f"{here()}White takes the strength of the noise, a number not below zero; got `{value}`")
        if sense is not None and str(sense) not in SENSES:
            raise ModelError(f"{here()}White: sense= takes {' or '.join(map(repr, SENSES))}, got {sense!r}")
        return Basic.__new__(cls, value, *(() if sense is None else (Str(str(sense)),)))

    @property
    def sense(self) -> str | None:
        return str(self.args[1]) if len(self.args) > 1 else None

    def _latex(self, printer: Any) -> str:
        sense = "" if self.sense is None else rf",\ \text{{{self.sense}}}"
        return rf"\mathrm{{White}}\left({printer._print(self.strength)}{sense}\right)"


class FollowedGP(GP):
    """Law of Gaussian processes and of others that follow them: the first ``leading`` have the covariance C, and the rest is
    Aᵀ C⁻¹ of them, A being their covariance with the first."""

    def __new__(cls, covariance: Any, mean: Any = 0, leading: Any = 1) -> FollowedGP:
        law = GP(covariance, mean)
        return Basic.__new__(cls, *law.args, as_expression(leading, "leading="))

    @property
    def leading(self) -> int:
        return int(self.args[2])


class Inverse:
    """The inverse function of an increasing expression: ``Inverse(y + b*asinh(y/a), y)(x)`` solves f(y) = x.

    Parameters
    ----------
    expression
        f(y), increasing in ``y`` on ``domain``.
    variable
        The bound variable ``y``.
    domain
        Open interval in which the root lies; the whole line by default.
    """

    def __init__(self, expression: Any, variable: Any, domain: Any = (-oo, oo)) -> None:
        self.expression = as_expression(expression, "Inverse")
        self.variable = as_expression(variable, "Inverse")
        if not isinstance(domain, tuple | list) or len(domain) != 2:
            raise ModelError(f"{here()}Inverse: domain= takes (lowest, highest), got {domain!r}")
        self.domain = (as_expression(domain[0], "domain="), as_expression(domain[1], "domain="))
        if not isinstance(self.variable, Symbol):
            raise ModelError(f"{here()}Inverse(f, y) needs a symbol y, got `{variable}`; declare it with symbol()")
        if self.variable not in self.expression.free_symbols:
            raise ModelError(f"{here()}Inverse(f, y): f = `{self.expression}` does not depend on `{self.variable}`")
        if self.domain[0].is_number and self.domain[1].is_number and not self.domain[0] < self.domain[1]:
            raise ModelError(f"{here()}Inverse: empty domain {domain}; expected (lowest, highest)")

    def __call__(self, argument: Any) -> InverseValue:
        value = as_expression(argument, "the inverse function")
        return InverseValue(self.expression, self.variable, value, Tuple(*self.domain))


class InverseValue(Node):
    """The y with f(y) = x; differentiated by the implicit function theorem."""

    expression: Expr = part(0)
    variable: Symbol = part(1)
    argument: Expr = part(2)
    text, latex = "root[{1}: {0} = {2}]", r"\operatorname{{root}}_{{{1}}}\left\{{{0} = {2}\right\}}"

    @property
    def domain(self) -> tuple[Expr, Expr]:
        return (self.args[3][0], self.args[3][1])

    bound_symbols = property(lambda self: [self.variable])

    @property
    def free_symbols(self) -> set[Basic]:
        outside = self.argument.free_symbols | self.args[3].free_symbols
        return outside | (self.expression.free_symbols - {self.variable})

    def _eval_derivative(self, variable: Expr) -> Expr:
        slope = self.expression.diff(self.variable).xreplace({self.variable: self})
        direct = self.expression.diff(variable).xreplace({self.variable: self})
        return (self.argument.diff(variable) - direct) / slope


# --- Proximal operators derived from a convex penalty: in closed form where the equation is linear,
# else implicitly.
def proximal(penalty: Any, variable: Any, observation: Any, threshold: Any) -> tuple[Expr, Expr]:
    """Return η(x; t) = argmin_y ½(y − x)² + t J(y), and its derivative η' along x.

    Parameters
    ----------
    penalty
        J, convex, an expression in ``variable``; it may have a kink at 0 (written with ``Abs``), and no other.
    variable
        A ``symbol()``.
    observation, threshold
        x and t, any expressions.

    Examples
    --------
    >>> w, slope = proximal(Abs(y), y, observation, t)  # soft thresholding
    """
    J = as_expression(penalty, "proximal")
    if not isinstance(variable, Plain) or variable not in J.free_symbols:
        raise ModelError(f"{user_location()}: proximal(J, y, ...) needs a symbol() that J = `{J}` depends on")
    x = Dummy("x", real=True)
    value, slope = _derive(J, variable, x, as_expression(threshold, "proximal"))
    swap = {x: as_expression(observation, "proximal")}
    return value.xreplace(swap), slope.xreplace(swap)


def _derive(J: Expr, y: Plain, x: Dummy, t: Expr) -> tuple[Expr, Expr]:
    up, down = (_side(J, y, direction) for direction in (1, -1))
    right, left = (part.diff(y).subs(y, 0) for part in (up, down))
    if J.has(Abs, sign) and (right - left) != 0:
        above, below = _solved(up, y, x, t, (S.Zero, oo)), _solved(down, y, x, t, (-oo, S.Zero))
        value = Piecewise((above, x > t * right), (below, x < t * left), (0, True))
        slope = Piecewise((above.diff(x), x > t * right), (below.diff(x), x < t * left), (0, True))
        return value, slope
    value = _solved(up if J.has(Abs, sign) else J, y, x, t, (-oo, oo))
    return value, value.diff(x)


def _side(J: Expr, y: Plain, direction: int) -> Expr:
    """Return J on one side of 0."""
    inside = J.replace(Abs, lambda arg: direction * arg if arg == y else Abs(arg))
    one_side: Expr = inside.replace(sign, lambda arg: S(direction) if arg == y else sign(arg))
    if one_side.has(Abs, sign):
        raise ModelError(f"{user_location()}: proximal takes a penalty with a kink at 0 only, got `{J}`")
    return one_side


def _solved(J: Expr, y: Plain, x: Dummy, t: Expr, domain: tuple[Expr, Expr]) -> Expr:
    """Return the y with y + t J'(y) = x."""
    balance = y + t * J.diff(y)
    gain = balance.diff(y)
    if y not in gain.free_symbols:
        return (x - balance.subs(y, 0)) / gain
    return Inverse(balance, y, domain=domain)(x)
