"""Expectations over Gaussians and points on panels split at kinks, against closed forms; no model behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.quadrature import (
    Evaluator,
    LawBranch,
    PanelMesh,
    adapt,
    coarse_mesh,
    expectations,
    gradients,
    make_lines,
    normal_density,
)

WHOLE = (LawBranch(1.0, (), ()),)


@dataclass(frozen=True)
class Threshold:
    """Of one unknown t and one normal variable x: the sign of x − t is a switch; integrands are given functions of both."""

    value: Callable[[Any, Any, Any], list[Any]]
    slope: Callable[[Any, Any, Any], list[Any]]  # along t, the sign held
    means: int
    normals: tuple[str, ...] = ("x",)
    constants: tuple[str, ...] = ()
    is_switch: tuple[bool, ...] = (True,)
    switches: tuple[int, ...] = (0,)
    linear: tuple[bool, ...] = (True,)
    combinations: tuple[list[tuple[int, ...]], ...] = ([(1,)],)
    needed: tuple[bool, ...] = (True,)
    carriers: int = 0
    aligned: bool = True
    degree: int = 1

    def piece(self, what: str, *detail: Any) -> Callable[..., list[Any]]:
        found: dict[str, Callable[..., list[Any]]] = {
            "integrands": self.value,
            "integrand slopes": self.slope,
            "switch": lambda t, x, _: [x - t],
            "switch slopes": lambda t, x, _: [-1.0, 1.0],
            "landmarks": lambda *_: [],
        }
        return found[what]

    def run_stages(self, arguments: list[Any], size: int, signs: Sequence[Array] | None = None, **_: Any) -> list[Any]:
        if not self.is_switch:
            return arguments
        t, x = arguments
        return [t, x, np.sign(np.broadcast_to(x - t, (size,))) if signs is None else signs[0]]


def adapted(plan: Threshold, t: Array) -> tuple[Evaluator, PanelMesh]:
    integrands = Evaluator(plan, (), t[None])
    return integrands, adapt(integrands, make_lines(plan, WHOLE, (), integrands.unknowns, 24))


# (x − t)₊, |x − t|, [x > t] and the smooth cos x
KINKED = Threshold(
    lambda t, x, s: [(x - t) * (1 + s) / 2, (x - t) * s, (1 + s) / 2 + 0 * x, np.cos(x)],
    lambda t, x, s: [-(1 + s) / 2, -s, 0 * x, 0 * x],
    4,
)


@pytest.mark.parametrize("t", [-3.0, -0.4, 0.0, 1e-9, 0.7, 6.0])
def test_means_of_kinks_and_jumps_are_exact(t: float) -> None:
    density, above = normal_density(np.array(t)), ndtr(-t)
    expected = [density - t * above, 2 * (density - t * above) + t, above, np.exp(-0.5)]
    integrands, mesh = adapted(KINKED, np.array([t]))
    assert expectations(integrands, mesh)[:, 0] == pytest.approx(expected, rel=1e-13, abs=1e-16)
    assert expectations(integrands, mesh.halved())[:, 0] == pytest.approx(expected, rel=1e-13, abs=1e-16)


def test_slopes_have_the_terms_of_moving_jumps() -> None:
    """d/dt of E(x − t)₊ is −P(x > t), of P(x > t) minus the density: all of the latter comes from the jump."""
    t = 0.7
    integrands, mesh = adapted(KINKED, np.array([t]))
    _, slopes, sizes = gradients(integrands, mesh, ("t",))
    expected = [-ndtr(-t), ndtr(t) - ndtr(-t), -float(normal_density(np.array(t))), 0.0]
    assert slopes[:, 0] == pytest.approx(expected, abs=1e-13)
    assert (sizes[:, 0] >= np.abs(expectations(integrands, mesh)[:, 0]) - 1e-15).all()


def test_several_unknowns_at_once_are_each_on_their_own() -> None:
    t = np.array([-1.0, 0.2, 2.0])
    integrands = Evaluator(KINKED, (), t[None])
    mesh = coarse_mesh(integrands, make_lines(KINKED, WHOLE, (), integrands.unknowns, 24), 12)
    together = expectations(integrands, mesh)
    for place, value in enumerate(t):
        alone = Evaluator(KINKED, (), np.array([[value]]))
        own = coarse_mesh(alone, make_lines(KINKED, WHOLE, (), alone.unknowns, 24), 12)
        assert together[:, place] == pytest.approx(expectations(alone, own)[:, 0], rel=1e-14)


def test_a_mesh_follows_its_kinks() -> None:
    """Moved to another threshold, the panels of the first still end at the kink: the mean stays exact."""
    _, mesh = adapted(KINKED, np.array([0.3]))
    there = Evaluator(KINKED, (), np.array([[0.32]]))
    moved = mesh.moved(there.kinks(mesh.lines))
    assert expectations(there, moved)[2, 0] == pytest.approx(ndtr(-0.32), rel=1e-13)


def test_points_and_gaussians_mix() -> None:
    """With probability 1/4 the constant is 2, else Normal(0, 9): E c² = 1/4·4 + 3/4·9."""
    plan = Threshold(lambda t, c: [c**2, np.cos(c)], lambda t, c: [0 * c, 0 * c], 2, (), ("c",), (), (), (), (), degree=2)
    integrands = Evaluator(plan, (), np.array([[0.0]]))
    parts = (LawBranch(0.25, (2.0,), (0.0,)), LawBranch(0.75, (0.0,), (9.0,)))
    mesh = adapt(integrands, make_lines(plan, parts, (), integrands.unknowns, 24))
    expected = [0.25 * 4 + 0.75 * 9, 0.25 * np.cos(2.0) + 0.75 * np.exp(-4.5)]
    assert expectations(integrands, mesh)[:, 0] == pytest.approx(expected, rel=1e-13)
