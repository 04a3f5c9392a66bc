"""Panels for a Gaussian system: the first ones, denser ones, and others of another order to compare with."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.relations import Kernels, Pointwise
from eqsolve.solvers.gaussian.law import Law
from eqsolve.solvers.gaussian.march import Marched
from eqsolve.solvers.stochastic.control import Control
from eqsolve.solvers.stochastic.modes import Group, groups_of


def rate(begun: Marched) -> float:
    """Return how fast the unknowns move or react at the start, from a solution on its first node."""
    groups = groups_of(begun.covariances, begun.kernels, whole=True)
    return max([1e-6, *(_rate(item.law, begun.kernels, groups) for laws in begun.laws for item in laws)])


def _rate(law: Law, kernels: Kernels, groups: Sequence[Group]) -> float:
    plan, condition = law.plan, law.condition
    offsets, slopes, _, by_constant = law.signals(kernels, slice(0, 1))
    reach = np.sqrt(condition.variances + condition.centres**2)
    sizes = 1.0 + np.abs(law.constants[:, 0, :-1]) @ reach + np.abs(law.constants[:, 0, -1])
    speeds, fastest = np.zeros(len(plan.unknowns)), 0.0
    for link in plan.links:
        if link.kernel is None and plan.integrated[link.unknown]:
            weight = abs(_first(kernels, link.coefficient))
            fastest = max(fastest, weight * float(np.abs(slopes[link.signal, :, 0]).max(initial=0.0)))
            speeds[link.unknown] += weight * (abs(offsets[link.signal, 0]) + np.abs(by_constant[link.signal, 0]) @ reach)
    for drive in plan.drives:
        if plan.integrated[drive.unknown]:
            group = next(item for item in groups if drive.noise in item.noises)
            place, centre = group.rows(drive.noise).start, group.centres[group.noises.index(drive.noise)][0]
            size = math.sqrt(max(float(group.covariance[place, place]), 0.0) + float(centre) ** 2)
            speeds[drive.unknown] += abs(_first(kernels, drive.coefficient)) * size
    return max(fastest, float((speeds / sizes).max(initial=0.0)))


def _first(kernels: Kernels, coefficient: Pointwise | None) -> float:
    return 1.0 if coefficient is None else float(kernels.vector(coefficient)[0])


def first_panels(begin: float, end: float, fastest: float, order: int, control: Control) -> PanelGrid:
    """Return geometric panels whose first length follows from how fast unknowns move at the start."""
    span, steps = end - begin, [min(control.first / max(fastest, 1e-12), (end - begin) / 4)]
    while sum(steps) < span:
        steps.append(control.growth * steps[-1])
    edges = np.concatenate([[0.0], np.cumsum(steps)])
    return PanelGrid(begin + edges * (span / edges[-1]), order)


def halved(panels: PanelGrid, panel: int) -> PanelGrid:
    """Return panels with one of them cut in two, and later ones into pieces no longer than these."""
    steps = np.diff(panels.edges)
    pieces = [2 if place == panel else max(1, math.ceil(2 * step / steps[panel] - 1e-9)) if place > panel else 1
              for place, step in enumerate(steps)]  # fmt: skip
    edges = [edge + step * np.arange(count) / count for edge, step, count in zip(panels.edges, steps, pieces, strict=False)]
    return PanelGrid(np.append(np.concatenate(edges), panels.edges[-1]), panels.order)


def denser(panels: PanelGrid, ratios: Array) -> PanelGrid:
    """Return panels that are denser by given ratios, panel by panel."""
    wanted = np.append(0.0, np.cumsum(ratios))
    position = np.linspace(0, wanted[-1], math.ceil(wanted[-1]) + 1)
    return PanelGrid(np.interp(position, wanted, panels.edges), panels.order)


def other_panels(panels: PanelGrid, control: Control) -> PanelGrid:
    """Return other panels of another order, with about as many nodes: the next one, as far as responses are known in it."""
    order = panels.order + 1 if panels.order < control.highest else panels.order - 1
    position = np.linspace(0, panels.panels, math.ceil(control.other * panels.size / order) + 1)
    return PanelGrid(np.interp(position, np.arange(panels.panels + 1), panels.edges), order)
