"""What several analyses share: theory on given times, finite-size flows, and their limits at finite size."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import eqsolve
from eqsolve.language.binding import bind
from eqsolve.microscopic.data import read_data
from eqsolve.microscopic.minimisers import declared, measure, minimise
from eqsolve.microscopic.minimisers import draw as draw_problem

LAW = "Bernoulli(0.1)"


def limits(model: str, d: int, seeds: int, data: Any = "gaussian", names=("E_test",), **params: Any) -> np.ndarray:
    """Return what gradient flow ends at, at finite size, on (draw, name): the estimator the fixed point describes."""
    binding = bind(eqsolve.load(model), params)
    law = binding.laws[declared(binding).target]
    noise = np.sqrt(binding.number(declared(binding).noise))
    rows = []
    for seed in range(seeds):
        if data == "gaussian":
            X, y, target = draw_problem(binding, d, seed, exact=True)
        else:
            rng = np.random.default_rng(seed)
            n = round(binding.number(declared(binding).ratio) * d)
            X = data(rng) if callable(data) else read_data(data).draw(rng, n, d)
            target = rng.permutation(np.repeat(*_proportions(law, X.shape[1])))
            y = X @ target + noise * rng.standard_normal(len(X))
        found = measure(binding, X, y, target, minimise(binding, X, y))
        rows.append([found[name] for name in names])
    return np.array(rows)


def _proportions(law: Any, d: int) -> tuple[np.ndarray, np.ndarray]:
    values, shares = np.array(law.numeric().atoms_of()).T
    counts = np.rint(shares * d).astype(int)
    counts[np.argmax(counts)] += d - counts.sum()
    return values, counts


def coordinates(model: str, d: int, seeds: int, **params: Any) -> np.ndarray:
    """Return the coordinates of the limits of several draws in one array."""
    binding = bind(eqsolve.load(model), params)
    made = []
    for seed in range(seeds):
        X, y, _ = draw_problem(binding, d, seed, exact=True)
        made.append(minimise(binding, X, y))
    return np.concatenate(made)


def flow_runs(at: Any, d: int, seeds: int, data: Any = "gaussian", rtol: float = 1e-9, **params: Any) -> dict[str, np.ndarray]:
    """Return E_train and E_test of finite-size gradient flow on (draw, time)."""
    flow = eqsolve.load("dln_flow")
    if callable(data):
        parts = [_one(flow, at, data(np.random.default_rng(seed)), seed, rtol, params) for seed in range(seeds)]
        return {name: np.concatenate([part[name] for part in parts]) for name in ("E_train", "E_test")}
    size = {} if isinstance(data, np.ndarray) else {"d": d}
    run = flow.simulate(at=at, seeds=seeds, data=data, constants="exact", workers=1, rtol=rtol, params=params, **size)
    return {name: run.values[name] for name in ("E_train", "E_test")}


def _one(flow: Any, at: Any, matrix: np.ndarray, seed: int, rtol: float, params: dict[str, Any]) -> dict[str, np.ndarray]:
    own = {key: value for key, value in params.items() if key != "delta"}
    run = flow.simulate(at=at, seeds=1, seed=seed, data=matrix, constants="exact", workers=1, rtol=rtol, params=own)
    return run.values


@functools.lru_cache(maxsize=64)
def _solved(model: str, t_max: float, rtol: float, params: tuple[tuple[str, Any], ...]) -> Any:
    return eqsolve.solve(model, t_max=t_max, rtol=rtol, atol=rtol * 1e-4, params=dict(params))


def theory(at: Any, rtol: float, model: str = "dln", **params: Any) -> dict[str, np.ndarray]:
    """Return E_train and E_test of the mean-field system, and their errors, at given times."""
    times = np.asarray(at, dtype=float)
    solved = _solved(model, float(times.max()), rtol, tuple(sorted(params.items())))
    found = solved.at(times)
    made = {name: found[name].values for name in ("E_train", "E_test")}
    return made | {f"{name}_error": found[f"{name}_error"].values for name in ("E_train", "E_test")}
