"""Approximate message passing for penalised regression at finite size, and the state evolution that tracks it.

r_k = y − X w_k + b_k r_{k−1} (the Onsager term), w_{k+1} = η(w_k + Xᵀr_k/δ; t_{k+1}), b_k = ⟨η'⟩/δ measured on the
iterate, t_{k+1} = λ + b_k t_k. The proximal operator η is derived from the penalty that the model declares.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsolve.arguments import checked, whole
from eqsolve.compile.fixed_point import FixedPointPlan
from eqsolve.errors import UsageError
from eqsolve.language.binding import Binding, bind
from eqsolve.language.fixed_point import FixedPoint
from eqsolve.language.laws import Point
from eqsolve.language.loading import read_model
from eqsolve.language.model import Model
from eqsolve.language.nodes import proximal
from eqsolve.language.symbols import Parameter, Random
from eqsolve.microscopic.minimisers import declared, draw
from eqsolve.numerics.arrays import Array
from eqsolve.passes.forms.reduction import reduce_fixed_point


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
    binding: Binding, X: Array, y: Array, *, steps: int, target: Array | None = None, b_0: float = 1.0, tolerance: float = 0.0
) -> MessagePassing:
    """Run the iteration from w = 0 with t_1 = λ(1 + b_0); stop early when the weights change by less than ``tolerance``.

    Divergence, when the residual grows a thousandfold, is detected and said.
    """
    spec = declared(binding)
    strength, ratio = binding.number(spec.strength), binding.number(spec.ratio)
    if spec.penalty is None or not strength > 0:
        raise UsageError(f"model `{binding.model.name}`: message passing needs a penalty with a positive strength")
    shrink = _shrinkage(binding)
    n, d = X.shape
    weights, residual, onsager, t = np.zeros(d), np.zeros(n), 0.0, strength * (1 + b_0)
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
        if gap <= tolerance:
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
