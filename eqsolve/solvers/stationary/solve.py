"""The stationary state of a Gaussian system: a fixed point of means over lags.

The means of pairs over lags give the covariance of the noises, this the law of the paths, and this the means: an iteration as
it stands until it is near, then Newton's method with a Krylov solver (Knoll & Keyes, J. Comput. Phys. 193, 357 (2004),
doi:10.1016/j.jcp.2003.08.010). Lags reach as far as correlations fall; errors are differences to other panels and rules.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from eqsolve.compile.gaussian import GaussianProgram
from eqsolve.compile.stochastic import MeanProgram
from eqsolve.errors import logger
from eqsolve.numerics.arrays import Array, Packing
from eqsolve.numerics.grids import PanelGrid, over_panels, radau
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.quadrature import LineRule
from eqsolve.numerics.relations import Definition, Integral, Kernels, Leaf, Pointwise
from eqsolve.numerics.secants import Secants, solve_krylov
from eqsolve.solvers.gaussian.law import GaussianLaw, LawMeans, conditions
from eqsolve.solvers.options import Options
from eqsolve.solvers.stationary.state import PLAIN, REACH, Means, NoStationaryStateError, StationaryState

# --- A stationary Gaussian law over lags τ ≥ 0: linear path equations driven by noises of given
# covariance.
#
# With X' = A X + B η + K ξ, the covariances P(τ) = ⟨η(t+τ) X(t)ᵀ⟩, C(τ) = ⟨X(t+τ) X(t)ᵀ⟩ and Q(τ) =
# ⟨X(t+τ) η(t)ᵀ⟩ obey
#
#     −P' = P Aᵀ + Γ Bᵀ from τ = ∞ back,    C' = A C + B P,    Q' = A Q + B Γ,
#
# and C(0) a Lyapunov equation, in which alone the white noise ξ stands: for τ ≥ 0 everything is
# smooth. Beyond the last lag Γ is taken to be constant: its limit there is the static part of the
# fluctuations. In discrete time integrals are sums.


def step_of(lags: OperatorGrid) -> float | None:
    """Return the step of lags in discrete time, None where they lie on panels."""
    return None if lags.panels is not None else float(lags.nodes[1])


_PAST = (
    "integrals over the past, ∫ K(t − s) x(s) ds, have no equation over lags yet; write one with K = e^(−a (t − s)) as an "
    "unknown of its own, y' = x − a y, or look at late times of `eqsolve solve`"
)


@dataclass(eq=False)
class LagKernels(Kernels):
    """Kernels as functions of the lag, functions of one time as numbers; ``fixed`` give equal times."""

    fixed: LagKernels | None = None

    def table(self, item: Pointwise) -> Array:
        return np.array(np.broadcast_to(np.asarray(self.pointwise(item), float), self.grid.size))

    def number(self, item: Pointwise | None) -> float:
        """Return a function of one time."""
        return 1.0 if item is None else float(np.broadcast_to(self.pointwise(item), 1)[0])

    def _leaf(self, leaf: Leaf | Integral) -> Any:
        if isinstance(leaf, Integral):
            raise NoStationaryStateError(_PAST)
        if leaf.kind == "time":
            return self.grid.nodes if leaf.times == "r" else self.grid.nodes[0]
        if leaf.kind in ("mean", "function"):
            value = self.means[leaf.name] if leaf.kind == "mean" else self.functions[leaf.name]
            return value if len(value) > 1 else value[0]
        if "0" in leaf.times:
            raise NoStationaryStateError(f"the equations contain `{leaf.name}` at the start, which is forgotten")
        equal = leaf.times in ("rr", "cc")
        held = self if self.fixed is None or not equal else self.fixed
        table = (held.tables if leaf.kind == "table" else held.operators)[leaf.name]
        return table[0] if equal else table

    def define(self, item: Definition) -> None:
        if item.differential:
            raise NoStationaryStateError(f"`{item.name}` has a differential equation of its own")
        own = [getattr(part, "values", None) for part in item.own]
        if None in own:
            raise NoStationaryStateError(_PAST)
        if isinstance(item.rest, Pointwise):
            value = self.table(item.rest)
        else:  # a response: a sum of others, times factors
            parts = []
            for carrier, factor in item.rest.terms:
                if not isinstance(carrier, Leaf):
                    raise NoStationaryStateError(_PAST)
                held = self.means if carrier.kind == "mean" else self.operators
                parts.append(self.scaled(held[carrier.name], factor))
            value = np.sum(parts, axis=0)
        value = value / (1 - sum(self.number(part) for part in own))
        if item.kind == "function":
            self.functions[item.name] = value[:1]
        else:
            (self.operators if item.kind == "response" else self.tables)[item.name] = value


@functools.lru_cache(maxsize=8)
def _marching(lags: OperatorGrid, back: bool, matrix: bytes) -> tuple[Array, Array, Array, list[Array]]:
    """Return how y = first + ∫ (A y + source) is solved panel by panel, or step by step; (lag, state) in one row.

    y from the source and its first value; the change over a panel; y at ends, over 1, 2, 4 … panels.
    """
    A = np.frombuffer(matrix).reshape(2 * (round((len(matrix) // 8) ** 0.5),))
    inner, weights, steps = np.zeros((1, 1)), np.ones(1), np.full(lags.size, step_of(lags) or 0.0)
    if (panels := lags.panels) is not None:
        inner, weights, steps = radau(panels.order).integrals, radau(panels.order).weights, np.diff(panels.edges)
    if back:
        inner, steps = (weights if step_of(lags) is None else 0.0) - inner, steps[::-1]
    one, steps = np.eye(len(A)), steps[:, None, None]
    local = np.linalg.inv(np.eye(len(inner) * len(A)) - steps * np.kron(inner, A))
    driven, begun = local @ (steps * np.kron(inner, one)), local @ np.tile(one, (len(inner), 1))
    change = steps * (np.kron(weights, one) + np.kron(weights, A) @ driven)
    jumps = [one + steps * np.kron(weights, A) @ begun]
    while 2 ** len(jumps) <= len(steps):
        half = 2 ** (len(jumps) - 1)
        jumps.append(jumps[-1][half:] @ jumps[-1][:-half])
    return driven, begun, change, jumps


@dataclass(frozen=True, eq=False)
class Linear:
    """X' = A X + B η + offset + (constants), the white noises having the covariance S; constants by column."""

    A: Array
    B: Array
    offset: Array
    constants: Array
    S: Array
    lags: OperatorGrid

    def shifted(self, rate: float) -> Linear:
        """Return the equations of X e^{−rate t} driven by η e^{−rate t}, without white noise."""
        one, step = np.eye(len(self.A)), step_of(self.lags)
        if step is None:
            return replace(self, A=self.A - rate * one, S=0 * self.S)
        factor = np.exp(-rate * step)
        return replace(self, A=((one + step * self.A) * factor - one) / step, B=self.B * factor, S=0 * self.S)

    def _run(self, back: bool, first: Array, source: Array) -> Array:
        """Solve y = first + ∫ (A y + source) along the lags, the first axis."""
        driven, begun, change, jumps = _marching(self.lags, back, self.A.tobytes())
        apart = int(step_of(self.lags) is None)  # the first lag lies in no panel
        inside = source[apart:].reshape(len(driven), driven.shape[2], -1)
        inside = inside[::-1] if back else inside
        ends = np.concatenate([first.reshape(1, len(self.A), -1), change @ inside])
        for power, jump in enumerate(jumps):
            ends[2**power :] += jump @ ends[: -(2**power)]
        solution = driven @ inside + begun @ ends[:-1]
        solution = (solution[::-1] if back else solution).reshape(source[apart:].shape)
        return np.concatenate([ends[-1 if back else 0].reshape(source[:apart].shape), solution]) if apart else solution

    def covariance(self, gamma: Array) -> Array:
        """Return the covariance of (X, η) from that of η, over (lag, i, j)."""
        count, noises = self.B.shape
        joint = np.empty((self.lags.size, count + noises, count + noises))
        source = np.einsum("tab,ib->tia", gamma, self.B)
        back = self._run(True, -np.linalg.solve(self.A, source[-1]), source)
        joint[:, :count, :count] = self._run(False, self._equal(back[0], gamma[0]), np.einsum("ia,tja->tij", self.B, back))
        joint[:, :count, count:] = self._run(False, back[0], np.einsum("ia,tab->tib", self.B, gamma))
        joint[:, count:, :count] = back.transpose(0, 2, 1)
        joint[:, count:, count:] = gamma
        return joint

    def _equal(self, back: Array, gamma: Array) -> Array:
        """Return C(0) by its Lyapunov equation."""
        from scipy.linalg import solve_continuous_lyapunov, solve_discrete_lyapunov

        length = step_of(self.lags) or 0.0
        ahead, drive = np.eye(len(self.A)) + length * self.A, length * self.B
        source = ahead @ back @ drive.T + (drive @ gamma @ drive.T + length * self.S) / 2
        if not length:
            source = back @ self.B.T + self.S / 2
        source = source + source.T
        if not np.isfinite(source).all():
            return np.full_like(source, np.nan)
        return np.asarray(solve_discrete_lyapunov(ahead, source) if length else solve_continuous_lyapunov(self.A, -source))

    def transfer(self, exponent: complex) -> Array:
        """Return X/η where both go as e^{exponent·t}."""
        step = step_of(self.lags)
        rate = exponent if step is None else np.expm1(exponent * step) / step
        return np.linalg.solve(rate * np.eye(len(self.A)) - self.A, self.B)

    def response(self, kick: Array) -> Array:
        """Return how X answers to a unit impulse that enters with these coefficients, over (lag, i)."""
        answer = self._run(False, kick, np.zeros((self.lags.size, len(kick))))
        return answer if step_of(self.lags) is None else np.vstack([0 * answer[:1], answer[:-1]])

    @property
    def decay(self) -> tuple[float, float]:
        """The slowest rate at which paths forget, negative where they do not, and the fastest."""
        values = np.linalg.eigvals(self.A)
        if (step := step_of(self.lags)) is not None:
            rates = -np.log(np.maximum(np.abs(1 + step * values), 1e-300)) / step
            return float(rates.min()), float(np.abs(values).max())
        return float(-values.real.max()), float(np.abs(values).max())


@dataclass(eq=False)
class LagLaw(GaussianLaw):
    """The law of an ensemble given one condition: means, and covariances over lags."""

    centre: Array = field(default_factory=lambda: np.zeros(0))
    zero: Array = field(default_factory=lambda: np.zeros((0, 0)))
    lagged: Array | None = None  # covariances of the arguments
    means: Array = field(default_factory=lambda: np.zeros(0))
    equal: Array = field(default_factory=lambda: np.zeros((0, 0)))
    terms: int = 0

    def linear(self, kernels: LagKernels, lags: OperatorGrid) -> Linear:
        """Return the equations of the paths."""
        plan, count = self.plan, len(self.plan.unknowns)
        held = len(self.law.affine)
        offsets, slopes, by_noise, by_constant = self.signals(kernels, slice(0, 1))
        offsets, slopes, by_noise, by_constant = offsets[..., 0], slopes[..., 0], by_noise[..., 0], by_constant[:, 0]
        A, B = np.zeros((count, count)), np.zeros((count, len(plan.noises)))
        offset, constants, S = np.zeros(count), np.zeros((count, held)), np.zeros((count, count))
        for link in plan.links:
            if link.kernel is not None or not plan.integrated[link.unknown]:
                raise NoStationaryStateError(_PAST)
            weight, signal = kernels.number(link.coefficient), link.signal
            A[link.unknown] += weight * slopes[signal]
            B[link.unknown] += weight * by_noise[signal]
            offset[link.unknown] += weight * offsets[signal]
            constants[link.unknown] += weight * by_constant[signal]
        for drive in plan.drives:
            B[drive.unknown, plan.noises.index(drive.noise)] += kernels.number(drive.coefficient)
        for name, strength in self.whites.items():
            kick = self.kicked(kernels, name)
            S += max(kernels.number(strength), 0.0) * np.multiply.outer(kick, kick)
        return Linear(A, B, offset, constants, S, lags)

    def kicked(self, kernels: LagKernels, noise: str) -> Array:
        """Return the coefficients with which a noise, white or not, enters the unknowns."""
        kicks = np.zeros(len(self.plan.unknowns))
        entering: list[Any] = [*self.plan.kicks, *self.plan.drives]
        for source in entering:
            if source.noise == noise:
                kicks[source.unknown] += kernels.number(source.coefficient)
        return kicks

    def put(self, linear: Linear, gamma: Array, centres: Array) -> Array:
        """Return the covariance over lags of all variables; keep their means and that at lag 0."""
        count, noises = linear.B.shape
        variances, constants = self.condition.variances, self.condition.centres
        by_constant = -np.linalg.solve(linear.A, linear.constants)
        mean = -np.linalg.solve(linear.A, linear.offset + linear.B @ centres) + by_constant @ constants
        self.centre = np.concatenate([mean, centres, constants])
        weights = np.vstack([by_constant, np.zeros((noises, len(constants))), np.eye(len(constants))])
        joint = np.broadcast_to((weights * variances) @ weights.T, (linear.lags.size, *(2 * (len(weights),)))).copy()
        joint[:, : count + noises, : count + noises] += linear.covariance(gamma)
        self.zero = joint[0]
        return joint

    def combine(self, kernels: LagKernels) -> Array:
        """Return what is averaged in terms of unknowns, noises and constants."""
        first = {"unknown": 0, "noise": len(self.plan.unknowns)}
        first["constant"] = first["noise"] + len(self.plan.noises)
        combination = np.zeros((len(self.law.arguments), first["constant"] + len(self.law.affine)))
        others = self.other_arguments(kernels, slice(0, 1))
        for place, argument in enumerate(self.law.arguments):
            for (kind, index), value in zip(argument.variables, argument.coefficients(*others), strict=True):
                combination[place, first[kind] + index] += float(np.asarray(value).ravel()[0])
        return combination

    # --- as the means read it
    def mean(self, argument: int, rows: slice, groups: Sequence[Any]) -> Array:
        return self.means[argument : argument + 1]

    def covariance(self, first: int, second: int, rows: slice, groups: Sequence[Any]) -> Array:
        if self.lagged is None:
            return self.equal[first, second].reshape(1, 1)
        return self.lagged[:, first, second][None, :]

    def other_arguments(self, kernels: Kernels, rows: slice | Array) -> list[Any]:
        return super().other_arguments(kernels, slice(0, 1))

    def averages(self, kernels: LagKernels, wanted: frozenset[int], rule: LineRule, accuracy: float) -> LawMeans:
        """Return the means at one time, of functions with these places."""
        combine = self.combine(kernels)
        self.means, self.equal, self.lagged = combine @ self.centre, combine @ self.zero @ combine.T, None
        one = LawMeans(self, rule, accuracy, 1)
        one.terms = max(one.terms, self.terms)
        one.read(kernels, (), slice(0, 1), wanted)
        self.terms = one.terms
        return one

    def arguments_of(self, kernels: LagKernels, joint: Array) -> Array:
        """Return the covariances of the arguments from those of all variables."""
        combine = self.combine(kernels)
        return np.asarray(combine @ joint @ combine.T)

    def over_lags(self, one: LawMeans, lagged: Array) -> LawMeans:
        self.lagged = lagged
        wide = LawMeans(self, one.rule, one.accuracy, len(lagged), one.terms)
        for name in ("centres", "spreads", "mean", "magnitude", "power", "rest"):
            setattr(wide, name, np.repeat(getattr(one, name), len(lagged), axis=1))
        for name in ("series", "breaks", "equal"):
            table = getattr(one, name)
            setattr(wide, name, {key: np.repeat(value, len(lagged), axis=0) for key, value in table.items()})
        wide._now, wide._covariances = one._now, {}
        return wide


@dataclass(frozen=True, eq=False)
class StationaryMap:
    """The map from means over lags to themselves, for a program with its numbers."""

    program: GaussianProgram
    laws: tuple[tuple[LagLaw, ...], ...]
    lags: OperatorGrid
    rule: LineRule
    accuracy: float

    @classmethod
    def make(
        cls, program: GaussianProgram, laws: Mapping[str, Any], lags: OperatorGrid, rule: LineRule, accuracy: float
    ) -> StationaryMap:
        whites = dict(program.paths.whites)
        laws_given = []
        for paths, law in zip(program.paths.ensembles, program.laws, strict=True):
            given = conditions(law, paths.constants, laws, order=rule.nodes)
            laws_given.append(tuple(LagLaw.empty(paths, law, condition, 1, whites) for condition in given))
        return cls(program, tuple(laws_given), lags, rule, accuracy)  # type: ignore[arg-type]

    @property
    def means(self) -> list[MeanProgram]:
        return [mean for item in self.program.paths.ensembles for mean in item.means]

    def kernels(self, means: Mapping[str, Array], fixed: LagKernels | None = None) -> LagKernels:
        """Return kernels and functions for given means; ``fixed`` ones give values at equal times."""
        kernels = LagKernels(self.lags, means, fixed=fixed)
        for definition in self.program.paths.definitions:
            kernels.define(definition)
        return kernels

    def nothing(self) -> Means:
        """Return means that all vanish."""
        return {mean.name: np.zeros(1 if mean.kind == "one" else self.lags.size) for mean in self.means}

    def drives(self, kernels: LagKernels, place: int) -> tuple[Array, Array]:
        """Return covariance and means of an ensemble's noises."""
        noises = self.program.paths.ensembles[place].noises
        gamma, centres = np.zeros((self.lags.size, len(noises), len(noises))), np.zeros(len(noises))
        for group in self.program.paths.covariances:
            if group.noises[0] in noises:
                places = [noises.index(name) for name in group.noises]
                for i, a in enumerate(places):
                    centres[a] = kernels.number(group.centres[i])
                    for j, b in enumerate(places):
                        gamma[:, a, b] = kernels.table(group.blocks[i][j])
        return gamma, centres

    def linear(self, law: LagLaw, kernels: LagKernels) -> Linear:
        linear = law.linear(kernels, self.lags)
        if not linear.decay[0] > 0:
            names = ", ".join(f"`{name}`" for name in law.plan.unknowns)
            raise NoStationaryStateError(f"paths of {names} do not forget their start: nothing draws them back")
        return linear

    def apply(self, means: Mapping[str, Array], *, acting: bool = True) -> Means:
        """Return the means of the paths that given means drive; all, if not only ``acting`` ones."""
        kernels, image = self.kernels(means), dict(means)
        for place, laws in enumerate(self.laws):
            gamma, centres = self.drives(kernels, place)
            parts = []
            for law in laws:
                linear = self.linear(law, kernels)
                parts.append((law, linear, law.put(linear, gamma, centres)))
            image |= self.averaged(kernels, place, parts, acting)
        return image

    def averaged(self, kernels: LagKernels, place: int, parts: list[tuple[LagLaw, Linear, Array]], acting: bool) -> Means:
        """Return the means of one ensemble from the covariances of its unknowns, noises and constants."""
        made: Means = {}
        plan, law_plan = self.program.paths.ensembles[place], self.program.laws[place]
        pairs = [item for item in zip(plan.means, law_plan.pairs, strict=True) if item[0].acts or not acting]
        wanted = frozenset(factor for _, terms in pairs for pair in terms for factor in pair)
        for law, linear, joint in parts:
            one = law.averages(kernels, wanted, self.rule, self.accuracy)
            wide = law.over_lags(one, law.arguments_of(kernels, joint))
            for mean, terms in pairs:
                value = law.condition.weight * self._mean(mean, terms, kernels, law, linear, one, wide)
                made[mean.name] = made.get(mean.name, 0.0) + value
        return made

    def slopes(
        self, kernels: LagKernels, place: int, law: LagLaw, linear: Linear, joint: Array
    ) -> dict[tuple[int, int], Means]:
        """Return how means over lags change with the covariance of two arguments there.

        By one-sided differences of fourth order, since a correlation is at most one; of paths that all vanish, for small ones.
        """
        small = np.where(np.diagonal(law.zero)[: len(linear.A)] > 1e-14, 0.0, 1e-14)
        small = np.diag(np.append(small, np.zeros(len(law.zero) - len(small))))
        law.zero, joint = law.zero + small, joint + small
        plan, terms = self.program.paths.ensembles[place], self.program.laws[place].pairs
        pairs = [item for item in zip(plan.means, terms, strict=True) if item[0].acts and item[0].kind == "two"]
        factors = frozenset(factor for _, every in pairs for pair in every for factor in pair)
        read = {(a, b) for _, every in pairs for left, right in every
                for a in self.program.laws[place].factors[left].arguments
                for b in self.program.laws[place].factors[right].arguments}  # fmt: skip
        one, lagged = law.averages(kernels, factors, self.rule, self.accuracy), law.arguments_of(kernels, joint)
        slopes = {}
        for a, b in sorted(read):
            # truncation, of fourth order, and rounding are alike at this size
            size = 1e-3 * math.sqrt(float(law.equal[a, a] * law.equal[b, b]))
            towards = np.where(lagged[:, a, b] < 0, size, -size)
            total: Means = {mean.name: np.zeros(self.lags.size) for mean, _ in pairs}
            for count, weight in enumerate((-25 / 12, 4.0, -3.0, 4 / 3, -1 / 4)):
                moved = lagged.copy()
                moved[:, a, b] += count * towards
                wide = law.over_lags(one, moved)
                for mean, every in pairs:
                    value = self._mean(mean, every, kernels, law, linear, one, wide)
                    total[mean.name] += law.condition.weight * weight * value / (towards if size > 0 else 1.0)
            slopes[a, b] = total
        return slopes

    def _mean(
        self, mean: MeanProgram, terms: tuple[tuple[int, int], ...], kernels: LagKernels, law: LagLaw, linear: Linear,
        one: LawMeans, wide: LawMeans,
    ) -> Array:  # fmt: skip
        if mean.kind == "one":
            return one.mean[terms[0][0]]
        last = slice(self.lags.size - 1, self.lags.size)
        tables = [wide.pairs(left, right, last)[0] for left, right in terms]
        if mean.kind == "response":
            answer = linear.response(law.kicked(kernels, mean.noise))
            tables = [np.sum([table * answer[:, unknown] for unknown, table in enumerate(tables)], axis=0)]
        outers = [1.0 if outer is None else kernels.table(outer) for outer in mean.outers]
        return np.asarray(sum(outer * table for outer, table in zip(outers, tables, strict=True)))


@dataclass(frozen=True, eq=False)
class Settled:
    """Means that are a fixed point of the closure, up to a ``residual`` relative to each."""

    closure: StationaryMap
    means: Means
    residual: float

    def variances(self) -> list[tuple[str, Array]]:
        """Return the variances of all unknowns over lags, under every condition."""
        variances, kernels = [], self.closure.kernels(self.means)
        for place, laws in enumerate(self.closure.laws):
            gamma, centres = self.closure.drives(kernels, place)
            for law in laws:
                joint = law.put(self.closure.linear(law, kernels), gamma, centres)
                variances += [(name, joint[:, row, row]) for row, name in enumerate(law.plan.unknowns)]
        return variances

    def outputs(self) -> tuple[dict[str, Array], dict[str, float]]:
        """Return what is reported: kernels over lags, and numbers."""
        kernels = self.closure.kernels(self.closure.apply(self.means, acting=False))
        numbers = {name: float(value[0]) for name, value in kernels.functions.items()}
        for name, item in self.closure.program.paths.observables:
            numbers[name] = sum(kernels.number(term) for term in item.terms)
        return {**kernels.tables, **kernels.operators}, numbers


def first_means(closure: StationaryMap, rate: float, omega: float = 0.0) -> Means:
    """Return means to begin with: of the declared start, forgotten at a given rate, and swinging."""
    means, lags = closure.nothing(), closure.lags.nodes
    fade = np.exp(-rate * lags) * np.cos(omega * lags)
    for _ in range(2):  # functions of one time first, what depends on them then
        kernels = closure.kernels(means)
        for place, laws in enumerate(closure.laws):
            parts = []
            for law in laws:
                start = law._starts()
                spread = (start[:, :-1] * law.condition.variances) @ start[:, :-1].T
                spread += np.diag(np.where(np.diagonal(spread) > 0, 0.0, 1.0))
                linear = law.linear(kernels, closure.lags)
                gamma, centres = closure.drives(kernels, place)
                count = len(start)
                joint = law.put(replace(linear, A=-np.eye(count)), 0 * gamma, centres)
                law.centre[:count] = start[:, :-1] @ law.condition.centres + start[:, -1]
                joint[:, :count, :count] = spread * fade[:, None, None]
                law.zero = joint[0]
                parts.append((law, linear, joint))
            means |= closure.averaged(kernels, place, parts, True)
    return means


def settle(closure: StationaryMap, means: Means, floor: float, tolerance: float, plain: int) -> Settled:
    """Solve means = closure(means) by Anderson's iteration, then Newton's; below ``floor`` is zero."""
    packing = Packing(means, [mean.name for mean in closure.means if mean.acts])

    def image(point: Array) -> Array:
        with np.errstate(all="ignore"):
            out = packing.pack(closure.apply(means | packing.unpack(point)))
        if not np.isfinite(out).all():
            raise NoStationaryStateError("the iteration over correlations diverges: there may be no stationary state")
        return out

    def weigh(point: Array) -> Array:
        parts = np.split(point, packing.ends)
        return np.concatenate([np.full(len(part), 1 / max(np.abs(part).max(initial=0.0), floor)) for part in parts])

    def newton_step(point: Array, weights: Array) -> Array:
        def apply(change: Array) -> Array:  # central differences: truncation and rounding balance near 1e-6
            size = 1e6 * float(np.abs(change * weights).max())
            ahead, behind = (image(point + sign * change / size) for sign in (1, -1))
            return np.asarray(change - (ahead - behind) * (size / 2))

        return solve_krylov(apply, found - point, weights, most=80, tolerance=1e-6)

    point, secants = packing.pack(means), Secants(30)
    best, stalled, before_newton = math.inf, 0, math.inf  # the last: residual before a step of Newton's method
    for count in range(300):
        found = image(point)
        weights = weigh(found)
        residual = float(np.abs((found - point) * weights).max(initial=0.0))
        stalled = 0 if residual < 0.9 * best else stalled + 1
        best = min(best, residual)
        if residual <= tolerance or (residual <= 1e3 * tolerance and residual > before_newton / 2):
            break
        if residual < min(1e-2, before_newton / 2) and (stalled > 5 or before_newton < math.inf):
            point, before_newton, secants = point + newton_step(point, weights), residual, Secants(30)
        else:
            point, before_newton = found if count < plain else secants.next(point, found, weights), math.inf
    else:
        raise NoStationaryStateError(f"correlations do not settle: the iteration still changes them by {residual:.1g}")
    return Settled(closure, means | packing.unpack(found), residual)


def make_lags(reach: float, fastest: float, order: int, length: float, step: float | None) -> OperatorGrid:
    """Return lags up to a reach: panels no longer than collocation follows the fastest decay, or steps."""
    if step is not None:
        return OperatorGrid.discrete(step, 0.0, step * math.ceil(reach / step))
    longest, steps = length * order / fastest, [0.3 * length / fastest]
    while sum(steps) < reach:
        steps.append(min(1.4 * steps[-1], longest))
    edges = np.concatenate([[0.0], np.cumsum(steps)])
    return OperatorGrid.from_panels(PanelGrid(edges * (reach / edges[-1]), order))


def carry(means: Means, old: OperatorGrid, new: OperatorGrid) -> Means:
    """Return means on other lags; beyond the last one they are constant."""
    if old.panels is None:
        places = np.minimum(np.arange(new.size), old.size - 1)
        return {name: value if len(value) == 1 else value[places] for name, value in means.items()}
    assert old.panels is not None
    matrix = old.panels.interpolation(new.nodes)
    return {name: value if len(value) == 1 else matrix @ value for name, value in means.items()}


@dataclass(frozen=True, eq=False)
class Copies:
    """Linear stability of two replicas with the same couplings: the covariance of their difference.

    The copies' noises have the covariance Γ of the correlation between the copies, C − D/2, where each has its own Γ of C. So
    the noise of their distance has the covariance ∂Γ(τ)/∂C(τ) · D, and D is what the paths make of it: the same linear
    equations, with the rate of growth taken off.
    """

    # by ensemble: equations of each condition, combinations that are averaged, and how all noises'
    # covariances change with that of each pair of these
    parts: tuple[tuple[tuple[Linear, Array, dict[tuple[int, int], list[Array]]], ...], ...]
    sizes: tuple[int, ...]  # noises of each ensemble
    lags: int
    begun: list[Array] = field(default_factory=list)  # the distances of the last rate

    @classmethod
    def of(cls, settled: Settled) -> Copies:
        closure, means = settled.closure, settled.means
        kernels = closure.kernels(means)
        count = range(len(closure.laws))
        parts = []
        for place in count:
            gamma, centres = closure.drives(kernels, place)
            rows = []
            for law in closure.laws[place]:
                linear = closure.linear(law, kernels)
                joint = law.put(linear, gamma, centres)
                slopes: dict[tuple[int, int], list[Array]] = {}
                for pair, change in closure.slopes(kernels, place, law, linear, joint).items():
                    moved = (means | {name: means[name] + s * value for name, value in change.items()} for s in (1, -1))
                    ahead, behind = (closure.kernels(item, kernels) for item in moved)
                    slopes[pair] = [(closure.drives(ahead, k)[0] - closure.drives(behind, k)[0]) / 2 for k in count]
                rows.append((linear, law.combine(kernels), slopes))
            parts.append(tuple(rows))
        sizes = tuple(len(item.noises) for item in closure.program.paths.ensembles)
        return cls(tuple(parts), sizes, closure.lags.size)

    def at_rest(self, rate: float) -> tuple[float, float]:
        """Return the largest gain of distances that go like cos ωτ, of a state at rest, and ω."""
        from scipy.optimize import minimize_scalar

        shares = np.cumsum([0, *(count**2 for count in self.sizes)])

        def gain(omega: float) -> float:
            total = np.zeros((shares[-1], shares[-1]), complex)
            for rows, begin, end in zip(self.parts, shares, shares[1:], strict=False):
                for linear, combine, slopes in rows:
                    count, noises = linear.B.shape
                    heard = combine[:, :count] @ linear.transfer(rate + 1j * omega) + combine[:, count : count + noises]
                    for (a, b), changes in slopes.items():
                        column = np.concatenate([change[0].ravel() for change in changes])
                        total[:, begin:end] += np.outer(column, np.kron(heard[a], heard[b].conj()))
            return float(np.linalg.eigvals(total).real.max())

        step = step_of(self.parts[0][0][0].lags)
        most = max(4 * linear.decay[1] for rows in self.parts for linear, _, _ in rows) if step is None else math.pi / step
        grid = most * np.linspace(0, 1, 201) ** 2
        values = [gain(omega) for omega in grid]
        near = int(np.argmax(values))
        around = grid[max(near - 1, 0)], grid[min(near + 1, 200)]
        best = minimize_scalar(lambda omega: -gain(omega), bounds=around, method="bounded", options={"xatol": 1e-8 * most})
        return max((values[near], float(grid[near])), (-float(best.fun), float(best.x)))

    def largest(self, rate: float) -> float:
        """Return the largest gain of distances that grow at a rate; it is one at the exponent."""
        from scipy.sparse.linalg import LinearOperator, eigs

        shifted = [[linear.shifted(rate) for linear, _, _ in rows] for rows in self.parts]

        def apply(vector: Array) -> Array:
            position, total = 0, [np.zeros((self.lags, size, size)) for size in self.sizes]
            for place, rows in enumerate(self.parts):
                shape = (self.lags, self.sizes[place], self.sizes[place])
                gamma = vector[position : position + math.prod(shape)].reshape(shape)
                position += gamma.size
                for linear, (_, combine, slopes) in zip(shifted[place], rows, strict=True):
                    width = sum(linear.B.shape)
                    distance = combine[:, :width] @ linear.covariance(gamma) @ combine[:, :width].T
                    for (a, b), changes in slopes.items():
                        for other, change in enumerate(changes):
                            total[other] += change * distance[:, a, b, None, None]
            return np.concatenate([item.ravel() for item in total])

        size = sum(self.lags * count**2 for count in self.sizes)
        first = self.begun.pop() if self.begun else np.ones(size)
        if not np.abs(apply(first)).any():
            return 0.0
        values, vectors = eigs(LinearOperator((size, size), apply, dtype=float), k=1, which="LR", v0=first, tol=1e-11)
        self.begun.append(vectors[:, 0].real)
        return float(values[0].real)


def growth_rate(settled: Settled, still: bool, guess: float | None = None) -> float:
    """Return the largest Lyapunov exponent: the rate at which the distance of two copies grows."""
    from scipy.optimize import brentq

    copies = Copies.of(settled)
    factor = functools.cache((lambda rate: copies.at_rest(rate)[0]) if still else copies.largest)
    decay = min(linear.decay[0] for rows in copies.parts for linear, _, _ in rows)
    lowest, step = -decay * (1 - 1e-6), decay if guess is None else 1e-4 * decay
    low = high = max(0.0 if guess is None else guess, lowest)
    while factor(high) > 1:
        low, high, step = high, high + step, 4 * step
    while low > lowest and factor(low) < 1:
        low, high, step = max(low - step, lowest), low, 4 * step
    if low == lowest and factor(low) < 1:
        return -decay
    return float(brentq(lambda rate: factor(rate) - 1, low, high, xtol=1e-11 * decay))


@dataclass(frozen=True, eq=False)
class GaussianState(StationaryState):
    """A stationary state of Gaussian paths."""

    settled: Settled
    other: Settled  # on other lags, by which errors are known
    stability: float  # of the state in which nothing moves; nan where none was found

    def lyapunov(self) -> tuple[float, float]:
        # the error is the difference to the exponent on other lags
        value = growth_rate(self.settled, self.still)
        other = growth_rate(self.other, self.still, value)
        return value, abs(value - other) + 1e-12 + 30 * self.residual


class StationarySearch:
    """One search for the stationary state that the declared start leads to."""

    def __init__(self, program: GaussianProgram, laws: Mapping[str, Any], options: Options) -> None:
        self.program, self.laws, self.options = program, laws, options
        self.tolerance = max(1e-3 * options.rtol, 1e-13)
        self.floor, self.stability, self.omega = 0.0, math.nan, 0.0
        begun = self.closure(make_lags(4 * (options.step or 1.0), 1.0, 4, 1.0, options.step))
        kernels = begun.kernels(begun.nothing())
        rates = [law.linear(kernels, begun.lags).decay for laws in begun.laws for law in laws]
        self.slowest, self.fastest = min(slow for slow, _ in rates), max(fast for _, fast in rates) or 1.0
        self.slowest = self.slowest if self.slowest > 0 else self.fastest
        self.coarse_lags = make_lags(8 / self.slowest, self.fastest, 6, 1.0, options.step)  # enough where nothing moves

    def closure(self, lags: OperatorGrid, other: bool = False) -> StationaryMap:
        rule = LineRule().other() if other else LineRule()
        return StationaryMap.make(self.program, self.laws, lags, rule, max(1e-4 * self.options.rtol, 1e-14))

    def run(self) -> GaussianState:
        """Return the state, or raise ``NoStationaryStateError``: lags are added until correlations have fallen."""
        step, fastest, reach, length = self.options.step, self.fastest, REACH / self.slowest, 1.0
        try:
            settled = self.find_fixed_point()
            if self.stability > 0:
                return self._judged(settled, self.coarse_lags)
            # frequencies up to √−stability of the slowest rate grow: what they make of it falls
            # that slowly
            reach = max(reach, 10 / (self.slowest * math.sqrt(max(-self.stability, 1e-6))))
        except NoStationaryStateError as reason:
            logger.info("no state in which nothing moves: %s", reason)
        for tries in range(3):
            try:
                settled = self._begin(make_lags(reach, fastest, 10, length, step))
                break
            except NoStationaryStateError:  # correlations may last for longer
                if tries == 2:
                    raise
                reach *= 2
        for _ in range(4):
            while (tail := self._tail(settled)) > 50 * self.tolerance:
                reach *= 1.5
                lags = make_lags(reach, fastest, 10, length, step)
                if lags.size * max(len(item.unknowns) for item in self.program.paths.ensembles) > 3000:
                    raise NoStationaryStateError(
                        f"correlations do not fall: at the lag {reach / 1.5:.3g} they still move by {min(tail, 2.0):.1g} "
                        "of their size (a limit cycle, or a transition that is very near)"
                    )
                self.options.report_share(0.5, f"lags up to {reach:.3g}")
                restart = tail == math.inf and not self.omega  # a periodic solution, which longer lags would continue
                try:
                    settled = self._begin(lags) if restart else self._again(settled, lags)
                except NoStationaryStateError:
                    settled = self._again(settled, lags) if restart else self._begin(lags)
            state = self._judged(settled, make_lags(1.2 * reach, fastest, 9, 0.93 * length, step))
            worst = state.worst_error(self.options)[1]
            logger.info("%d lags up to %.4g: the error is %.2g of the tolerance", settled.closure.lags.size, reach, worst)
            if worst <= 1 or step is not None or settled.closure.lags.size > 2000 or self.options.is_short_of_time():
                break
            length *= 0.6 if worst < 30 else 0.4
            settled = self._again(settled, make_lags(reach, fastest, 10, length, step))
        return state

    def find_fixed_point(self, other: bool = False) -> Settled:
        """Return the state in which nothing moves; keep its stability."""
        closure = self.closure(self.coarse_lags, other)
        settled = self._settle(closure, first_means(closure, 0.0))
        if self._spread(settled) > 1e-9:
            raise NoStationaryStateError("the iteration converged to a fluctuating state, not to a fixed point")
        factor, self.omega = Copies.of(settled).at_rest(0.0)
        self.stability = 1 - factor
        return settled

    def _spread(self, settled: Settled) -> float:
        """Return the variance in time, relative to all variance."""
        spreads = [(float(values[0] - values[-1]), float(values[0])) for _, values in settled.variances()]
        return max((spread / (abs(size) + self.floor) for spread, size in spreads), default=0.0)

    def _begin(self, lags: OperatorGrid) -> Settled:
        closure, reach = self.closure(lags), float(lags.nodes[-1])
        settled = self._settle(closure, first_means(closure, 4.5 / reach, self.omega))
        # near rest a spread is known up to left/|stability|; less than this is none
        if self.stability < 0 and self._spread(settled) <= 1e-3 * min(1.0, -self.stability):
            raise NoStationaryStateError("the iteration converged to the unstable fixed point")
        return settled

    def _settle(self, closure: StationaryMap, means: Means) -> Settled:
        self.floor = 1e-6 * max((float(np.abs(value).max()) for value in means.values()), default=1.0) + 1e-300
        return settle(closure, means, self.floor, self.tolerance, plain=PLAIN)

    def _again(self, settled: Settled, lags: OperatorGrid, other: bool = False) -> Settled:
        means = carry(settled.means, settled.closure.lags, lags)
        return settle(self.closure(lags, other), means, self.floor, self.tolerance, plain=1)

    def _tail(self, settled: Settled) -> float:
        """Return how much variances still move over the last tenth of the lags."""
        nodes = settled.closure.lags.nodes
        begin = int(np.searchsorted(nodes, 0.9 * nodes[-1]))
        moved = 0.0
        for name, values in settled.variances():
            spread = values[0] - values[-1]
            if (values > values[0] + 1e-6 * abs(values[0]) + self.floor).any():
                raise NoStationaryStateError(f"the iterate is not a covariance: that of `{name}` is not largest at lag 0")
            if spread > 1e-3 * self.floor:
                if values[-1] < -50 * self.tolerance * values[0] - self.floor:  # no covariance tends to a negative number
                    return math.inf
                moved = max(moved, float(np.abs(values[begin:] - values[-1]).max() / values[0]))
        return moved

    def _judged(self, settled: Settled, lags: OperatorGrid) -> GaussianState:
        """Return the state with errors, by the one on other lags."""
        curves, numbers = settled.outputs()
        other = self._again(settled, lags, other=True)
        other_curves, other_numbers = other.outputs()
        matched = carry(other_curves, lags, settled.closure.lags)
        panels, rest = settled.closure.lags.panels, 30 * max(settled.residual, 1e-15)
        errors = {}
        for name, values in curves.items():
            change = np.abs(values - matched[name])
            change = change if panels is None else over_panels(change, panels.order)
            errors[name] = change + rest * float(np.abs(values).max())
        number_errors = {name: abs(value - other_numbers[name]) + rest * max(abs(value), self.floor)
                         for name, value in numbers.items()}  # fmt: skip
        still = self._spread(settled) <= 1e-9
        grid = panels or PanelGrid(settled.closure.lags.nodes, 1)
        return GaussianState(
            curves, errors, numbers, number_errors, still, grid, settled.residual, self.floor, settled, other, self.stability
        )

    def stability_at_rest(self) -> tuple[float, float]:
        """Return the stability of the state in which nothing moves, and its error."""
        rest, other = self.find_fixed_point(True).residual, self.stability
        rest = max(rest, self.find_fixed_point().residual)
        return self.stability, abs(self.stability - other) + 1e-12 + 30 * rest
