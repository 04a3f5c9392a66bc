"""A solver for the two-layer diagonal linear network alone, specialised by hand and compiled: what generality costs.

    python benchmarks/specialised_dln.py [--accurate] [--t-max 20]

It shares no code with eqsolve, so it is an independent reference too. With W the operator of R_w on the nodes,
K = J (I + W)⁻¹ and a Gaussian drive ζ of covariance C_w + σ²:

    θ = −K (w − w* + ζ/√δ),  w = α² e^{−λt} sinh θ,   A = E[(D⁻¹ + K)⁻¹],  D = √(w² + α⁴ e^{−2λt}),   W = A J / δ,

so that A and C_w are the only unknowns. Time is cut into panels with Radau nodes. Needs numba (extra ``benchmark``).
"""

from __future__ import annotations

import argparse
import functools
import os
import time
from dataclasses import dataclass

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np
from numba import njit
from numpy.polynomial import Legendre
from scipy.special import roots_hermitenorm

CASES = ((0.3, 0.5, 0.0, 0.0), (1.0, 0.5, 0.1, 0.01), (2.0, 0.8, 0.0, 0.05), (0.1, 2.0, 0.05, 0.1), (5.0, 0.5, 0.5, 0.0))
LANES = 8  # paths solved side by side, so that the compiler makes vector instructions of them
LOOK = 100  # paths looked at to rotate the modes
STRONG = 0.1  # modes stronger than this are sampled as they are, of weaker ones only what is not linear
PROBABILITY = 0.1  # of w* = 1, else w* = 0


@dataclass(frozen=True)
class Settings:
    """How fine a solution is."""

    order: int = 4  # nodes per panel
    first: float = 0.5  # length of the first panel × rate
    growth: float = 1.5  # of panels
    accuracy: float = 1e-3  # of expectations
    sharp: float = 1.0  # a rule of n points along the strongest mode is trusted to exp(−sharp √n)
    margin: float = 1.0  # on the strengths of the other modes
    drop: float = 1e-9  # modes of less variance, relative to the first, are left out
    stop: float = 1e-4  # largest relative change in a sweep


FAST = Settings()  # 1e-3 and better
ACCURATE = Settings(order=6, accuracy=1e-6, margin=1.5, stop=1e-7)  # 1e-5


# --- time grid -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Grid:
    edges: np.ndarray
    order: int
    nodes: np.ndarray
    integral: np.ndarray  # J

    @staticmethod
    def make(edges: np.ndarray, order: int) -> Grid:
        roots = np.sort((Legendre.basis(order) - Legendre.basis(order - 1)).roots().real)
        roots[-1] = 1.0
        c = (roots + 1) / 2
        # integrals of the Lagrange polynomials from 0 to each node, in the Legendre basis
        basis = np.array([Legendre.basis(k)(roots) for k in range(order)]).T
        sums = np.array([Legendre.basis(k).integ(lbnd=-1)(roots) / 2 for k in range(order)]).T
        weights = sums @ np.linalg.inv(basis)
        steps, panels = np.diff(edges), len(edges) - 1
        integral = np.zeros((panels * order, panels * order))
        for p in range(panels):
            rows = slice(p * order, (p + 1) * order)
            integral[rows, rows] = steps[p] * weights
            for q in range(p):
                integral[rows, q * order : (q + 1) * order] = steps[q] * weights[-1]
        return Grid(edges, order, (edges[:-1, None] + steps[:, None] * c).ravel(), integral)

    def interpolation(self, times: np.ndarray) -> np.ndarray:
        """Return the matrix from values at 0 and at the nodes to values at given times (panelwise polynomials)."""
        known = np.concatenate([[0.0], self.nodes])
        panel = np.clip(np.searchsorted(self.edges, times, side="left") - 1, 0, len(self.edges) - 2)
        out = np.zeros((len(times), len(known)))
        for i, (x, p) in enumerate(zip(times, panel, strict=True)):
            which = np.arange(p * self.order, (p + 1) * self.order + 1)
            z = known[which]
            for j, k in enumerate(which):
                others = np.delete(z, j)
                out[i, k] = np.prod((x - others) / (z[j] - others))
        return out


def make_grid(alpha, delta, t_max, settings):
    rate = max(alpha**2, 0.1) * (1 + delta**-0.5) ** 2
    step = min(settings.first / rate, t_max / 3)
    steps = [step]
    while sum(steps) < t_max:
        steps.append(settings.growth * steps[-1])
    edges = np.concatenate([[0.0], np.cumsum(steps)])
    return Grid.make(edges * (t_max / edges[-1]), settings.order)


# --- paths (compiled) ------------------------------------------------------------------------------------------------
@njit(fastmath=True, cache=True)
def solve_paths(kernel, drive, scale, order, theta, w):
    """Solve θ = drive − K w, w = scale sinh θ, for all paths; theta holds a first guess. Shapes (batch, node, lane)."""
    batches, size, lanes = drive.shape
    matrix = np.empty((order, order))
    right = np.empty(order)
    known = np.empty((order, lanes))
    for b in range(batches):
        for p in range(0, size, order):
            known[:] = drive[b, p : p + order]
            for i in range(order):
                for r in range(p):
                    k = kernel[p + i, r]
                    for lane in range(lanes):
                        known[i, lane] -= k * w[b, r, lane]
            for lane in range(lanes):
                for _ in range(40):
                    for j in range(order):
                        up = np.exp(theta[b, p + j, lane])
                        low = 1.0 / up
                        w[b, p + j, lane] = 0.5 * scale[p + j] * (up - low)
                        d = 0.5 * scale[p + j] * (up + low)
                        for i in range(order):
                            matrix[i, j] = kernel[p + i, p + j] * d
                    for i in range(order):
                        total = known[i, lane] - theta[b, p + i, lane]
                        for j in range(order):
                            total -= kernel[p + i, p + j] * w[b, p + j, lane]
                        right[i] = total
                        matrix[i, i] += 1.0
                    for j in range(order):
                        for i in range(j + 1, order):
                            f = matrix[i, j] / matrix[j, j]
                            for k in range(j + 1, order):
                                matrix[i, k] -= f * matrix[j, k]
                            right[i] -= f * right[j]
                    largest = 0.0
                    for i in range(order - 1, -1, -1):
                        total = right[i]
                        for k in range(i + 1, order):
                            total -= matrix[i, k] * right[k]
                        right[i] = total / matrix[i, i]
                        largest = max(largest, abs(right[i]))
                    factor = 1.0 if largest < 3.0 else 3.0 / largest
                    for i in range(order):
                        theta[b, p + i, lane] += factor * right[i]
                    if largest < 1e-9 * (1.0 + abs(theta[b, p + order - 1, lane])):
                        break
            for j in range(order):
                for lane in range(lanes):
                    up = np.exp(theta[b, p + j, lane])
                    w[b, p + j, lane] = 0.5 * scale[p + j] * (up - 1.0 / up)


@njit(fastmath=True, cache=True)
def mean_response(kernel, theta, scale, weights, order):
    """Return the weighted sum over paths of (I + D K)⁻¹ D, by block columns; weights has shape (batch, lane)."""
    batches, size, lanes = theta.shape
    out = np.zeros((size, size))
    slope = np.empty((size, lanes))
    inverse = np.empty((size, order, lanes))  # of I + D K on the diagonal blocks
    wide = order * lanes
    column = np.empty((size, wide))
    line = np.empty((order, wide))
    matrix = np.empty((order, 2 * order))
    for b in range(batches):
        for i in range(size):
            for lane in range(lanes):
                up = np.exp(theta[b, i, lane])
                slope[i, lane] = 0.5 * scale[i] * (up + 1.0 / up)
        for p in range(0, size, order):
            for lane in range(lanes):
                for i in range(order):
                    for j in range(order):
                        matrix[i, j] = slope[p + i, lane] * kernel[p + i, p + j]
                        matrix[i, order + j] = 0.0
                    matrix[i, i] += 1.0
                    matrix[i, order + i] = slope[p + i, lane]
                for j in range(order):
                    f = 1.0 / matrix[j, j]
                    for k in range(2 * order):
                        matrix[j, k] *= f
                    for i in range(order):
                        if i != j:
                            f = matrix[i, j]
                            for k in range(j, 2 * order):
                                matrix[i, k] -= f * matrix[j, k]
                for i in range(order):
                    for j in range(order):
                        inverse[p + i, j, lane] = matrix[i, order + j]
        for q in range(0, size, order):
            for i in range(order):
                for j in range(order):
                    for lane in range(lanes):
                        column[q + i, j * lanes + lane] = inverse[q + i, j, lane]
            for p in range(q + order, size, order):
                for i in range(order):
                    row = kernel[p + i]
                    target = line[i]
                    for c in range(wide):
                        target[c] = 0.0
                    r = q
                    while r + 4 <= p:
                        k0, k1, k2, k3 = row[r], row[r + 1], row[r + 2], row[r + 3]
                        x0, x1, x2, x3 = column[r], column[r + 1], column[r + 2], column[r + 3]
                        for c in range(wide):
                            target[c] -= k0 * x0[c] + k1 * x1[c] + k2 * x2[c] + k3 * x3[c]
                        r += 4
                    while r < p:
                        k0 = row[r]
                        x0 = column[r]
                        for c in range(wide):
                            target[c] -= k0 * x0[c]
                        r += 1
                for i in range(order):
                    target = column[p + i]
                    for c in range(wide):
                        target[c] = 0.0
                    for k in range(order):
                        source = line[k]
                        for j in range(order):
                            for lane in range(lanes):
                                target[j * lanes + lane] += inverse[p + i, k, lane] * source[j * lanes + lane]
            for i in range(q, size):
                for j in range(order):
                    total = 0.0
                    for lane in range(lanes):
                        total += weights[b, lane] * column[i, j * lanes + lane]
                    out[i, q + j] += total
    return out


# --- points -----------------------------------------------------------------------------------------------------------
FIRST = (1, 3, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385)  # points along the strongest mode, by level
REACH = 6.0  # of equal steps


def _cost(level, mode, strength, sharp):
    """Return −log of what a level of the rule along a mode adds to an expectation."""
    if level == 0:
        return 0.0
    if mode == 0:
        return sharp * np.sqrt(FIRST[level - 1] - 1.0)
    return -(4 * level - 2) * np.log(strength)


def make_indices(strengths, accuracy, sharp):
    """Return the levels (one per mode) whose contribution to an expectation exceeds the accuracy."""
    found = []

    def grow(prefix, budget):
        mode = len(prefix)
        if mode == len(strengths):
            found.append(tuple(prefix))
            return
        level = 0
        while True:
            cost = _cost(level, mode, strengths[mode], sharp)
            if cost > budget or (mode == 0 and level >= len(FIRST)):
                break
            grow([*prefix, level], budget - cost)
            level += 1

    grow([], -np.log(accuracy))
    return found


def make_points(strengths, accuracy, sharp=2.0):
    """Return points and weights of a half space (its mirror image is implied): an anisotropic sparse Gauss–Hermite grid.

    The combination technique: Σ over levels ℓ of c(ℓ) times the tensor product of Gauss–Hermite rules with 2ℓ + 1
    points (FIRST[ℓ] along the strongest mode). c(ℓ) = Σ over e in {0, 1}^modes of (−1)^|e| if ℓ + e is in the set.
    """
    strengths = np.minimum(strengths, 0.9)
    strengths = strengths[: max(1, int((strengths**2 > accuracy).sum()))]
    indices = make_indices(strengths, accuracy, sharp)
    members, modes = set(indices), len(strengths)
    total = {}
    for index in indices:
        coefficient = 0

        def count(mode, current, sign):
            nonlocal coefficient
            if current not in members:
                return
            if mode == modes:
                coefficient += sign
                return
            count(mode + 1, current, sign)
            count(mode + 1, (*current[:mode], current[mode] + 1, *current[mode + 1 :]), -sign)

        count(0, index, 1)
        if coefficient == 0:
            continue
        rules = [along(FIRST[index[0]]), *(hermite(2 * level + 1) for level in index[1:])]
        mesh = np.meshgrid(*(nodes for nodes, _ in rules), indexing="ij")
        weights = np.full(1, float(coefficient))
        for _, mass in rules:
            weights = np.multiply.outer(weights, mass).ravel()
        for point, weight in zip(np.array([axis.ravel() for axis in mesh]).T.tolist(), weights.tolist(), strict=True):
            key = tuple(point) if next((x for x in point if x), 0.0) >= 0 else tuple(-x for x in point)
            total[key] = total.get(key, 0.0) + weight
    points, weights = np.array(list(total)), np.array(list(total.values()))
    keep = np.abs(weights) > 1e-3 * accuracy / len(weights)
    return points[keep], weights[keep] / weights[keep].sum()


@functools.cache
def along(count):
    """Return the rule along the strongest mode: Gauss–Hermite, or equal steps once there are enough of them."""
    if count < 17:
        return hermite(count)
    nodes = np.linspace(-REACH, REACH, count)
    nodes[count // 2] = 0.0
    nodes = (nodes - nodes[::-1]) / 2
    weights = np.exp(-(nodes**2) / 2)
    return nodes, weights / weights.sum()


@functools.cache
def hermite(count):
    nodes, weights = roots_hermitenorm(count)
    nodes[np.abs(nodes) < 1e-12] = 0.0
    half = nodes[count // 2 + 1 :] if count % 2 else nodes[count // 2 :]
    nodes = np.concatenate([-half[::-1], [0.0] if count % 2 else [], half])
    return nodes, weights / weights.sum()


class Ensemble:
    """Points for both atoms of w*: half space for w* = 0 (paths are odd in the drive), both signs for w* = 1."""

    def __init__(self, strengths, accuracy, sharp, size):
        half, mass = make_points(strengths, accuracy, sharp)
        self.points = np.concatenate([half, half, -half])
        p = PROBABILITY
        self.weights = np.concatenate([(1 - p) * mass, p / 2 * mass, p / 2 * mass])
        self.target = np.concatenate([np.zeros(len(half)), np.ones(2 * len(half))])
        self.count = len(self.weights)
        self.strong = int((np.asarray(strengths)[: half.shape[1]] > STRONG).sum())
        padded = -(-self.count // LANES) * LANES
        self.padding = padded - self.count
        self.lane_weights = np.pad(self.weights, (0, self.padding)).reshape(-1, LANES)
        self.theta = np.zeros((padded // LANES, size, LANES))
        self.w = np.zeros_like(self.theta)

    def to_lanes(self, values):  # (path, node) -> (batch, node, lane)
        values = np.pad(values, ((0, self.padding), (0, 0)), mode="edge")
        return np.ascontiguousarray(values.reshape(-1, LANES, values.shape[1]).transpose(0, 2, 1))

    def from_lanes(self, values):
        return values.transpose(0, 2, 1).reshape(-1, values.shape[1])[: self.count]


# --- sweeps ------------------------------------------------------------------------------------------------------------
class Solver:
    """The map (A, C_w) → (A, C_w) on the first nodes of a grid."""

    def __init__(self, alpha, delta, lam, sigma2, grid):
        self.alpha, self.delta, self.lam, self.sigma2, self.grid = alpha, delta, lam, sigma2, grid
        self.scale = alpha**2 * np.exp(-lam * grid.nodes)
        self.sweeps = 0
        self.paths = None  # some of the last sweep, with weights

    def kernel(self, response):
        n = len(response)
        integral = self.grid.integral[:n, :n]
        return np.linalg.solve((np.eye(n) + response @ integral / self.delta).T, integral.T).T

    def modes(self, covariance, drop):
        values, vectors = np.linalg.eigh(covariance + self.sigma2)
        kept = values > drop * values[-1]
        return (vectors[:, kept] * np.sqrt(values[kept]))[:, ::-1]

    def follow(self, covariance, reference):
        """Return modes as close as possible to the reference, so that the iteration is continuous."""
        values, vectors = np.linalg.eigh(covariance + self.sigma2)
        factor = (vectors * np.sqrt(np.maximum(values, 0)))[:, ::-1][:, : reference.shape[1]]
        left, _, right = np.linalg.svd(factor.T @ reference)
        return factor @ (left @ right)

    def rotate(self, covariance, kernel, response, drop):
        """Return modes by how nonlinear the paths are along them, and their strengths.

        What is linear in a mode costs no points: the mean response handles it. So modes are rotated to the eigenvectors
        of the covariance of the paths' responses, relative to √(C_w + σ²), and strengths are the roots of its eigenvalues.
        Without paths to look at, to the singular vectors of the mean response.
        """
        factor = self.modes(covariance, drop)
        n = len(covariance)
        if self.paths is None or self.paths[0].shape[1] != n:
            _, strengths, right = np.linalg.svd(response @ (kernel @ factor), full_matrices=False)
            return factor @ right.T, strengths / strengths[0]
        w, weights = self.paths
        slope = np.sqrt(w**2 + self.scale[:n] ** 2)[:, :, None]
        each = np.linalg.solve(np.eye(n) + slope * kernel, slope * (kernel @ factor / np.sqrt(self.delta)))
        each -= np.tensordot(weights, each, 1)
        size = np.maximum(covariance.diagonal() + self.sigma2, 1e-3 * covariance.max())
        each *= (np.sqrt(weights)[:, None] / np.sqrt(size))[:, :, None]
        flat = each.reshape(-1, factor.shape[1])
        values, vectors = np.linalg.eigh(flat.T @ flat)
        return factor @ vectors[:, ::-1], np.sqrt(np.maximum(values[::-1], 1e-30))

    def sweep(self, response, covariance, ensemble, factor, kernel):
        n = len(response)
        self.sweeps += 1
        used = factor[:, : ensemble.points.shape[1]]
        drive = ensemble.points @ (used.T / np.sqrt(self.delta)) @ -kernel.T
        drive += np.multiply.outer(ensemble.target, kernel.sum(axis=1))
        scale = self.scale[:n]
        solve_paths(kernel, ensemble.to_lanes(drive), scale, self.grid.order, ensemble.theta, ensemble.w)
        new_response = mean_response(kernel, ensemble.theta, scale, ensemble.lane_weights, self.grid.order)
        off = ensemble.from_lanes(ensemble.w) - ensemble.target[:, None]
        some = np.argsort(-np.abs(ensemble.weights))[:LOOK]
        mass = np.abs(ensemble.weights[some])
        self.paths = (off + ensemble.target[:, None])[some], mass / mass.sum()
        # By Stein's lemma E[w ξ] is the mean response, so the part linear in the modes is exact and only the rest is averaged.
        effect = new_response @ kernel / np.sqrt(self.delta)
        strong = ensemble.strong
        rest = off + ensemble.points[:, strong:] @ (effect @ used[:, strong:]).T
        weak = covariance + self.sigma2 - used[:, :strong] @ used[:, :strong].T
        new_covariance = effect @ weak @ effect.T + rest.T @ (rest * ensemble.weights[:, None])
        return new_response, new_covariance, ensemble.from_lanes(ensemble.theta).T @ (off * ensemble.weights[:, None])

    def newton(self, kernel, response, change, change_covariance, cross):
        """Return the Newton step of the system with mean responses in place of those of each path.

        There dA' = M dA P with M = A K/√δ, P = K A/√δ, and dC' = M dC Mᵀ − (M dA T + its transpose)/√δ with
        T = E[θ (w − w*)ᵀ]; the series over powers of M are summed by doubling.
        """
        root = np.sqrt(self.delta)
        left, right = response @ kernel / root, kernel @ response / root
        powers = [left]
        blocks = [left[k : k + self.grid.order, k : k + self.grid.order] for k in range(0, len(left), self.grid.order)]
        radius = np.abs(np.linalg.eigvals(np.array(blocks))).max()
        most = 10 if radius < 0.97 else 2  # far from the solution the series may diverge
        while len(powers) < most and np.abs(powers[-1]).max() > 1e-6:
            powers.append(powers[-1] @ powers[-1])
        for power in powers:
            change = change + power @ change @ right
            right = right @ right
        shift = left @ change @ (cross / root)
        change_covariance = change_covariance - shift - shift.T
        for power in powers:
            change_covariance = change_covariance + power @ change_covariance @ power.T
        return change, change_covariance

    def iterate(self, response, covariance, accuracy, stop, settings, most=60, depth=6, rotate=2):
        """Sweep to the fixed point with Anderson acceleration; modes are rotated afresh in the first sweeps only."""
        n = len(response)
        history, reference, ensemble = [], None, None
        self.residuals = []
        for count in range(most):
            kernel = self.kernel(response)
            if count < rotate:
                factor, self.strengths = self.rotate(covariance, kernel, response, settings.drop)
                ensemble = Ensemble(settings.margin * self.strengths, accuracy, settings.sharp, n)
                history = []
            else:
                factor = self.follow(covariance, reference)
            reference = factor
            new_response, new_covariance, cross = self.sweep(response, covariance, ensemble, factor, kernel)
            residual = np.abs(np.diag(new_covariance - covariance) / np.diag(new_covariance + self.sigma2)).max()
            residual = max(residual, np.abs(new_response - response).max() / np.abs(new_response).max())
            self.residuals.append(residual)
            if residual < stop:
                return new_response, new_covariance, residual
            step = self.newton(kernel, new_response, new_response - response, new_covariance - covariance, cross)
            sizes = np.abs(new_response).max(), np.abs(new_covariance).max()
            x = np.concatenate([response.ravel() / sizes[0], covariance.ravel() / sizes[1]])
            f = np.concatenate([step[0].ravel() / sizes[0], step[1].ravel() / sizes[1]])
            history = [*history, (x, f)][-depth:]
            y = x + f
            if len(history) > 1:
                dx, df = (np.diff([item[k] for item in history], axis=0) for k in (0, 1))
                gram = df @ df.T
                gram += 1e-14 * np.trace(gram) * np.eye(len(gram))
                y -= np.linalg.solve(gram, df @ f) @ (dx + df)
            response, covariance = y[: n * n].reshape(n, n) * sizes[0], y[n * n :].reshape(n, n) * sizes[1]
        return response, covariance, residual

    def start(self, settings, accuracy=0.05, together=2):
        """Grow the window panel by panel with few points and few sweeps."""
        order, size = self.grid.order, len(self.grid.nodes)
        covariance = np.full((0, 0), PROBABILITY)
        response = np.zeros((0, 0))
        while len(response) < size:
            old = len(response)
            n = min(old + together * order, size)
            grown, wider = np.zeros((n, n)), np.full((n, n), PROBABILITY)
            grown[:old, :old], wider[:old, :old] = response, covariance
            if old:  # the last row goes on: as if the mean path stood still
                wider[old:, :old] = covariance[-1]
                wider[:old, old:] = covariance[-1][:, None]
                wider[old:, old:] = covariance[-1, -1]
            slope = (
                np.full(n, self.scale[0])
                if not old
                else np.concatenate([np.zeros(old), np.full(n - old, response.diagonal()[-order:].max())])
            )
            for _ in range(3):  # response of a path with that slope, consistent with its own W
                kernel = self.kernel(grown)
                trial = np.linalg.solve(np.eye(n) + np.diag(slope) @ kernel, np.diag(slope))
                grown[old:] = trial[old:]
                if old:
                    break
            response, covariance, _ = self.iterate(grown, wider, accuracy, 1e-2, settings, most=4, rotate=99)
        return response, covariance


@dataclass(frozen=True)
class Solution:
    grid: Grid
    response: np.ndarray
    covariance: np.ndarray
    test: np.ndarray
    train: np.ndarray
    sweeps: int
    residual: float
    paths: int
    modes: np.ndarray
    sigma2: float

    def at(self, times):
        """Return E_test and E_train at given times."""
        matrix = self.grid.interpolation(np.asarray(times, float))
        begin = PROBABILITY + self.sigma2
        return matrix @ np.concatenate([[begin], self.test]), matrix @ np.concatenate([[begin], self.train])


def solve(alpha, delta, lam, sigma2, t_max, settings=FAST):
    """Solve the model on [0, t_max]."""
    solver = Solver(alpha, delta, lam, sigma2, make_grid(alpha, delta, t_max, settings))
    response, covariance = solver.start(settings)
    response, covariance, residual = solver.iterate(response, covariance, settings.accuracy, settings.stop, settings)
    n = len(response)
    inverse = np.linalg.inv(np.eye(n) + response @ solver.grid.integral / delta)
    train = np.einsum("ij,jk,ik->i", inverse, covariance + sigma2, inverse)
    half = len(make_points(settings.margin * solver.strengths, settings.accuracy, settings.sharp)[0])
    return Solution(
        solver.grid,
        response,
        covariance,
        covariance.diagonal() + sigma2,
        train,
        solver.sweeps,
        residual,
        3 * half,
        solver.strengths,
        sigma2,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--accurate", action="store_true", help="settings for 1e-5 instead of 1e-3")
    parser.add_argument("--t-max", type=float, default=20)
    arguments = parser.parse_args()
    settings = ACCURATE if arguments.accurate else FAST
    solve(*CASES[0], 1.0)
    print("alpha delta lam sigma2   E_test     E_train   CPU s  nodes paths sweeps (at t_max)")
    for case in CASES:
        begin = time.process_time()
        found = solve(*case, arguments.t_max, settings)
        seconds = time.process_time() - begin
        print(
            f"{case[0]:5} {case[1]:5} {case[2]:4} {case[3]:5} {found.test[-1]:10.7f} {found.train[-1]:10.3e} {seconds:6.3f}"
            f" {len(found.test):5} {found.paths:5} {found.sweeps:5}"
        )


if __name__ == "__main__":
    main()
