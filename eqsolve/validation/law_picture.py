"""What a picture of two laws shows, as plain numbers: the theory's density, a histogram of finite size, and the atoms."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqsolve.results.distribution import Distribution

_BINS, _POINTS, _ATOMS = 60, 1201, 3


def picture_laws(law: Distribution, seen: Distribution) -> dict[str, Any]:
    """Return density and histogram of the law's first variable, and (place, mass, share at finite size) of its atoms."""
    variable = law.names[0]
    atoms = [(value, mass) for value, mass in law.atoms(variable) if mass > 1e-3]
    values = seen[variable]
    on_atom = np.isclose(values[:, None], [value for value, _ in atoms], rtol=0, atol=1e-12).any(axis=1)
    low, high = (float(law.quantile(level, variable)) for level in (1e-3, 1 - 1e-3))
    low, high = min(low, *np.quantile(values, [1e-3])), max(high, *np.quantile(values, [1 - 1e-3]))
    edges = np.linspace(low, high, _BINS + 1) if high > low else np.array([low - 0.5, low + 0.5])
    counts = np.histogram(values[~on_atom], bins=edges)[0]
    where = np.linspace(low, high, _POINTS)
    shares = [float(np.isclose(values, value, rtol=0, atol=1e-12).mean()) for value, _ in atoms[:_ATOMS]]
    return {
        "variable": variable,
        "edges": edges.tolist(),
        "heights": (counts / (len(values) * np.diff(edges))).tolist(),
        "least": 0.3 / (len(values) * float(np.diff(edges)[0])),
        "where": where.tolist(),
        "density": np.asarray(law.density(where, variable), dtype=float).tolist(),
        "atoms": [(value, mass, share) for (value, mass), share in zip(atoms[:_ATOMS], shares, strict=True)],
    }
