"""A law of rates: when every path relaxes at its own rate, down to none, observables decay slower than exponentially.

A `Singularity` of this kind names in ``variables`` the expression that vanishes at the singularity of one path (`pole`), and
the fixed point behind it names the rate of the paths that come to rest at zero (`rest_rate`).
"""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsolve.arguments import checked, number, text, whole
from eqsolve.compile.bundles import Bundle
from eqsolve.compile.forms import SINGULARITY
from eqsolve.errors import SolverError, UsageError
from eqsolve.language.fixed_point import Singularity
from eqsolve.language.loading import read_model
from eqsolve.numerics.arrays import Array, extrapolate

_OFFSETS = np.array([0.16, 0.08, 0.04, 0.02])


@dataclass(frozen=True)
class PathRates:
    """The law of the rates of single paths."""

    # |variable| of paths that end away from zero, their rates −Re p, and the errors of these
    sizes: Array
    rates: Array
    errors: Array
    # the laws of the variable, and of the rate of paths that end at zero
    moving: Any
    resting: Any

    def slower(self, rate: float) -> float:
        """Return the fraction of paths whose rate is below a given one."""
        if rate <= 0:
            return 0.0
        rates, mass = self._table
        low = min(rate / self.rates[0], 1.0) * self.sizes[0]  # below the first size, rates are proportional to it
        atom = sum(mass for value, mass in self.moving.atoms() if value == 0)
        near = float(self.moving.cdf(low) - self.moving.cdf(-low)) - atom
        still = float(self.resting.cdf(rate) - self.resting.cdf(0.0))
        return float(mass[rates < rate].sum()) + max(near, 0.0) + max(still, 0.0)

    @functools.cached_property
    def _table(self) -> tuple[Array, Array]:
        """Rates and probabilities of thin slices of the sizes above the first."""
        edges = np.geomspace(self.sizes[0], self.sizes[-1], 1500)
        middle = np.sqrt(edges[1:] * edges[:-1])
        below = self.moving.cdf(edges) - self.moving.cdf(-edges)
        return np.interp(middle, self.sizes, self.rates), np.diff(below)

    def decay(self, t: Any, power: float = 2.0) -> Any:
        """Return E[e^{−power·rate·t}]: how a sum over paths that all start alike decays; like 1/t at late times."""
        moments = np.atleast_1d(np.asarray(t, dtype=float))
        levels = np.concatenate([[0.0], np.geomspace(1e-8, 1.0, 400) * self.rates.max()])
        share = np.array([self.slower(float(level)) for level in levels])
        middle = (levels[1:] + levels[:-1]) / 2
        made = np.exp(-power * np.outer(moments, middle)) @ np.diff(share)
        return float(made[0]) if np.ndim(t) == 0 else made


@checked(model=read_model, pole=text, resting=text, points=whole(2), largest=number)
def path_rates(
    model: Any, *, pole: str = "pole", resting: str = "rest_rate", points: int = 24,
    largest: float | None = None, **settings: Any,
) -> PathRates:  # fmt: skip
    """Return the law of the rates of single paths of a `Singularity` with an edge.

    Parameters
    ----------
    model
        The singularity, or its name.
    pole
        Name of the variable of the model that vanishes at the singularity of one path.
    resting
        Name of the variable of the fixed point that is the rate of paths that end at zero.
    points, largest
        Number of sizes of the path variable at which the rate is computed, and the largest of them.
    **settings
        Parameters and laws, as for ``solve``.
    """
    from eqsolve.compile.values import binder_of
    from eqsolve.laplace.implicit import Prepared
    from eqsolve.solvers.singularity.solve import law_source

    chosen = model
    if largest is not None and largest <= 0:
        raise UsageError(f"largest= takes a positive number, got {largest:g}")
    if not isinstance(chosen, Singularity) or pole not in chosen.variables:
        raise UsageError(f"path_rates takes a Singularity with a variable `{pole}`, got `{getattr(chosen, 'name', chosen)}`")
    binder = binder_of(chosen)
    values = binder.read(settings)
    program = binder.plan(values).program(SINGULARITY)
    plan = program.plan(values)
    (random,) = plan.transform.randoms
    source, solution = law_source(program, values, (random,))
    if solution is None:
        raise UsageError(f"model `{chosen.name}` declares its law; path_rates needs one from a fixed point")
    prepared = Prepared(plan.transform, source, values.numbers)
    moving = solution.law(random)
    top = largest if largest is not None else float(max(abs(moving.quantile(0.999)), abs(moving.quantile(0.001))))
    bundle = plan.pole(pole, random)
    sizes = np.geomspace(1e-3 * top, top, points)
    guess = (-0.5 * sizes[0] + 0j, -0.5 * sizes[0] + 0j)
    rates, errors = np.empty(points), np.empty(points)
    with np.errstate(all="ignore"):
        for place, size in enumerate(sizes):
            table = []
            for offset in _OFFSETS:  # the pole lies on the cut: come to it from above
                guess = _solve(prepared, bundle, guess, complex(size * (1 - 1j * offset)), float(size))
                table.append(-guess[1].real)
            rates[place], errors[place] = extrapolate(table)
            if place + 1 < points:
                guess = tuple(value * sizes[place + 1] / size for value in guess)
    return PathRates(sizes, rates, errors, moving, solution.law(resting))


def _solve(
    prepared: Any, bundle: Bundle, guess: tuple[complex, complex], size: complex, real: float
) -> tuple[complex, complex]:
    """Solve h = 0 and the path's pole equation for (R, p), with the expectations resolved on the way."""
    R, p = guess
    outer = bundle.functions("numpy")[1]
    for _ in range(4):
        prepared.resolve(R, p)
        before = p
        for _ in range(30):
            d = prepared(R, p)
            value, by_R, by_p = outer(R, p, *prepared.floats, size)
            det = d.h_R * by_p - d.h_p * by_R
            dR, dp = (d.h * by_p - d.h_p * value) / det, (d.h_R * value - d.h * by_R) / det
            R, p = R - dR, p - dp
            if abs(dR) + abs(dp) <= 1e-12 * (abs(R) + abs(p)):
                break
        if not (np.isfinite(R) and np.isfinite(p)):
            raise SolverError(f"the rate of paths of size {real:.6g} was not found")
        if abs(p - before) <= 1e-6 * abs(p):
            break
    return complex(R), complex(p)
