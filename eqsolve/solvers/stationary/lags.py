"""A stationary Gaussian law over lags τ ≥ 0: linear path equations driven by noises of given covariance.

With X' = A X + B η + K ξ, the covariances P(τ) = ⟨η(t+τ) X(t)ᵀ⟩, C(τ) = ⟨X(t+τ) X(t)ᵀ⟩ and Q(τ) = ⟨X(t+τ) η(t)ᵀ⟩ obey

    −P' = P Aᵀ + Γ Bᵀ from τ = ∞ back,    C' = A C + B P,    Q' = A Q + B Γ,

and C(0) a Lyapunov equation, in which alone the white noise ξ stands: for τ ≥ 0 everything is smooth. Beyond the last lag Γ is
taken to be constant: its limit there is the static part of the fluctuations. In discrete time integrals are sums.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from eqsolve.errors import SolverError
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import radau
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.quadrature import LineRule
from eqsolve.numerics.relations import Definition, Integral, Kernels, Leaf, Pointwise
from eqsolve.solvers.gaussian.averages import LawMeans
from eqsolve.solvers.gaussian.law import GaussianLaw
from eqsolve.solvers.options import Options


class NoStationaryStateError(SolverError):
    """Says why there is no stationary state, or none that was found."""


def worst_error(found: Any, options: Options, floor: float = 0.0) -> tuple[str, float]:
    """Return what has the largest error in tolerances, and that."""
    over, rtol = {}, options.rtol
    atol = (options.atol or 0.0) + rtol * floor
    largest = max((abs(value) for value in found.numbers.values()), default=0.0)
    for name, value in found.numbers.items():
        allowed = rtol * max(abs(value), 1e-3 * largest) + atol
        over[name] = found.number_errors[name] / max(allowed, 1e-14)
    for name, values in found.curves.items():
        allowed = rtol * float(np.abs(values).max()) + atol
        over[name] = float(found.curve_errors[name].max()) / max(allowed, 1e-14)
    return max(over.items(), key=lambda item: item[1], default=("", 0.0))


@dataclass(frozen=True, eq=False)
class Lags:
    """Lags from 0 on."""

    grid: OperatorGrid
    step: float | None

    @property
    def size(self) -> int:
        return self.grid.size


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
            raise NoStationaryStateError(f"`{leaf.name}` at the start enters the equations")
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
def _marching(lags: Lags, back: bool, matrix: bytes) -> tuple[Array, Array, Array, list[Array]]:
    """Return how y = first + ∫ (A y + source) is solved panel by panel, or step by step; (lag, state) in one row.

    y from the source and its first value; the change over a panel; y at ends, over 1, 2, 4 … panels.
    """
    A = np.frombuffer(matrix).reshape(2 * (round((len(matrix) // 8) ** 0.5),))
    inner, weights, steps = np.zeros((1, 1)), np.ones(1), np.full(lags.size, lags.step or 0.0)
    if (panels := lags.grid.panels) is not None:
        inner, weights, steps = radau(panels.order).integrals, radau(panels.order).weights, np.diff(panels.edges)
    if back:
        inner, steps = (weights if lags.step is None else 0.0) - inner, steps[::-1]
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
    lags: Lags

    def shifted(self, rate: float) -> Linear:
        """Return the equations of X e^{−rate t} driven by η e^{−rate t}, without white noise."""
        one, step = np.eye(len(self.A)), self.lags.step
        if step is None:
            return replace(self, A=self.A - rate * one, S=0 * self.S)
        factor = np.exp(-rate * step)
        return replace(self, A=((one + step * self.A) * factor - one) / step, B=self.B * factor, S=0 * self.S)

    def _run(self, back: bool, first: Array, source: Array) -> Array:
        """Solve y = first + ∫ (A y + source) along the lags, the first axis."""
        driven, begun, change, jumps = _marching(self.lags, back, self.A.tobytes())
        alone = int(self.lags.step is None)  # the first lag lies in no panel
        inside = source[alone:].reshape(len(driven), driven.shape[2], -1)
        inside = inside[::-1] if back else inside
        ends = np.concatenate([first.reshape(1, len(self.A), -1), change @ inside])
        for power, jump in enumerate(jumps):
            ends[2**power :] += jump @ ends[: -(2**power)]
        made = driven @ inside + begun @ ends[:-1]
        made = (made[::-1] if back else made).reshape(source[alone:].shape)
        return np.concatenate([ends[-1 if back else 0].reshape(source[:alone].shape), made]) if alone else made

    def covariance(self, gamma: Array) -> Array:
        """Return the covariance of (X, η) from that of η, over (lag, i, j)."""
        count, noises = self.B.shape
        made = np.empty((self.lags.size, count + noises, count + noises))
        source = np.einsum("tab,ib->tia", gamma, self.B)
        back = self._run(True, -np.linalg.solve(self.A, source[-1]), source)
        made[:, :count, :count] = self._run(False, self._equal(back[0], gamma[0]), np.einsum("ia,tja->tij", self.B, back))
        made[:, :count, count:] = self._run(False, back[0], np.einsum("ia,tab->tib", self.B, gamma))
        made[:, count:, :count] = back.transpose(0, 2, 1)
        made[:, count:, count:] = gamma
        return made

    def _equal(self, back: Array, gamma: Array) -> Array:
        """Return C(0) by its Lyapunov equation."""
        one, step = np.eye(len(self.A)), self.lags.step
        if step is None:
            source = back @ self.B.T + self.S / 2
            system = np.kron(self.A, one) + np.kron(one, self.A)
        else:
            ahead, drive = one + step * self.A, step * self.B
            source = ahead @ back @ drive.T + (drive @ gamma @ drive.T + step * self.S) / 2
            system = np.kron(ahead, ahead) - np.eye(one.size)
        return np.linalg.solve(system, -(source + source.T).ravel()).reshape(one.shape)

    def transfer(self, exponent: complex) -> Array:
        """Return X/η where both go as e^{exponent·t}."""
        step = self.lags.step
        rate = exponent if step is None else np.expm1(exponent * step) / step
        return np.linalg.solve(rate * np.eye(len(self.A)) - self.A, self.B)

    def response(self, kick: Array) -> Array:
        """Return how X answers to a unit impulse that enters with these coefficients, over (lag, i)."""
        made = self._run(False, kick, np.zeros((self.lags.size, len(kick))))
        return made if self.lags.step is None else np.vstack([0 * made[:1], made[:-1]])

    @property
    def decay(self) -> tuple[float, float]:
        """The slowest rate at which paths forget, negative where they do not, and the fastest."""
        values = np.linalg.eigvals(self.A)
        if self.lags.step is not None:
            step = self.lags.step
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

    def linear(self, kernels: LagKernels, lags: Lags) -> Linear:
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
        made = np.zeros(len(self.plan.unknowns))
        entering: list[Any] = [*self.plan.kicks, *self.plan.drives]
        for item in entering:
            if item.noise == noise:
                made[item.unknown] += kernels.number(item.coefficient)
        return made

    def put(self, linear: Linear, gamma: Array, centres: Array) -> Array:
        """Return the covariance over lags of all variables; keep their means and that at lag 0."""
        count, noises = linear.B.shape
        varied, fixed = self.condition.variances, self.condition.centres
        by = -np.linalg.solve(linear.A, linear.constants)
        mean = -np.linalg.solve(linear.A, linear.offset + linear.B @ centres) + by @ fixed
        self.centre = np.concatenate([mean, centres, fixed])
        weights = np.vstack([by, np.zeros((noises, len(fixed))), np.eye(len(fixed))])
        made = np.broadcast_to((weights * varied) @ weights.T, (linear.lags.size, *(2 * (len(weights),)))).copy()
        made[:, : count + noises, : count + noises] += linear.covariance(gamma)
        self.zero = made[0]
        return made

    def combine(self, kernels: LagKernels) -> Array:
        """Return what is averaged in terms of unknowns, noises and constants."""
        first = {"unknown": 0, "noise": len(self.plan.unknowns)}
        first["constant"] = first["noise"] + len(self.plan.noises)
        made = np.zeros((len(self.law.arguments), first["constant"] + len(self.law.affine)))
        beside = self.beside(kernels, slice(0, 1))
        for place, item in enumerate(self.law.arguments):
            for (kind, index), value in zip(item.variables, item.coefficients(*beside), strict=True):
                made[place, first[kind] + index] += float(np.asarray(value).ravel()[0])
        return made

    # --- as the means read it
    def mean(self, argument: int, rows: slice, groups: Sequence[Any]) -> Array:
        return self.means[argument : argument + 1]

    def covariance(self, first: int, second: int, rows: slice, groups: Sequence[Any]) -> Array:
        if self.lagged is None:
            return self.equal[first, second].reshape(1, 1)
        return self.lagged[:, first, second][None, :]

    def beside(self, kernels: Kernels, rows: slice | Array) -> list[Any]:
        return super().beside(kernels, slice(0, 1))

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
        """Return the means of pairs over lags."""
        self.lagged = lagged
        wide = LawMeans(self, one.rule, one.accuracy, len(lagged), one.terms)
        for name in ("centres", "spreads", "mean", "magnitude", "power", "rest"):
            setattr(wide, name, np.repeat(getattr(one, name), len(lagged), axis=1))
        for name in ("series", "breaks", "equal"):
            table = getattr(one, name)
            setattr(wide, name, {key: np.repeat(value, len(lagged), axis=0) for key, value in table.items()})
        wide._now, wide._covariances = one._now, {}
        return wide
