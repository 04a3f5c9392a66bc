"""Reference solutions of stochastic systems, by a method that shares nothing with the engine; used by honesty.py.

Time is cut into panels with Radau nodes whose edges are the times asked for, so that nothing is interpolated and a response to a
kick at an edge is a smooth function on every panel. Gaussian drives are split into the eigenvectors of their covariance; the
strongest is integrated by equal steps, the next ones by Gauss–Hermite rules of decreasing size, all as one tensor product. The
means are iterated to their fixed point. Two resolutions, different in both respects, give the error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.polynomial import Legendre
from numpy.polynomial.hermite_e import hermegauss
from numpy.polynomial.legendre import leggauss

try:  # paths are solved on a GPU where there is one
    import cupy as xp

    xp.zeros(1)
    GPU = True
except Exception:  # no cupy, no driver or no device
    xp, GPU = np, False

CHUNK = 32768 if GPU else 4096  # paths solved at a time
DROP = 1e-13  # modes of less variance, relative to the first, are left out


@dataclass(frozen=True)
class Resolution:
    order: int  # nodes per panel
    step: float  # along the strongest mode, in standard deviations
    sizes: tuple[int, ...]  # of the rules along the next ones
    constant: int  # nodes for a constant with a continuous law


# the coarse one has a mode less, so that the error sees what is left out
COARSE = Resolution(8, 0.6, (8, 5, 3), 12) if GPU else Resolution(8, 0.55, (7, 4), 12)
FINE = Resolution(8, 0.5, (10, 6, 4, 2), 16) if GPU else Resolution(8, 0.42, (9, 5, 2), 16)
LATER = replace(COARSE, order=COARSE.order - 2)  # for the error of the time nodes


def solve_thrice(solver, model, settings, at, pairs):
    """Return curves, kernels and their errors: finer points from the start that fewer points gave, and fewer time nodes."""
    *low, state = solver(model, settings, at, pairs, COARSE)
    *other, _ = solver(model, settings, at, pairs, LATER)
    *high, _ = solver(model, settings, at, pairs, FINE, state)
    if not pairs:
        low[1], other[1], high[1] = {}, {}, {}
    errors = [
        {
            name: np.abs(fine[name] - few[name]) + np.abs(early[name] - few[name]) + 4e-15 * np.abs(fine[name]).max()
            for name in fine
        }
        for few, early, fine in zip(low, other, high, strict=True)
    ]
    return *high, *errors


def host(values):
    return xp.asnumpy(values) if GPU else values


def chunks(count):
    return (slice(begin, begin + CHUNK) for begin in range(0, count, CHUNK))


def mean_inverse(weights, slope, kernel):
    """Return the mean of D (I + K D)⁻¹ over paths, D the diagonal matrix of slopes."""
    total, one, kernel = 0.0, xp.eye(len(kernel)), xp.asarray(kernel)
    for rows in chunks(len(slope)):
        inverse = xp.linalg.inv(one + kernel * slope[rows, None, :])
        total = total + xp.tensordot(weights[rows], slope[rows, :, None] * inverse, 1)
    return host(total)


# --- time ----------------------------------------------------------------------------------------------------------------
class Panels:
    """Nodes at the start and at Radau points of every panel; ``integral`` is the operator J."""

    def __init__(self, edges, order):
        roots = np.sort((Legendre.basis(order) - Legendre.basis(order - 1)).roots().real)
        roots[-1] = 1.0
        basis = np.array([Legendre.basis(k)(roots) for k in range(order)]).T
        sums = np.array([Legendre.basis(k).integ(lbnd=-1)(roots) / 2 for k in range(order)]).T
        weights = sums @ np.linalg.inv(basis)
        self.edges, steps = np.asarray(edges, float), np.diff(edges)
        self.nodes = np.concatenate([[edges[0]], (self.edges[:-1, None] + steps[:, None] * (roots + 1) / 2).ravel()])
        self.integral = np.zeros((len(self.nodes), len(self.nodes)))
        for p in range(len(steps)):
            rows = slice(1 + p * order, 1 + (p + 1) * order)
            self.integral[rows, rows] = steps[p] * weights
            for q in range(p):
                self.integral[rows, 1 + q * order : 1 + (q + 1) * order] = steps[q] * weights[-1]

    def index(self, time):
        return int(np.argmin(np.abs(self.nodes - time)))

    def after(self, time):
        """Return the step function that is one after an edge, as values on the nodes."""
        return (self.nodes > time + 1e-12).astype(float)


def refine(times, longest):
    """Return edges that contain the given times, no panel longer than ``longest``."""
    edges = [0.0]
    for time in sorted({float(t) for t in times} - {0.0}):
        count = int(np.ceil((time - edges[-1]) / longest))
        edges += list(np.linspace(edges[-1], time, count + 1)[1:])
    return edges


# --- averages ------------------------------------------------------------------------------------------------------------
def rules(resolution, count, half_first=False):
    """Return tensor points of shape (points, modes) and weights; ``half_first`` keeps the positive half of the first axis."""
    reach = 7.5
    line = (np.arange(int(2 * reach / resolution.step)) + 0.5) * resolution.step
    line = line[line < reach]
    if not half_first:
        line = np.concatenate([-line[::-1], line])
    axes = [(line, np.exp(-(line**2) / 2) / np.exp(-(line**2) / 2).sum())]
    for size in resolution.sizes[: count - 1]:
        nodes, weights = hermegauss(size)
        axes.append((nodes, weights / weights.sum()))
    points = np.stack([mesh.ravel() for mesh in np.meshgrid(*(nodes for nodes, _ in axes), indexing="ij")], axis=1)
    weights = np.ones(1)
    for _, mass in axes:
        weights = np.multiply.outer(weights, mass).ravel()
    keep = weights > 1e-11
    return points[keep], weights[keep] / weights[keep].sum()


def modes(covariance, most):
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    kept = values > DROP * values[-1]
    factor = (vectors[:, kept] * np.sqrt(values[kept]))[:, ::-1][:, :most]
    return factor * np.where(factor.sum(axis=0) < 0, -1.0, 1.0)


def product(points, weights, nodes, masses):
    """Return points with one more column that runs over ``nodes``, and the weights."""
    more = np.repeat(nodes, len(points))
    return np.tile(points, (len(nodes), 1)), more, np.multiply.outer(masses, weights).ravel()


def solve_paths(paths, drive, kernel, order, force):
    """Solve x + K φ(x) = drive for all paths, panel by panel; ``force(x)`` gives φ and φ'. Starts from ``paths``."""
    value = xp.zeros_like(drive)
    paths[:, 0] = drive[:, 0]
    value[:, :1] = force(paths[:, :1])[0]
    for begin in range(1, drive.shape[1], order):
        here = slice(begin, begin + order)
        known = drive[:, here] - value[:, :begin] @ kernel[here, :begin].T
        block = kernel[here, here]
        for _ in range(60):
            value[:, here], slope = force(paths[:, here])
            wrong = paths[:, here] + value[:, here] @ block.T - known
            change = xp.linalg.solve(xp.eye(order) + block * slope[:, None, :], wrong[..., None])[..., 0]
            paths[:, here] -= xp.clip(change, -2, 2)
            if float(xp.abs(change).max()) < 1e-10:
                break
        else:
            raise RuntimeError("paths were not solved")
        value[:, here] = force(paths[:, here])[0]


def settle(step, state, tolerance=1e-9, most=80):
    """Iterate ``state = step(state)`` (a tuple of arrays) to its fixed point, with Anderson acceleration."""
    history = []
    for _ in range(most):
        new = step(state)
        sizes = [max(np.abs(item).max(), 1e-30) for item in new]
        x, y = (
            np.concatenate([item.ravel() / size for item, size in zip(which, sizes, strict=True)]) for which in (state, new)
        )
        if np.abs(y - x).max() < tolerance:
            return new
        history = [*history, (x, y - x)][-6:]
        z = y.copy()
        if len(history) > 1:
            dx, df = (np.diff([item[k] for item in history], axis=0) for k in (0, 1))
            z -= np.linalg.lstsq(df.T, y - x, rcond=1e-12)[0] @ (dx + df)
        state, at = [], 0
        for item, size in zip(new, sizes, strict=True):
            state.append(z[at : at + item.size].reshape(item.shape) * size)
            at += item.size
    raise RuntimeError(f"no fixed point: {np.abs(y - x).max():.1e} left")


# --- losses of a flow with linear weights ---------------------------------------------------------------------------------
def tanh_loss(f, star, zeta):
    y, target = xp.tanh(f), xp.tanh(star)
    first = 1 - y**2
    return (y - target) * first, first**2 - 2 * (y - target) * y * first, -first * (1 - target**2), (y - target) ** 2


def phase_loss(f, star, zeta):
    return (f**2 - star**2) * f / 2, 1.5 * f**2 - star**2 / 2, -f * star, (f**2 - star**2) ** 2


def logistic_loss(f, star, zeta):
    """``star`` is positive here: the half space left out is the mirror image."""
    slope = 1 / (1 + xp.exp(zeta * f))
    return -zeta * slope, slope * (1 - slope), None, xp.logaddexp(0, -zeta * f)


LOSSES = {"teacher_student_tanh": tanh_loss, "phase_retrieval": phase_loss, "logistic_regression": logistic_loss}


def flow(model, settings, at, pairs, resolution, start=None):
    """Solve w' = −(g + λw) with fields f = z_f − K ℓ(f, f*): teacher_student_tanh, phase_retrieval, logistic_regression."""
    loss = LOSSES[model]
    delta, lam = settings["delta"], settings["lam"]
    overlap_0 = settings.get("m_0", 0.0)
    spread_0 = 0.0 if model == "logistic_regression" else 0.25
    grid = Panels(refine([*at, *(t for pair in pairs for t in pair)], 0.5), resolution.order)
    n, J, one = len(grid.nodes), grid.integral, np.ones(len(grid.nodes))
    if loss is logistic_loss:  # a step at f* = 0: Gauss–Legendre on the half line
        nodes, masses = leggauss(2 * resolution.constant)
        stars, masses = 3.75 * (nodes + 1), masses * np.exp(-((3.75 * (nodes + 1)) ** 2) / 2)
        masses /= masses.sum()
    else:
        half = (np.arange(int(7.5 / (0.75 * resolution.step))) + 0.5) * 0.75 * resolution.step
        stars, masses = half, np.exp(-(half**2) / 2) / np.exp(-(half**2) / 2).sum()
    points, weights = rules(resolution, 1 + len(resolution.sizes))
    points, star, weights = product(points, weights, stars, masses)
    zeta = np.ones(len(star))
    if flip := settings.get("flip", 0.0):
        points, star = np.tile(points, (2, 1)), np.tile(star, 2)
        weights, zeta = np.concatenate([(1 - flip) * weights, flip * weights]), np.repeat([1.0, -1.0], len(zeta))
    keep = weights > 1e-11
    points, star, weights, zeta = (xp.asarray(x[keep]) for x in (points, star[:, None], weights, zeta[:, None]))
    paths, found = xp.zeros((len(star), n)), {}

    def step(state):
        A, force, C_l = state  # mean derivative of ℓ along z_f, along f*, and its covariance
        M = np.linalg.inv(np.eye(n) + J @ (A + lam * np.eye(n)))
        along = M @ (overlap_0 * one - J @ force)
        C_w = M @ (spread_0 * np.outer(one, one) + J @ C_l @ J.T / delta) @ M.T
        K = M @ J / delta
        factor = xp.asarray(modes(C_w, points.shape[1]))
        drive = star * xp.asarray(along) + points[:, : factor.shape[1]] @ factor.T
        if not paths.any():
            paths[:] = drive
        solve_paths(paths, drive, xp.asarray(K), resolution.order, lambda f: loss(f, star, zeta)[:2])
        value, slope, _, each = loss(paths, star, zeta)
        A_new = mean_inverse(weights, slope, K)
        force_new = host((star[:, 0] * weights) @ value) - A_new @ along
        found.update(along=along, K=K, C_w=C_w + np.outer(along, along), each=each, value=value, slope=slope)
        return A_new, force_new, host(value.T @ (value * weights[:, None]))

    A, force, C_l = settle(step, start or (np.zeros((n, n)), np.zeros(n), np.zeros((n, n))))
    along, C_w, K = found["along"], found["C_w"], found["K"]
    direct = loss(paths, star, zeta)[2]
    curves = {"m": along, "q": np.diag(C_w), "train_loss": host(weights @ found["each"])}
    curves["Gamma_f"] = host(weights @ found["slope"])
    if direct is None:
        curves |= {"m_w": along, "Gamma_f_star": force}
    else:
        curves["Gamma_f_star"] = host(weights @ direct)
    kernels = {name: np.zeros(len(pairs)) for name in ("C_w", "C_l", "R_w", "R_l_f", "R_l_f_star")}
    if direct is None:
        del kernels["R_l_f_star"]
    kicked = {}

    def kick_at(s):
        """Return K(t, s) and the answer of every path to a kick K(t, s), on later nodes: earlier ones do not know of it."""
        after = np.flatnonzero(grid.after(s))
        inner = slice(after[0], n)
        column, y = np.zeros(n), xp.zeros((len(paths), n))
        matrix = np.eye(n) + J @ (A + lam * np.eye(n))
        column[after] = np.linalg.solve(matrix[inner, inner], np.ones(len(after))) / delta
        kernel, later = xp.asarray(K[inner, inner]), xp.asarray(column[after])
        for rows in chunks(len(paths)):
            matrices = xp.eye(len(after)) + kernel * found["slope"][rows, inner][:, None, :]
            y[rows, inner] = xp.linalg.solve(matrices, xp.tile(later[None, :, None], (len(matrices), 1, 1)))[..., 0]
        return column, y

    for k, (t, s) in enumerate(pairs):
        i, j = grid.index(max(t, s)), grid.index(min(t, s))
        kernels["C_w"][k], kernels["C_l"][k] = C_w[i, j], C_l[i, j]
        names = [("R_l_f", found["slope"])] + ([("R_l_f_star", direct)] if direct is not None else [])
        if t < s:
            for name in kernels:
                if name.startswith("R"):
                    kernels[name][k] = 0.0
            continue
        if t == s:
            kernels["R_w"][k] = -1 / delta
            for name, kick in names:
                kernels[name][k] = -float(weights @ (found["slope"][:, j] * kick[:, j])) / delta
            continue
        if s not in kicked:
            kicked[s] = kick_at(s)
        column, y = kicked[s]
        kernels["R_w"][k] = -column[i]
        for name, kick in names:
            kernels[name][k] = -float(weights @ (found["slope"][:, i] * y[:, i] * kick[:, j]))
    where = [grid.index(t) for t in at]
    return {name: values[where] for name, values in curves.items()}, kernels, (A, force, C_l)


# --- many species ----------------------------------------------------------------------------------------------------------
def species(model, settings, at, pairs, resolution, begin=None):
    """Solve lotka_volterra, N(0) ~ Uniform(1/2, 3/2)."""
    mu, sigma, gamma = (settings[name] for name in ("mu", "sigma", "gamma"))
    grid = Panels(refine([*at, *(t for pair in pairs for t in pair)], 0.7), resolution.order)
    n, J = len(grid.nodes), grid.integral
    nodes, masses = leggauss(resolution.constant // 2)
    points, weights = rules(resolution, 1 + len(resolution.sizes))
    points, begin_at, weights = product(points, weights, 1 + nodes / 2, masses / 2)
    points, weights, start = xp.asarray(points), xp.asarray(weights), xp.asarray(np.log(begin_at)[:, None])
    paths, found = xp.tile(start, (1, n)), {}

    def step(state):
        C, R, m = state
        feedback = J @ (np.eye(n) - gamma * sigma**2 * R)  # of N on x
        factor = sigma * modes(C, points.shape[1])
        drive = start + xp.asarray(J @ (1 - mu * m)) + points[:, : factor.shape[1]] @ xp.asarray((J @ factor).T)
        kernel = xp.asarray(feedback)
        solve_paths(paths, drive, kernel, resolution.order, lambda x: (xp.exp(x), xp.exp(x)))
        N = xp.exp(paths)
        mean = mean_inverse(weights, N, feedback) if gamma else np.zeros((n, n))
        found.update(feedback=kernel)
        return host(N.T @ (N * weights[:, None])), mean @ J, host(weights @ N)

    C, R, m = settle(step, begin or (np.ones((n, n)), np.zeros((n, n)), np.ones(n)))
    N, feedback = xp.exp(paths), found["feedback"]
    kernels = {"C": np.zeros(len(pairs)), "R": np.zeros(len(pairs))}
    for k, (t, s) in enumerate(pairs):
        i, j = grid.index(t), grid.index(s)
        kernels["C"][k] = C[i, j]
        if t == s:
            kernels["R"][k] = m[i]
        elif t > s:
            after = np.flatnonzero(grid.after(s))
            for rows in chunks(len(paths)):
                matrix = xp.eye(len(after)) + feedback[after[0] :, after[0] :] * N[rows, after[0] :][:, None, :]
                y = xp.linalg.solve(matrix, xp.ones((len(matrix), len(after), 1)))[..., 0]
                kernels["R"][k] += float(weights[rows] @ (N[rows, i] * y[:, list(after).index(i)]))
    where = [grid.index(t) for t in at]
    return {"m": m[where], "q": np.diag(C)[where]}, kernels, (C, R, m)


# --- diagonal networks -------------------------------------------------------------------------------------------------------
def diagonal(model, settings, at, pairs, resolution, start=None):
    """Solve dln, dln_flow (two layers) and, with its time shifted, dln_rich; P(w* = 1) = ``p``, else w* = 0."""
    delta, lam, sigma2, p = (settings[name] for name in ("delta", "lam", "sigma2", "p"))
    shift = settings.get("tau0", 0.0)
    alpha = np.exp(-lam * shift / 2) if model == "dln_rich" else settings["alpha"]
    at, pairs = [t - shift for t in at], [(t - shift, s - shift) for t, s in pairs]
    grid = Panels(refine([*at, *(t for pair in pairs for t in pair)], settings["panel"]), resolution.order)
    n, J = len(grid.nodes), grid.integral
    scale = alpha**2 * np.exp(-lam * grid.nodes)
    half, mass = rules(resolution, 1 + len(resolution.sizes), half_first=True)  # w* = 0: odd in the drive
    whole, both = rules(resolution, 1 + len(resolution.sizes))
    points, weights = np.concatenate([half, whole]), np.concatenate([(1 - p) * mass, p * both])
    target = np.concatenate([np.zeros(len(half)), np.ones(len(whole))])[:, None]
    points, weights, target = xp.asarray(points), xp.asarray(weights), xp.asarray(target)
    paths, height = xp.zeros((len(points), n)), xp.asarray(scale)

    def solve_diagonal(kernel, drive):
        """With φ = h sinh θ and a height h that depends on time: x = θ, K h in place of K."""
        solve_paths(paths, drive, kernel * height, resolution.order, lambda theta: (xp.sinh(theta), xp.cosh(theta)))

    def step(state):
        A, C_w = state
        K = J @ np.linalg.inv(np.eye(n) + A @ J / delta)
        factor = modes(C_w + sigma2, points.shape[1])
        drive = target * xp.asarray(K.sum(axis=1)) - points[:, : factor.shape[1]] @ xp.asarray((K @ factor).T / np.sqrt(delta))
        solve_diagonal(xp.asarray(K), drive)
        off = height * xp.sinh(paths) - target
        return mean_inverse(weights, height * xp.cosh(paths), K), host(off.T @ (off * weights[:, None]))

    A, C_w = settle(step, start or (np.diag(scale), np.full((n, n), float(p))))
    w = height * xp.sinh(paths)
    slope = host(weights @ (height * xp.cosh(paths)))
    W = A @ J / delta
    inverse = np.linalg.inv(np.eye(n) + W)
    C_f = inverse @ (C_w + sigma2) @ inverse.T
    curves = {"E_train": np.diag(C_f), "E_test": np.diag(C_w) + sigma2}
    if model != "dln_rich":
        curves |= {
            "loss": np.diag(C_f) / 2 + lam * slope,
            "overlap": host(weights @ (w * target)),
            "l1": host(weights @ xp.abs(w)),
        }
    kernels = {name: np.zeros(len(pairs)) for name in ("C_w", "C_f", "R_w", "R_f")}
    for k, (t, s) in enumerate(pairs):
        i, j = grid.index(t), grid.index(s)
        kernels["C_w"][k], kernels["C_f"][k] = C_w[i, j], C_f[i, j]
        if t == s:  # the mean slope
            kernels["R_w"][k] = kernels["R_f"][k] = slope[i] / delta
        elif t > s:
            column = A @ grid.after(s) / delta
            after = np.flatnonzero(grid.after(s))
            memory = np.zeros(n)
            memory[after] = np.linalg.solve((np.eye(n) + W)[np.ix_(after, after)], column[after])
            kernels["R_w"][k], kernels["R_f"][k] = column[i], memory[i]
    where = [grid.index(t) for t in at]
    return {name: values[where] for name, values in curves.items()}, kernels, (A, C_w)
