"""The models, parameters and times of honesty.py, drawn once from a fixed seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

SEED = 20261115


@dataclass(frozen=True)
class Case:
    """What is solved (``settings`` as a user would write them) and what the reference needs to know besides."""

    model: str
    settings: dict[str, Any]
    more: dict[str, Any] = field(default_factory=dict)
    at: tuple[float, ...] = ()
    pairs: tuple[tuple[float, float], ...] = ()
    options: dict[str, Any] = field(default_factory=dict)  # of `solve`

    @property
    def name(self) -> str:
        return f"{self.model} " + " ".join(f"{key}={value}" for key, value in self.settings.items())


def draw(seed: int = SEED) -> list[Case]:
    """Return all cases; each is solved at every tolerance."""
    rng = np.random.default_rng(seed)
    made = []

    def number(low, high, log=False):
        value = np.exp(rng.uniform(np.log(low), np.log(high))) if log else rng.uniform(low, high)
        return float(f"{value:.3g}")

    def times(end, start=0.0, more=0):
        """Return the start, an early time, one in between, the end, and some more."""
        inside = [10 ** rng.uniform(-2.3, -1), rng.uniform(0.2, 0.7), 1.0, *(rng.random() ** 2 for _ in range(more))]
        found = [start, *(float(f"{start + (end - start) * x:.4g}") for x in inside)]
        start, early, middle, end, *_ = found
        near = (float(f"{middle + 1e-3 * (end - start):.7g}"), middle)
        pairs = [(start, start), (end, end), (middle, middle), (end, start), (end, early), (end, middle), (middle, early)]
        return {"at": tuple(sorted(set(found))), "pairs": tuple([*pairs, near] if more else pairs)}

    def add(model, settings, when=None, more=None, **options):
        made.append(Case(model, settings, more or {}, **(when or {}), options=options))

    def bernoulli():
        p = number(0.05, 0.4)
        return {"w_star": f"Bernoulli({p:g})"}, {"p": p}

    # differential equations with random constants
    for law in (("Bernoulli", 0.1), ("Normal", 0, 1), ("Uniform", -1, 2), ("Rademacher", 0.3)):
        settings = {"alpha": number(0.1, 1, log=True), "lam": number(0, 0.3), "sigma2": 0.0}
        text = f"{law[0]}({', '.join(str(x) for x in law[1:])})"
        add("dln_infinite_data", {**settings, "w_star": text}, {"at": times(number(3, 20), more=3)["at"]}, {"law": law})
    # memory
    for end in (2.0, 8.0):
        add("volterra_linear", {}, {"at": times(end, more=4)["at"]})
    for _ in range(2):
        add("integro_nonlinear", {"a": number(0.3, 5)}, {"at": times(5, more=3)["at"]})
    for delta in (number(0.3, 0.9), number(1.2, 4)):
        settings = {"delta": delta, "rho2": number(0.1, 1), "sigma2": number(0, 0.5)}
        add("dln_lazy", settings, times(number(3, 10), more=3))
        add("linear_regression", {**settings, "lam": number(0.02, 1)}, times(number(3, 10), more=3))
        only = {"at": times(number(10, 40), more=3)["at"]}
        add("linear_regression", {**settings, "lam": number(0.02, 1)}, only, kernels=False)  # by operators
        add("linear_flow", {**settings, "lam": number(0.02, 1)}, times(number(2, 5)))
    add("pspin", {"p": 2, "T": 0}, times(6, more=3))
    for p in (3, 3, 4):
        add("pspin", {"p": p, "T": number(0.2, 1)}, times(number(3, 8), more=2))
    # Gaussian by linearity
    for gain in (0.5, number(0.8, 1.2), number(1.2, 1.7), 2.0):
        add("rnn", {"gain": gain}, times(number(4, 10)))
    # processes with memory and a nonlinear drift
    for alpha, delta in (
        (0.3, 0.5),
        (1.0, number(0.4, 0.8)),
        (number(0.2, 0.5), number(1.5, 3)),
        (2.0, 0.8),
        (0.5, number(0.6, 1.5)),
    ):
        law, more = bernoulli()
        settings = {"alpha": alpha, "delta": delta, "lam": number(0, 0.2), "sigma2": number(0, 0.1)}
        panel = 1.5 / max(alpha**2, 0.4)
        add("dln", {**settings, **law}, times(number(3, 6) / max(alpha, 0.6)), {**more, "panel": panel})
    law, more = bernoulli()
    settings = {"alpha": number(0.4, 1), "delta": number(0.4, 2), "lam": number(0, 0.2), "sigma2": number(0, 0.1)}
    add("dln_flow", {**settings, **law}, {"at": times(3)["at"]}, {**more, "panel": 1.5})
    for _ in range(2):
        law, more = bernoulli()
        settings = {"delta": number(0.4, 2), "lam": number(0.3, 0.7), "sigma2": number(0, 0.1), "tau0": -number(0.5, 2)}
        end = number(1, 2)
        add("dln_rich", {**settings, **law}, times(end, settings["tau0"]), {**more, "panel": 0.6})
    for gamma in (0.0, 0.0, number(0.2, 0.8), -number(0.2, 0.8)):
        settings = {"mu": number(1, 5), "sigma": number(0.2, 0.8), "gamma": gamma}
        add("lotka_volterra", settings, times(number(1.5, 4)))
    for delta in (2.0, number(0.5, 1.5), number(2, 4), number(1, 4)):
        settings = {"delta": delta, "lam": 0.0 if delta == 2.0 else number(0, 0.3)}
        add("teacher_student_tanh", settings, times(0.796 if delta == 2.0 else number(0.6, 1.8)))
    for delta in (2.0, number(0.6, 1.5), number(2, 5)):
        add("logistic_regression", {"delta": delta, "lam": number(0, 0.3), "flip": number(0, 0.2)}, times(number(0.8, 2)))
    for _ in range(2):
        settings = {"delta": number(3, 6), "lam": number(0, 0.2), "m_0": number(0.2, 0.5)}
        add("phase_retrieval", settings, times(number(0.3, 0.7)))
    # fixed points and rates
    for _ in range(2):
        for model in ("lasso", "elastic_net", "state_evolution", "ridge"):
            law, more = bernoulli()
            settings = {"delta": number(0.3, 3), "lam": number(0.05, 1, log=True), "sigma2": number(0, 0.3)}
            if model == "elastic_net":
                settings["kappa"] = number(0.2, 3)
            add(model, {**settings, **law}, None, more)
    for delta, lam in ((number(0.3, 0.9), 0), (number(0.3, 0.9), 0), (number(1.3, 3), 0), (number(0.3, 3), number(0.05, 0.5))):
        law, more = bernoulli()
        alpha = {"alpha": number(0.1, 2, log=True)} if delta < 1 and not lam else {}
        add("dln_fixed_point", {**alpha, "delta": delta, "lam": lam, "sigma2": number(0, 0.2), **law}, None, more)
    for delta in (number(0.3, 0.9), number(1.3, 3), number(0.3, 0.9)):
        law, more = bernoulli()
        settings = {"alpha": number(0.2, 2, log=True), "delta": delta, "sigma2": number(0.02, 0.2)}
        add("dln_rate", {**settings, **law}, None, more)
    for delta in (number(0.3, 0.9), number(1.3, 3)):
        add("linear_regression_rate", {"delta": delta, "lam": number(0, 1)})
    return made
