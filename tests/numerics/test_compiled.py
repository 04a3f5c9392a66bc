"""The compiled kernels of the engine of paths against plain linear algebra and arrays."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest

from eqsolve.compile.lowering import Lowered
from eqsolve.numerics.compiled import GROUP, linear_block, mean_tangents, newton_block
from eqsolve.numerics.lanes import translate

NONE = np.zeros((0, 0, 0))


def causal(starts):
    """Ones where a block-triangular operator has entries."""
    size = starts[-1]
    made = np.zeros((size, size))
    for low, high in itertools.pairwise(starts):
        made[low:high, :high] = 1.0
    return made


def by_block(starts, many):
    size = starts[-1]
    parts = itertools.pairwise(starts)
    return np.concatenate([(np.arange(many)[:, None] * size + np.arange(low, high)).ravel() for low, high in parts])


@pytest.mark.parametrize(
    ("unknowns", "signals", "order", "panels", "paths", "direct", "paired"),
    [(1, 1, 5, 4, 19, False, False), (2, 3, 6, 3, 11, True, True), (1, 2, 8, 3, 8, True, False), (3, 2, 4, 3, 9, False, True)],
)
def test_mean_tangents_solve_the_linearised_equations(unknowns, signals, order, panels, paths, direct, paired):
    rng = np.random.default_rng(unknowns)
    starts = np.array([0, *(1 + order * place for place in range(panels + 1))])
    size, there = starts[-1], causal(starts)
    operators = 0.1 * rng.standard_normal((unknowns, signals, size, size)) * there
    slopes, source = rng.standard_normal((signals, unknowns, size, paths)), rng.standard_normal((unknowns, size, size)) * there
    entering = rng.standard_normal((signals, size, paths)) if direct else NONE
    left, right = rng.standard_normal((2, unknowns, size, paths)), rng.standard_normal((2, size, paths)) if paired else NONE
    flat = operators.transpose(0, 2, 1, 3).reshape(unknowns * size, signals * size)
    rows, columns = by_block(starts, unknowns), by_block(starts, signals)
    found = mean_tangents(
        np.ascontiguousarray(flat[np.ix_(rows, columns)].T), starts, unknowns, signals, slopes,
        np.ascontiguousarray(source.reshape(unknowns * size, size)[rows]), entering, left, right, 0, paths,
    )  # fmt: skip
    wanted = np.zeros_like(found)
    for path in range(paths):
        slope = np.block([[np.diag(slopes[k, b, :, path]) for b in range(unknowns)] for k in range(signals)])
        entry = source.reshape(unknowns * size, size).copy()
        if direct:
            entry += flat @ np.vstack([np.diag(entering[k, :, path]) for k in range(signals)])
        tangent = np.linalg.solve(np.eye(unknowns * size) - flat @ slope, entry).reshape(unknowns, size, size)
        factor = right[..., path] if paired else np.ones((2, size))
        wanted += np.einsum("kut,utc,kc->ktc", left[..., path], tangent, factor)
    assert np.abs((found - wanted) * there).max() < 1e-12 * np.abs(wanted).max()


def test_blocks_are_solved_path_by_path():
    rng = np.random.default_rng(1)
    own, slopes = 0.2 * rng.standard_normal((2, 3, 4, 4)), rng.standard_normal((3, 2, 4, 37))
    right = rng.standard_normal((2, 4, 37))
    found = right.copy()
    linear_block(own, slopes, found)
    for path in range(37):
        matrix = np.eye(8) - np.einsum("akij,kbj->aibj", own, slopes[..., path]).reshape(8, 8)
        assert np.allclose(matrix @ found[..., path].ravel(), right[..., path].ravel(), rtol=1e-11, atol=1e-11)


def evaluate(text, kinds, rng, scale=1.0, nodes=3):
    """Return the values of a lowered function by its machine code, and on arrays."""
    counts = {kind: max(kinds.count(kind), 1) for kind in "ptuzc"}
    unknowns, noises = (scale * rng.standard_normal((counts[kind], nodes, GROUP)) for kind in "uz")
    constants, shared, parameters = (
        rng.standard_normal((counts["c"], GROUP)),
        rng.random((counts["t"], nodes)),
        rng.random(counts["p"]),
    )
    given, places = [], dict.fromkeys("ptuzc", 0)
    for kind in kinds:
        place = places[kind]
        places[kind] += 1
        given.append(
            {"p": parameters, "t": shared[..., None], "u": unknowns, "z": noises, "c": constants[:, None]}[kind][place]
        )
    wanted = [np.broadcast_to(value, (nodes, GROUP)) for value in Lowered(text)(*given)]
    out = np.empty((len(wanted), nodes, GROUP))
    address = translate(text, kinds, GROUP)
    assert address
    code = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5, ctypes.c_int64, ctypes.c_void_p)(address)
    code(*(item.ctypes.data for item in (unknowns, noises, constants, shared, parameters)), nodes, out.ctypes.data)
    return out, np.array(wanted)


FUNCTIONS = [
    "numpy.tanh(x0_)", "sech2(x0_)", "numpy.sinh(x0_)", "numpy.cosh(x0_)", "numpy.exp(x0_)", "numpy.expm1(x0_)",
    "scipy.special.erf(x0_)", "x0_**3", "x0_**(-2)", "numpy.abs(x0_)**1.5", "numpy.abs(x0_)**(1/2)", "numpy.sign(x0_)",
    "functools.reduce(numpy.maximum, [x0_, 0, -1])", "functools.reduce(numpy.minimum, [x0_, 1])", "numpy.sin(x0_)",
    "piecewise([numpy.less(x0_, 0), numpy.equal(x0_, 0), True], [0, 1/2, 1])", "numpy.log(numpy.abs(x0_))", "expit(x0_)",
    "choose(x0_, x0_**2, -x0_)", "(numpy.abs(x0_) + 1)**(7/3)", "numpy.pi*x0_",
]  # fmt: skip


@pytest.mark.parametrize("text", FUNCTIONS)
@pytest.mark.parametrize("scale", [1e-8, 0.3, 3.0, 40.0])
def test_machine_code_agrees_with_arrays(text, scale):
    found, wanted = evaluate(f"def lowered(x0_):\n    return [{text}]", "u", np.random.default_rng(2), scale)
    assert np.abs(found - wanted).max() <= 1e-15 * np.abs(wanted).max() + 0.0
    assert np.all(np.abs(found - wanted) <= 4e-15 * np.abs(wanted) + 1e-300)


def test_arguments_come_from_their_places():
    text = "def lowered(x0_, x1_, x2_, x3_, x4_, x5_, x6_):\n    c_0 = x2_*x3_\n    return [x0_ + 2*x1_ + c_0, x4_*x5_ - x6_]"
    found, wanted = evaluate(text, "pptuuzc", np.random.default_rng(3))
    assert np.allclose(found, wanted, rtol=1e-14)


def test_what_has_no_translation_is_left_to_arrays():
    assert translate("def lowered(x0_):\n    return [scipy.special.zeta(x0_)]", "u", GROUP) == 0


def test_exponentials_overflow_and_vanish_as_they_should():
    text = "def lowered(x0_):\n    return [numpy.exp(x0_)]"
    found, wanted = evaluate(text, "u", np.random.default_rng(4), scale=2000.0)
    assert np.array_equal(np.isinf(found), np.isinf(wanted))
    assert np.allclose(found[np.isfinite(wanted)], wanted[np.isfinite(wanted)], rtol=1e-14, atol=1e-300)


def test_newton_solves_every_path_of_a_block():
    """x = h + A tanh(c x) with A small, on nodes 2 to 5, in two ensembles: the residual of the solution, and its slope."""
    rng = np.random.default_rng(5)
    address = translate("def lowered(x0_, x1_):\n    return [numpy.tanh(x0_*x1_), x0_*sech2(x0_*x1_)]", "pu", GROUP)
    own, history = rng.uniform(-0.6, 0.0, (2, 1, 1, 4, 4)), 3 * rng.standard_normal((2, 1, 4, 45))
    x, signals, slopes = np.zeros((2, 1, 6, 45)), np.full((2, 1, 6, 45), 7.0), np.full((2, 1, 1, 6, 45), 7.0)
    factors = np.array([[1.0], [0.5]])
    change = newton_block(
        address, factors, np.zeros((2, 1, 6)), np.zeros((2, 0, 6, 45)), np.zeros((2, 0, 45)), history, own, 2, 1e-7, 100, 0.2,
        1e-8, x, signals, slopes,
    )  # fmt: skip
    assert change < 1e-7
    assert (x[:, :, :2] == 0).all()
    assert (signals[:, :, :2] == 7).all()
    y, made = x[:, :, 2:], np.tanh(factors[:, :, None, None] * x[:, :, 2:])
    assert np.abs(y - history - np.einsum("eakij,ekjp->eaip", own, made)).max() < 1e-12
    assert np.allclose(signals[:, :, 2:], made, atol=1e-15)
    assert np.allclose(slopes[:, 0, :, 2:], factors[:, :, None, None] * (1 - made**2), atol=1e-15)
