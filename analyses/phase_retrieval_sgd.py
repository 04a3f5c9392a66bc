"""Phase retrieval: batches that persist find the signal where gradient descent does not.

Beyond the paper: `phase_retrieval` with δ = 3 samples per weight, from |w|² = 1 with overlap 0.2, after Mignacco, Urbani and
Zdeborová (2021), without their constraint to the sphere (GD: all samples; SGD: batches of half of them, drawn afresh in every
step of η = 0.1; p-SGD: the same batches, kept for a time of order τ = 6). (a) Cosine of the angle between w and w*; (b) share
of the draws in which it has passed 0.97. Lines: theory of the algorithm at this step, with its error, as far as it was solved
(t = 2.5; quick: 0.5); points: the same algorithm at d = 300, 16 draws (quick: 60, 6), bars of one standard error.
GD and SGD rise faster and stop at a cosine of 0.60, where 2 of 16 draws have found the signal; p-SGD lags at first, 0.34
beside 0.49 at t = 2.5, passes them at t = 200, and has found it in 10 of 16 draws at t = 800. The theory agrees with the runs
as far as it goes, but the escapes come a hundred times later and are seen at finite size only.
"""

import numpy as np
import xarray as xr

import eqsolve
from eqsolve import Telegraph, param, process, times
from eqsolve.laws import Normal
from eqsolve.plotting.paper import colours, curve, label_panels, panels, points

ORDER = 55
DELTA, START, ETA, BATCH, TAU = 3.0, 0.2, 0.1, 0.5, 6.0
KINDS = ("GD", "SGD", "p-SGD")
GIVEN = {"delta": DELTA, "m_0": START, "w_0": Normal(0, 1 - START**2)}
FOUND = 0.97
_t, _s = times("t"), process("s")
_batch, _tau = param("batch tau", positive=True)
_base = eqsolve.load("phase_retrieval")
FLOWS = (
    _base.sgd(batch=1),
    _base.sgd(batch=BATCH),
    _base.replace(
        "phase_retrieval_persistent",
        loss_gradient=[_s(_t) / _batch * _base.loss_gradient[0], 0],
        laws={_s: Telegraph(_batch, _tau)},
        defaults={_batch: BATCH, _tau: TAU},
    ),
)


def compute(run):
    """Theory at early times, runs at all times."""
    reach, rtol = run.pick((0.5, 1e-1), (2.5, 5e-2))
    d, seeds, last = run.pick((60, 6, 20.0), (300, 16, 800.0))
    early = np.round(np.linspace(0, reach, round(reach / ETA) + 1), 6)
    late = np.unique(np.round(np.geomspace(0.5, last, 24), 1))
    theory = np.empty((len(KINDS), 2, len(early)))
    runs = np.empty((len(KINDS), seeds, len(late)))
    for place, (kind, flow) in enumerate(zip(KINDS, FLOWS, strict=True)):
        run.report(place, len(KINDS))
        theory[place] = _solved(flow, early, rtol)
        runs[place] = _cosine(flow, d, seeds, late)
        held = [t for t in early[1:] if round(t / ETA) in (5, 10, 15, 25)]
        whole, half = (_cosine(flow, size, draws, held) for size, draws in ((d, seeds), (d // 2, 2 * seeds)))
        exact, error = theory[place][:, np.searchsorted(early, held)]
        run.agree(f"cosine, {kind}", exact, error, whole, half)
    shares = (runs[:, :, -1] > FOUND).mean(axis=1)
    run.note(
        f"At t = {late[-1]:g} the signal is found in "
        + ", ".join(f"{share:.0%} of the draws by {kind}" for kind, share in zip(KINDS, shares, strict=True))
        + f"; at t = {reach:g} the cosines are "
        + ", ".join(f"{value:.3f}" for value in theory[:, 0, -1])
        + "."
    )
    return xr.Dataset(
        {"theory": (("kind", "what", "early"), theory), "runs": (("kind", "draw", "late"), runs)},
        {"kind": list(KINDS), "early": early, "late": late},
        {"d": d, "draws": seeds},
    )


def draw(data):
    """The angle, and how often it vanishes."""
    figure, axes = panels(1, 2, height=2.6)
    shades = colours(len(KINDS))
    for place, kind in enumerate(KINDS):
        value, error = data["theory"].values[place]
        runs = data["runs"].values[place]
        curve(axes[0], data["early"][1:], value[1:], error[1:], color=shades[place], label=kind)
        points(axes[0], data["late"], runs, color=shades[place])
        found = (runs > FOUND).mean(axis=0)
        axes[1].step(data["late"], found, where="post", color=shades[place], label=kind)
    axes[0].set(ylabel=r"$m/\sqrt{q}$")
    axes[1].set(ylabel="share of draws that found $w^*$", ylim=(-0.02, 1.02))
    for panel in axes:
        panel.set(xscale="log", xlabel="$t$")
    axes[1].legend(loc="upper left")
    label_panels(axes)
    return figure


def _solved(flow, at, rtol):
    """Return the cosine by theory and its error at the times, which are steps."""
    solved = eqsolve.solve(
        flow, step=ETA, at=at, rtol=rtol, observables=["m", "q"], solver="steps", progress=False, params=GIVEN
    )
    solved = solved.at(at)
    m, q, m_error, q_error = (solved[name].values for name in ("m", "q", "m_error", "q_error"))
    value = m / np.sqrt(q)
    return value, value * (m_error / m + q_error / (2 * q))


def _cosine(flow, d, seeds, at):
    """Return the same of runs at finite size, on (draw, time)."""
    found = flow.simulate(
        d=d, step=ETA, at=list(at), seeds=seeds, seed=1, constants="balanced", workers=1, progress=False, params=GIVEN
    )
    return found.values["m"] / np.sqrt(found.values["q"])
