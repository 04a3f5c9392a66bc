"""What the studies of noisy training share: the diagonal network with the product of its layers, by theory and at finite size.

Under gradient flow u v = α² stays as it is, and α alone says which interpolator is reached. Noise makes the product shrink:
α_eff = (E uv)^(1/2) is the initialization from which a flow without noise would have the same product.
"""

import numpy as np

import eqsolve
from eqsolve import E, param
from eqsolve.errors import SolverError

LIMIT = "dln_fixed_point_min_norm"
NAMES = ("E_test", "l1", "product")
_base = eqsolve.load("dln_flow")
_u, _v = _base.symbols("u v")
NETWORK = _base.replace("dln_flow_product", observables={"product": E(_u * _v)})
SGD = NETWORK.sgd(batch=param("batch", positive=True, domain=(0, 1)))
LABELS = NETWORK.label_noise(param("v_labels", nonnegative=True))


def trained(flow, step, steps, rtol, names=NAMES, **params):
    """Return the named observables after the last step, and their errors, on (value or error, name).

    Where paths diverge, or nearly, there is no number.
    """
    asked = {"step": step, "at": [step * steps], "rtol": rtol, "observables": list(names), "progress": False}
    try:
        solved = eqsolve.solve(flow, **asked, **params)
    except SolverError:
        return np.full((2, len(names)), np.nan)
    return np.array([[float(table[name][-1]) for name in names] for table in (solved, solved.error)])


def finite(flow, step, steps, d, seeds, names=NAMES, **params):
    """Return the same of runs at finite size, on (draw, name); the draws are the same for all parameters."""
    run = flow.simulate(
        d=d, step=step, at=[step * steps], seeds=seeds, seed=1, constants="exact", workers=1, progress=False, params=params
    )
    return np.stack([run.values[name][:, -1] for name in names], axis=1)


def hold(run, found, runs, half, note=""):
    """Hold theory, on (…, value or error, name), against runs of two sizes, on (…, draw, name), where none diverges."""
    for index, name in enumerate(NAMES):
        exact, error = (found[..., what, index].ravel() for what in (0, 1))
        table, small = (np.moveaxis(t[..., index], -1, 0).reshape(t.shape[-2], -1) for t in (runs, half))
        seen = np.isfinite(exact) & np.isfinite(table).all(axis=0) & np.isfinite(small).all(axis=0)
        what = {"product": "E uv", "l1": "E|w|"}.get(name, name)
        if diverged := int((np.isfinite(exact) & ~seen).sum()):
            run.note(f"{what}: {diverged} of {len(exact)} points have a run that diverges and are not judged.")
        run.agree(what, exact[seen], error[seen], table[:, seen], small[:, seen], note=note)


def effective(product):
    """Return α_eff for the mean product of the layers, not below 0."""
    return np.sqrt(np.maximum(product, 0))
