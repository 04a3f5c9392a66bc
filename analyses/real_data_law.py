"""Entries of whitened real data.

Distribution of all entries after whitening by principal components, each feature with variance one, against the
standard Gaussian (black). The tails are heavier.
"""

import numpy as np
import xarray as xr
from _real import blocks

from eqsolve.plotting.paper import panels

ORDER = 16
PAPER = "Figure 16"


def compute(run):
    """A histogram."""
    entries = blocks(run)[0].ravel()
    edges = np.linspace(-8, 8, 81)
    counts = np.histogram(entries, edges)[0] / len(entries) / (edges[1] - edges[0])
    run.note(f"Excess kurtosis: {float(np.mean(entries**4) / np.mean(entries**2) ** 2 - 3):.2f}.")
    centres = (edges[1:] + edges[:-1]) / 2
    gaussian = np.exp(-(centres**2) / 2) / np.sqrt(2 * np.pi)
    return xr.Dataset({"density": ("x", counts), "gaussian": ("x", gaussian)}, {"x": centres})


def draw(data):
    """Densities on a logarithmic axis."""
    figure, (axes,) = panels()
    axes.bar(data["x"], data["density"], 0.2, color="#D55E00", alpha=0.45, label="whitened data")
    axes.plot(data["x"], data["gaussian"], "k", label="Gaussian")
    axes.set(yscale="log", ylim=(1e-6, 2), xlabel="entry", ylabel="density")
    axes.legend()
    return figure
