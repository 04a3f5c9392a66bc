"""Anderson acceleration and GMRES against what they solve exactly."""

import numpy as np
import pytest
from scipy.linalg import LinAlgWarning

from eqsolve.numerics.secants import Secants, linear_solver, solve_krylov


def linear(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    matrix = rng.standard_normal((size, size)) / np.sqrt(size)
    shift = rng.standard_normal(size)
    return matrix, shift, np.linalg.solve(np.eye(size) - matrix, shift)


@pytest.mark.parametrize("size", [1, 3, 6])
def test_linear_maps_are_solved_in_as_many_steps_as_dimensions_and_one(rng: np.random.Generator, size: int) -> None:
    """Whether or not the plain iteration converges."""
    matrix, shift, exact = linear(rng, size)
    secants, point = Secants(), np.zeros(size)
    for _ in range(size + 1):
        point = secants.next(point, matrix @ point + shift)
    np.testing.assert_allclose(point, exact, rtol=1e-6, atol=1e-6)
    for _ in range(3):
        point = secants.next(point, matrix @ point + shift)
    np.testing.assert_allclose(point, exact, rtol=1e-10, atol=1e-10)


def test_the_depth_bounds_what_is_kept() -> None:
    secants = Secants(depth=2)
    for value in range(5):
        secants.next(np.array([float(value), 0.0]), np.array([0.5 * value**2, 1.0]))
    assert len(secants.steps) == len(secants.changes) == 2


def test_what_was_learned_serves_a_map_beside(rng: np.random.Generator) -> None:
    """Pairs of one map solve the same map with another shift at once."""
    matrix, shift, _ = linear(rng, 4)
    secants, point = Secants(), np.zeros(4)
    for _ in range(6):
        point = secants.next(point, matrix @ point + shift)
    other = rng.standard_normal(4)
    found = secants.anderson_step(other, other.copy())
    np.testing.assert_allclose(found, np.linalg.solve(np.eye(4) - matrix, other), rtol=1e-6, atol=1e-6)


def test_no_pair_is_made_across_a_change() -> None:
    secants = Secants()
    secants.next(np.zeros(2), np.ones(2))
    secants.interrupt()
    secants.next(np.zeros(2), 5 * np.ones(2))
    assert secants.steps == []


def test_weights_say_which_residuals_count() -> None:
    """One pair cannot remove two residuals: it removes the one that counts."""
    secants = Secants()
    weights = np.array([1.0, 1e-6])
    secants.next(np.zeros(2), np.array([1.0, 1.0]), weights)
    found = secants.next(np.array([1.0, 1.0]), np.array([1.5, 3.0]), weights)
    assert found[0] == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize("size", [5, 41])
def test_gmres_is_a_general_solver(rng: np.random.Generator, size: int) -> None:
    matrix = np.eye(size) + 0.5 * rng.standard_normal((size, size)) / np.sqrt(size)
    right, weights = rng.standard_normal(size), np.exp(rng.standard_normal(size))
    found = solve_krylov(lambda x: matrix @ x, right, weights, most=size, tolerance=1e-12)
    np.testing.assert_allclose(found, np.linalg.solve(matrix, right), rtol=1e-9, atol=1e-11)


def test_gmres_stops_at_its_tolerance_and_needs_no_more_than_the_different_eigenvalues(rng: np.random.Generator) -> None:
    calls = 0
    diagonal = np.repeat([1.0, 2.0, 5.0], 10)

    def apply(x: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        return diagonal * x

    right, weights = rng.standard_normal(30), np.ones(30)
    found = solve_krylov(apply, right, weights, most=20, tolerance=1e-10)
    np.testing.assert_allclose(found, right / diagonal, rtol=1e-9)
    assert calls == 3  # one for each eigenvalue
    rough = solve_krylov(apply, right, weights, most=20, tolerance=0.5)
    assert np.linalg.norm(diagonal * rough - right) <= 0.5 * np.linalg.norm(right)
    assert calls <= 5
    assert not solve_krylov(apply, np.zeros(30), weights, most=20, tolerance=0.1).any()


@pytest.mark.parametrize("gain", [0.1, 40.0])
def test_linear_equations_by_either_method(gain, rng) -> None:
    """Near the identity GMRES answers, far from it LAPACK; both are right, and the matrix is factorised once at most."""
    size, made = 600, []
    matrix = np.eye(size) + gain * rng.standard_normal((size, size)) / np.sqrt(size)

    def whole():
        made.append(1)
        return matrix.copy()

    solve = linear_solver(whole, matrix.__matmul__, size, matrix.size, tolerance=1e-3 if gain < 1 else 1e-10)
    for _ in range(2):
        right = rng.standard_normal(size)
        assert np.linalg.norm(matrix @ solve(right) - right) <= 2e-3 * np.linalg.norm(right)
    assert len(made) == (gain > 1)
    with pytest.raises(LinAlgWarning):
        linear_solver(lambda: np.zeros((2, 2)))(np.ones(2))
