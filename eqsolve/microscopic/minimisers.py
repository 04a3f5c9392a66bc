"""The estimators at finite size that fixed points describe; a model names its own by ``minimises=Minimiser(...)``.

``minimise(binding, X, y)`` gives the weights for any bound `FixedPoint` that declares a minimiser; ``draw`` makes X, y
and w*, ``measure`` the numbers to hold against the theory, and ``finite_size`` all of it over several seeds:

- strength λ > 0, J quadratic: a linear system; J = a|w| + bw²/2: coordinate descent, which finds the coordinates that are not
  zero, and a linear system for these; any other smooth convex J: scipy's L-BFGS.
- λ = 0 and n > d: least squares. λ = 0 and n < d: the interpolator of least Σ J(w), by Newton's method on the dual,
  where w = (J')⁻¹(Xᵀν) and Xw = y.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sympy import Abs, Expr, S, Symbol, sign

from eqsolve.arguments import checked, whole
from eqsolve.compile.fixed_point import FixedPointPlan
from eqsolve.compile.lowering import lower
from eqsolve.errors import SolverError, UsageError
from eqsolve.language.binding import Binding, bind
from eqsolve.language.laws import Point
from eqsolve.language.loading import read_model
from eqsolve.language.model import Model
from eqsolve.language.nodes import proximal
from eqsolve.language.symbols import Parameter, Random
from eqsolve.language.system import FixedPoint, Minimiser
from eqsolve.microscopic.data import Placement, balance_regression
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.constants import draw_law
from eqsolve.numerics.increasing import increasing_roots
from eqsolve.passes.forms.structure import reduce_fixed_point
from eqsolve.results.distribution import Distribution

# Approximate message passing for penalised regression, and the state evolution that tracks it.
# r_k = y − X w_k + b_k r_{k−1} (the Onsager term), w_{k+1} = η(w_k + Xᵀr_k/δ; t_{k+1}),
# b_k = ⟨η'⟩/δ, t_{k+1} = λ + b_k t_k. η is derived from the penalty that the model declares.


@dataclass(frozen=True)
class MessagePassing:
    """The run of the iteration: per step k ≥ 1 the noise level σ²_k, b_k, t_k and the error |w_k − w*|²/d.

    ``status`` is ``"converged"``, ``"stopped"`` after the steps asked for, or ``"diverged"``; ``message`` says more.
    """

    weights: Array
    sigma2: Array
    b: Array
    t: Array
    error: Array
    status: str
    message: str = ""


@checked(model=read_model, d=whole(1), steps=whole(1))
def message_passing(model: Model | str, *, d: int, steps: int, seed: int = 0, **parameters: Any) -> MessagePassing:
    """Draw data for a fixed point that names its estimator, and run message passing on them from w = 0.

    Parameters
    ----------
    model
        A ``FixedPoint`` with ``minimises=`` a penalty of positive strength, its name, or its file.
    d, steps, seed
        Number of coordinates, steps at most, and seed of the data.
    **parameters
        Parameters and laws.
    """
    assert isinstance(model, Model)
    binding = bind(model, parameters)
    X, y, target = draw(binding, d, seed)
    return pass_messages(binding, X, y, steps=steps, target=target)


def pass_messages(
    binding: Binding, X: Array, y: Array, *, steps: int, target: Array | None = None, tolerance: float = 0.0
) -> MessagePassing:
    """Run the iteration from w = 0 with t_1 = 2λ; stop early when the weights change by less than ``tolerance``.

    A residual that grows a thousandfold is called divergence.
    """
    spec = declared(binding)
    strength, ratio = binding.number(spec.strength), binding.number(spec.ratio)
    if spec.penalty is None or not strength > 0:
        raise UsageError(f"model `{binding.model.name}`: message passing needs a penalty with a positive strength")
    shrink = _shrinkage(binding)
    n, d = X.shape
    weights, residual, onsager, t = np.zeros(d), np.zeros(n), 0.0, 2 * strength
    rows: list[tuple[float, float, float, float]] = []
    first = float(y @ y)
    status, message = "stopped", f"{steps} steps done"
    for step in range(1, steps + 1):
        residual = y - X @ weights + onsager * residual
        size = float(residual @ residual)
        if not np.isfinite(size) or size > 1e6 * first:
            status = "diverged"
            message = f"diverged at step {step}: the residual has grown to {np.sqrt(size / first):.2g} times |y|"
            break
        new, slope = shrink(weights + X.T @ residual / ratio, t)
        onsager = float(np.mean(slope)) / ratio
        gap = float(np.max(np.abs(new - weights)))
        weights = new
        error = float(np.mean((weights - target) ** 2)) if target is not None else float("nan")
        rows.append((size / n / ratio, onsager, t, error))
        t = strength + onsager * t
        if gap <= tolerance and step > 1:  # the first threshold may leave nothing
            status, message = "converged", f"after {step} steps the weights change by {gap:.2g}"
            break
    sigma2, b, thresholds, errors = np.array(rows).reshape(-1, 4).T
    return MessagePassing(weights, sigma2, b, thresholds, errors, status, message)


def _shrinkage(binding: Binding) -> Any:
    """Return η and η' as a function of arrays (x, t), from the penalty of the model."""
    spec = declared(binding)
    x, t = Random("x", None, (Point(0),)), Parameter("t")
    value, slope = proximal(binding.apply(spec.penalty), spec.variable, x, t)
    holder = FixedPoint("shrinkage", [], variables={"value": value, "slope": slope})
    plan = FixedPointPlan(holder, reduce_fixed_point(holder, {}, frozenset()))

    def shrink(at: Array, threshold: float) -> tuple[Array, Array]:
        given = [*([threshold] * len(plan.parameters)), *([at] * len(plan.constants))]
        full = plan.run_stages(given, len(at))
        with np.errstate(all="ignore"):
            found = plan.piece("variables", "value", "slope")(*full)
        first, second = (np.array(np.broadcast_to(entry, at.shape), dtype=float) for entry in found)
        return first, second

    return shrink


def declared(binding: Binding) -> Minimiser:
    """Return the minimiser a model declares; a clear error when it has none."""
    model = binding.model
    found = model.minimises if isinstance(model, FixedPoint) else None
    if found is None:
        raise UsageError(
            f"model `{model.name}` ({model.location}) names no estimator; declare it with minimises=Minimiser(...)"
        )
    return found


def draw(binding: Binding, d: int, seed: int, *, exact: bool = False) -> tuple[Array, Array, Array]:
    """Return X (n × d, entries of variance 1/d), y = Xw* + ξ, and w* drawn from its law.

    With ``exact`` the draw is balanced: w*, ξ and the first vectors that X makes of them have their laws to the letter.
    """
    spec = declared(binding)
    rng = np.random.default_rng(seed)
    n = round(binding.number(spec.ratio) * d)
    law, size = binding.laws[spec.target], np.sqrt(binding.number(spec.noise))
    if exact:
        n = int(binding.number(spec.ratio) * d + rng.random())
        on_coordinates, on_samples = Placement(d, rng), Placement(n, rng)
        target = draw_law(law.numeric(), d, rng, "balanced", on_coordinates.order)
        noise = size * on_samples.normal(np.empty((n, 0)))
        matrix = balance_regression(target, noise, on_samples, on_coordinates, rng)
    else:
        target = law.numeric().sample(rng, d)
        matrix = rng.standard_normal((n, d)) / np.sqrt(d)
        noise = size * rng.standard_normal(n)
    return matrix, matrix @ target + noise, target


def minimise(binding: Binding, X: Array, y: Array, *, tolerance: float = 1e-10) -> Array:
    """Return the weights of the estimator that the model declares, for given data."""
    spec = declared(binding)
    n, d = X.shape
    strength = binding.number(spec.strength)
    if strength == 0:
        if n >= d:
            return np.asarray(np.linalg.lstsq(X, y, rcond=None)[0])
        return interpolate(*_dual(binding, spec), X, y, tolerance=tolerance)
    if spec.penalty is None:
        raise UsageError(f"model `{binding.model.name}`: a positive strength needs penalty=, not inverse_slope=")
    J, w, ratio = binding.apply(spec.penalty), spec.variable, binding.number(spec.ratio)
    smooth = J.subs(Abs(w), 0)
    kink = (J - smooth).subs(Abs(w), 1) if J.has(Abs) else S.Zero
    quadratic = not smooth.has(Abs, sign) and not smooth.diff(w, 2).free_symbols and smooth.diff(w).subs(w, 0) == 0
    if quadratic and not kink.free_symbols:
        bend = float(smooth.diff(w, 2)) * strength
        if kink == 0:
            return np.asarray(np.linalg.solve(X.T @ X / ratio + bend * np.eye(d), X.T @ y / ratio))
        return _elastic(X, y, float(kink) * strength / d, bend / d, tolerance)
    if J.has(Abs, sign):
        raise UsageError(f"no minimiser for the penalty {J}: expected a|w| + bw²/2, or a smooth convex function")
    from scipy.optimize import minimize

    with_slope = _with_slope(J, w)

    def objective(weights: Array) -> tuple[float, Array]:
        gap, (values, slopes) = X @ weights - y, with_slope(weights)
        return float(gap @ gap / (2 * ratio) + strength * np.sum(values)), X.T @ gap / ratio + strength * slopes

    how = {"maxiter": 20_000, "ftol": 1e-16, "gtol": 1e-10}
    return np.asarray(minimize(objective, np.zeros(d), jac=True, method="L-BFGS-B", options=how).x)


def _elastic(X: Array, y: Array, absolute: float, square: float, tolerance: float) -> Array:
    """Return argmin |y − Xw|²/(2n) + absolute |w|₁ + square |w|²/2.

    Coordinate descent (Friedman, Hastie & Tibshirani, J. Stat. Softw. 33(1), 2010) on the coordinates
    that move; once their signs stay, the balance of forces is a linear system for them,
    H w = c − absolute sign(w). It is the minimum if no sign changes and no force on a zero exceeds
    ``absolute``. It is tried after 1, 2, 4, ... sweeps more.
    """
    n, d = X.shape
    hessian = X.T @ X / n
    hessian[np.diag_indices(d)] += square
    pull = X.T @ y / n
    curvature = np.maximum(hessian.diagonal(), 1e-300)
    weights, force = np.zeros(d), pull.copy()  # force = pull − hessian weights
    slack = tolerance * max(absolute, float(np.abs(pull).max()))
    sweeps, moved = 1, np.inf
    while moved > slack:
        before = weights.copy()
        for _ in range(sweeps):
            for j in np.flatnonzero((weights != 0) | (np.abs(force) > absolute)):
                wanted = force[j] + curvature[j] * weights[j]
                new = np.sign(wanted) * max(abs(wanted) - absolute, 0.0) / curvature[j]
                if new != weights[j]:
                    force -= hessian[j] * (new - weights[j])
                    weights[j] = new
        sweeps, moved = 2 * sweeps, float(np.abs(curvature * (weights - before)).max())
        support, signs = np.flatnonzero(weights), np.sign(weights[weights != 0])
        exact = np.zeros(d)
        try:
            exact[support] = np.linalg.solve(hessian[np.ix_(support, support)], pull[support] - absolute * signs)
        except np.linalg.LinAlgError:  # more coordinates than samples, for now
            continue
        left = pull - hessian @ exact
        if (np.sign(exact[support]) == signs).all() and np.abs(left).max(initial=0.0) <= absolute + slack:
            return exact
        force = pull - hessian @ weights  # without what rounding has gathered
    return weights  # at rest, with a force at its limit: its sign is decided by rounding


def _dual(binding: Binding, spec: Minimiser) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """Return (J')⁻¹ and its derivative as functions of arrays."""
    w = spec.variable
    if spec.inverse_slope is not None:
        weight = _with_slope(binding.apply(spec.inverse_slope), w)
        return (lambda q: weight(q)[0]), (lambda q: weight(q)[1])
    assert spec.penalty is not None
    slope = binding.apply(spec.penalty).diff(w)
    if slope.has(Abs, sign):
        raise UsageError(f"the interpolator of least Σ {spec.penalty} needs a differentiable penalty")
    with_slope = _with_slope(slope, w)

    def weights(q: Array) -> Array:
        return increasing_roots(lambda y, _: with_slope(y), q, np.array(-np.inf), np.array(np.inf))

    return weights, lambda q: 1 / with_slope(weights(q))[1]


def _with_slope(expr: Expr, variable: Symbol) -> Callable[[Array], tuple[Array, Array]]:
    """Return an expression in one symbol, and its derivative, as a function of arrays."""
    lowered = lower([expr, expr.diff(variable)], [variable])

    def evaluate(at: Array) -> tuple[Array, Array]:
        value, slope = (np.broadcast_to(entry, at.shape) for entry in lowered(at))
        return value, slope

    return evaluate


def interpolate(
    weight: Callable[[Array], Array], slope: Callable[[Array], Array], X: Array, y: Array, *, tolerance: float = 1e-10
) -> Array:
    """Return the interpolator Xw = y with w = (J')⁻¹(Xᵀν), by damped Newton steps in ν.

    The dual function Σ J*(Xᵀν) − yν is convex; along a step its derivative is ν-residual · step, which must not turn
    positive. Steps are limited so that J' changes by a few units at most, and stay where the weights are finite.
    """
    n = X.shape[0]
    dual = np.zeros(n)
    q = X.T @ dual
    scale = float(np.abs(y).max()) or 1.0
    with np.errstate(all="ignore"):
        for _ in range(200):
            residual = X @ weight(q) - y
            if float(np.abs(residual).max()) <= tolerance * scale:
                return np.asarray(weight(q))
            gram = (X * slope(q)) @ X.T
            # where (J')⁻¹ saturates, a little of the identity keeps the system solvable
            step = -np.linalg.solve(gram + 1e-14 * np.trace(gram) / n * np.eye(n), residual)
            change = X.T @ step
            length = min(1.0, 3.0 / float(np.abs(change).max()) * max(1.0, float(np.abs(q).max()) / 3))
            for _ in range(60):
                new = X @ weight(q + length * change) - y
                if np.isfinite(new).all() and new @ step <= 0.1 * abs(residual @ step):
                    break
                length /= 2
            dual = dual + length * step
            q = X.T @ dual
    raise SolverError(
        f"the interpolator was not reached in 200 Newton steps: |Xw − y| is still {float(np.abs(residual).max()):.2g}"
    )


def measure(binding: Binding, X: Array, y: Array, target: Array, weights: Array) -> dict[str, float]:
    """Return what the model's values are at finite size, as its minimiser declares."""
    spec = declared(binding)
    error = float(np.mean((weights - target) ** 2))
    found = {
        "error": error,
        "prediction error": error + binding.number(spec.noise),
        "residual": float(np.mean((y - X @ weights) ** 2)),
        "zeros": float(np.mean(weights == 0)),
    }
    return {name: found[kind] for name, kind in spec.measures.items()}


def finite_size(
    binding: Binding, *, d: int, seeds: int, seed: int = 0, exact: bool = False
) -> tuple[dict[str, Array], Distribution]:
    """Return the estimator's values over several draws of the data, and the law of (w, w*); ``exact`` as in ``draw``."""
    rows, points = [], []
    for place in range(seeds):
        X, y, target = draw(binding, d, seed + place, exact=exact)
        weights = minimise(binding, X, y)
        rows.append(measure(binding, X, y, target, weights))
        points.append(np.stack([weights, target]))
    values = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return values, Distribution.of_sample(("w", declared(binding).target.name), np.hstack(points))
