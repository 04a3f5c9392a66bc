"""Stochastic gradient descent on two Gaussian clouds: small batches, fresh or persistent.

(a) Generalisation error and (b) training loss against time, steps of 0.2, for batches of several shares of the samples
that are drawn afresh at every step; (c) generalisation error for batches of a fifth in which samples stay for a time τ.
Lines are theory at this step, with its error; points are runs at finite size.
"""

import numpy as np
import xarray as xr
from _simulated import classify

import eqsolve
from eqsolve import Telegraph

PAPER = "Mignacco, Krzakala, Urbani & Zdeborová 2020, SGD in Gaussian mixture classification"
FIELD = "learning"
STEP, BATCHES, TIMES, SHARE = 0.2, [1.0, 0.3, 0.1], [1.0, 5.0], 0.2
NAMES = ("E_gen", "train_loss")


def theory(at, rtol, batch, tau=None):
    """Observables and their errors on (quantity, time)."""
    model = eqsolve.load("mixture_sgd")
    if tau is not None:
        model = model.replace("persistent", laws={model.symbols("s"): Telegraph(model.symbols("batch"), tau)})
    found = eqsolve.solve(model, batch=batch, step=STEP, at=at, rtol=rtol).at(at)
    return np.array([found[name].values for name in NAMES]), np.array([found[f"{name}_error"].values for name in NAMES])


def compute(run):
    """Theory for fresh and for persistent batches, and runs."""
    rng, rtol, d = np.random.default_rng(5), run.pick(3e-2, 1e-2), run.pick(300, 1000)
    at = np.arange(1, run.pick(11, 41)) * STEP
    shown = np.linspace(0, len(at) - 1, 6).astype(int)[1:]
    data = {}
    for kind, cases in (("fresh", [(b, None) for b in BATCHES]), ("persistent", [(SHARE, tau) for tau in TIMES])):
        made = np.array([theory(at, rtol, *case) for case in cases])
        runs, half = (
            np.array(
                [[classify(n, b, at[shown], STEP, rng, tau=tau or 0.0) for b, tau in cases] for _ in range(run.pick(12, 24))]
            )
            for n in (d, d // 2)
        )
        run.agree(f"{kind} batches, d = {d}", made[:, 0][..., shown].ravel(), made[:, 1][..., shown].ravel(), runs, half)
        data |= {
            kind: ((f"{kind}_case", "part", "what", "t"), made),
            f"{kind}_runs": (("draw", f"{kind}_case", "what", "shown"), runs),
        }
    worst = max(data[kind][1][:, 1].max() for kind in ("fresh", "persistent"))
    run.note(f"Largest error of the theory: {worst:.0e}.")
    return xr.Dataset(data, {"t": at, "shown": at[shown], "what": list(NAMES)})


def draw(data):
    """Three panels."""
    from eqsolve.plotting.paper import curve, label_panels, panels, points

    figure, axes = panels(1, 3, height=2.3)
    whole = (("fresh", "E_gen", "b", BATCHES), ("fresh", "train_loss", "b", BATCHES), ("persistent", "E_gen", r"\tau", TIMES))
    for place, (kind, what, letter, cases) in zip(axes, whole, strict=True):
        for i, case in enumerate(cases):
            line = data[kind].isel({f"{kind}_case": i}).sel(what=what)
            curve(place, data["t"], line[0], line[1], color=f"C{i}", label=f"${letter} = {case:g}$")
            points(place, data["shown"], data[f"{kind}_runs"].isel({f"{kind}_case": i}).sel(what=what), color=f"C{i}")
        place.set(xlabel="time $t$", ylabel="generalisation error" if what == "E_gen" else "training loss")
        place.legend()
    label_panels(axes)
    return figure
