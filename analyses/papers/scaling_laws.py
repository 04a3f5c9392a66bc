"""Scaling laws of time, data and model size in regression on features with a power-law spectrum.

Loss (a) against time for infinitely many and for few samples, of large ensembles of models; (b) against the number of samples
and (c) of parameters, after infinite time. Dashed, the predicted exponents −(a − 1)/b, −(a − 1) and −(a − 1); points are
regressions at finite size.
"""

import numpy as np
import xarray as xr
from _simulated import ensemble_loss, limited_loss

import eqsolve

PAPER = "Bordelon, Atanasov & Pehlevan 2024, A dynamical model of neural scaling laws"
FIELD = "learning"
LAW = {"a": 1.75, "b": 1.5}
SAMPLES, HELD, COUNTS = [20, 100], np.geomspace(1, 1e4, 7), [10, 20, 40, 80, 160]
MANY = 1e15  # samples, in place of infinitely many


def exponent(x, y):
    """Slope of log y against log x between the last two points."""
    return float(np.log(y[-1] / y[-2]) / np.log(x[-1] / x[-2]))


def compute(run):
    """Losses and their exponents, in theory and at finite size."""
    rng, draws, features = np.random.default_rng(4), range(run.pick(20, 100)), run.pick(1000, 4000)
    moments, wide, groups = np.geomspace(0.1, 1e4, 80), np.geomspace(1e2, 1e4, 3), run.pick(25, 50)
    solved = [eqsolve.solve("scaling_law_time", P=P, groups=groups, features=features, t_max=1e4, rtol=1e-3, **LAW)
              for P in [MANY, *SAMPLES]]  # fmt: skip
    data = {"loss": (("P", "t"), [item.at(moments)["loss"].values for item in solved])}
    runs = np.array([[ensemble_loss(P, HELD, **LAW, features=features, rng=rng) for P in SAMPLES] for _ in draws])
    known = [item.at(HELD)["loss"].values for item in solved[1:]]
    run.agree("loss of ensembles against time", np.ravel(known), 0.01 * np.ravel(known), runs)
    data["runs"] = ("draw", "few", "held"), runs
    long = eqsolve.solve("scaling_law_time", P=MANY, groups=2 * groups, features=10**6, t_max=1e4, rtol=1e-3, **LAW)
    found = [exponent(wide, long.at(wide)["loss"].values)]
    for name, model, letter in (("data", "scaling_law_data", "P"), ("size", "scaling_law_size", "N")):
        line, made = (
            [float(eqsolve.solve(model, **{letter: x}, modes=M, **LAW)["loss"]) for x in COUNTS] for M in (10**6, features)
        )
        runs = [[limited_loss(x, **LAW, features=features, rng=rng, samples=name == "data") for x in COUNTS] for _ in draws]
        run.agree(f"loss against {name}", made, 0, runs)
        found.append(exponent(COUNTS, line))
        data |= {name: ("count", made), f"{name}_runs": (("draw", "count"), runs)}
    run.note(
        "Exponents of time, data and size with a million features: {:.3f} (−0.5), {:.3f} (−0.75), {:.3f} (−0.75).".format(
            *found
        )
    )
    return xr.Dataset(data, {"P": [MANY, *SAMPLES], "t": moments, "held": HELD, "count": COUNTS}, {"exponents": found})


def draw(data):
    """Three panels."""
    from eqsolve.plotting.paper import curve, label_panels, panels, points

    figure, axes = panels(1, 3, height=2.3)
    for i, (P, name) in enumerate(zip(data["P"].values, [r"\infty", *SAMPLES], strict=True)):
        curve(axes[0], data["t"], data["loss"].sel(P=P), color=f"C{i}", label=f"$P = {name}$")
        if i:
            points(axes[0], HELD, data["runs"].isel(few=i - 1), color=f"C{i}")
    axes[0].plot(data["t"], 1.5 * data["t"] ** -0.5, "k--", lw=0.8)
    for place, name, letter in zip(axes[1:], ("data", "size"), ("samples $P$", "parameters $N$"), strict=True):
        curve(place, data["count"], data[name])
        points(place, data["count"], data[f"{name}_runs"])
        place.plot(data["count"], 2 * float(data[name][0]) * (data["count"] / data["count"][0]) ** -0.75, "k--", lw=0.8)
        place.set(xscale="log", yscale="log", xlabel=letter)
    axes[0].set(xscale="log", yscale="log", xlabel="time $t$", ylabel="loss", ylim=(5e-3, 3))
    axes[0].legend()
    label_panels(axes)
    return figure
