"""Transforms that solve a polynomial equation: only singular points of the sheet R → c/p count.

The truth comes from resultants (sympy) and from continuation in mpmath's numbers, on other ways than those of the engine.
"""

import json
import math
import os

import mpmath
import numpy as np
import pytest
from sympy import Integer, Poly, Rational, exp, expand, factor, resultant

from eqsolve import Eq, SolverError, unknown
from eqsolve.cli import main
from eqsolve.compile.singularity import ImplicitTransform
from eqsolve.laplace import rightmost_singularity

p, R = unknown("p R")

DRAWS = int(os.environ.get("EQSOLVE_DRAWS", "40"))  # polynomials; with 500 before a change of the search


def find(h, **options):
    return rightmost_singularity(h, variable=p, unknown=R, **options)


def transform_like(rng):
    """Return a polynomial of degree ≤ 4 in R and ≤ 3 in p, one root of which is c/p at infinity; no other vanishes there."""
    n, m = int(rng.integers(1, 5)), int(rng.integers(1, 4))

    def number(nonzero=False):
        value = 0
        while value == 0:
            value = int(rng.integers(-9, 10)) * Rational(1, int(rng.choice([1, 1, 2, 10])))
            if not nonzero:
                break
        return value

    rows = [[number(k == m - 1) for k in range(m)], [number(k == m) for k in range(m + 1)]]
    rows += [[number() if rng.random() < 0.7 else Integer(0) for _ in range(m + 1)] for _ in range(n - 1)]
    return sum(c * R**i * p**j for i, row in enumerate(rows) for j, c in enumerate(row))


class Truth:
    """The rightmost singularities of one sheet: critical points by the resultant, values by continuation with 25 digits."""

    def __init__(self, polynomial):
        whole = Poly(polynomial, R, p).sqf_part()
        whole = Poly(whole.as_expr() / Poly(whole.as_expr(), R).content(), R, p)
        critical = Poly(resultant(whole, whole.diff(R), R) if whole.degree(R) > 1 else Poly(whole.as_expr(), R).LC(), p)
        self.points = [mpmath.mpmathify(z) for z in critical.sqf_part().nroots(n=25, maxsteps=500)]
        table = {(i, j): c for (i, j), c in whole.terms()}
        self.table = [
            [mpmath.mpf(int(c.p)) / int(c.q) for j in range(whole.degree(p), -1, -1) for c in [Rational(table.get((i, j), 0))]]
            for i in range(whole.degree(R), -1, -1)
        ]

    def newton(self, value, at):
        coefficients = [mpmath.polyval(row, at) for row in self.table]
        for _ in range(40):
            f, slope = mpmath.polyval(coefficients, value, derivative=True)
            step = f / slope
            value -= step
            if abs(step) <= mpmath.mpf(10) ** -20 * abs(value):
                return value
        raise ArithmeticError

    def along(self, value, way):
        """Continue along straight pieces, in steps of a small part of the distance to the next critical point."""
        here = way[0]
        for end in way[1:]:
            while here != end:
                step = 0.15 * min(abs(here - z) for z in self.points)
                there = end if abs(end - here) <= step else here + step * (end - here) / abs(end - here)
                value, here = self.newton(value, there), there
        return value

    def singular(self, k, value, right):
        """Return "branch point", "pole" or "" at a critical point, from a value at ``right`` on the real axis."""
        at = self.points[k]
        gap = min((abs(at - z) for i, z in enumerate(self.points) if i != k), default=mpmath.mpf(1))
        radius = 0.35 * gap
        corner = at + radius * mpmath.expj(0.3)
        value = self.along(value, [mpmath.mpc(right), mpmath.mpc(right, corner.imag), corner])
        count, values = 36, []
        for place in range(count):
            values.append(value)
            value = self.along(value, [at + radius * mpmath.expj(0.3 + 2 * mpmath.pi * s / count) for s in (place, place + 1)])
        if abs(value - values[0]) > mpmath.mpf(10) ** -12 * (abs(value) + abs(values[0])):
            return "branch point"
        modes = [
            abs(sum(v * mpmath.expj(2 * mpmath.pi * order * s / count) for s, v in enumerate(values))) / count
            for order in (1, 2, 3)
        ]
        return "pole" if max(modes) > mpmath.mpf(10) ** -10 * max(map(abs, values)) else ""

    def rightmost(self):
        """Return the rightmost singularities in the upper half plane, and their kinds."""
        with mpmath.workdps(25):
            right = max([z.real for z in self.points] + [mpmath.mpf(0)]) + 2
            far = 10**5 * (abs(right) + max(map(abs, self.points)))
            value = self.along(self.newton(mpmath.mpf(0), far), [mpmath.mpc(far), mpmath.mpc(right)])
            found, best = [], None
            for k in sorted(range(len(self.points)), key=lambda k: -self.points[k].real):
                at = self.points[k]
                if best is not None and at.real < best - mpmath.mpf(10) ** -9 * (1 + abs(best)):
                    break
                if at.imag > -(mpmath.mpf(10) ** -15) and (kind := self.singular(k, value, right)):
                    found.append((complex(at), kind))
                    best = at.real if best is None else max(best, at.real)
            return found


def wrong(polynomial):
    """Return what is wrong with an answer, and whether it was certified."""
    truth = sorted(Truth(polynomial).rightmost(), key=lambda item: abs(item[0].imag))
    found = find(polynomial)
    if not found.certified:
        return "", False
    level = sorted(((complex(item.p), item.kind) for item in (found, *found.ties)), key=lambda item: abs(item[0].imag))
    level = [item for item in level if item[0].imag >= 0]
    same = len(level) == len(truth) and all(
        abs(a[0] - b[0]) <= 10 * found.error + 1e-12 * (1 + abs(b[0])) and a[1] == b[1]
        for a, b in zip(level, truth, strict=True)
    )
    return ("" if same else f"{polynomial}: {level}, not {truth}"), True


@pytest.mark.parametrize("first", [35, *(pytest.param(k, marks=pytest.mark.slow) for k in range(0, DRAWS, 5) if k != 35)])
def test_no_certified_answer_is_wrong(first) -> None:
    seen = [wrong(transform_like(np.random.default_rng(seed))) for seed in range(first, first + 5)]
    assert [message for message, _ in seen if message] == []
    assert sum(certified for _, certified in seen) >= 4


@pytest.mark.parametrize("first", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(4, 20, 4))])
def test_shifted_scaled_and_rounded_equations(first) -> None:
    moves = [{p: p / 1000}, {p: p + 50}, {p: 100 * p - 3, R: R / 7}]
    seen = []
    for seed, move in enumerate(moves, start=5000 + first):
        seen.append(wrong(expand(transform_like(np.random.default_rng(seed)).subs(move, simultaneous=True))))
    rng = np.random.default_rng(5000 + first + 3)
    terms = transform_like(rng).expand().as_ordered_terms()
    seen.append(wrong(expand(sum(Rational(float(rng.normal())) * term for term in terms))))  # 53 binary digits
    assert [message for message, _ in seen if message] == []


@pytest.mark.parametrize("seed", [0, 3, *(pytest.param(k, marks=pytest.mark.slow) for k in (41, 4, 5, 6))])
def test_the_search_that_knows_no_polynomials_agrees(seed, monkeypatch) -> None:
    """With expectations or other functions in it, an equation is followed along the axis and over a mesh of the half plane."""
    polynomial = transform_like(np.random.default_rng(seed))
    exact = find(polynomial)
    monkeypatch.setattr(ImplicitTransform, "polynomial", None)
    try:
        found = find(polynomial)
    except SolverError:  # it says that it does not know
        return
    if found.certified:
        assert complex(found.p).real == pytest.approx(complex(exact.p).real, abs=1e-7 * (1 + abs(exact.p)))


def test_a_pole_of_another_sheet_does_not_count() -> None:
    found = find(p * R**2 + (p + 1) * R - 1)  # the other root diverges at p = 0, where the transform is 1
    assert (found.kind, found.exponent, found.certified) == ("branch point", -1.5, True)
    assert abs(found.p + 3 - math.sqrt(8)) <= 1e-15
    assert abs(found.R - 1 - math.sqrt(2)) <= 1e-14
    moved = find((p + 2) * R**2 + (p + 3) * R - 1)
    assert moved.p == pytest.approx(found.p - 2, abs=1e-14)
    assert moved.certified


def test_one_equation_written_in_five_ways() -> None:
    polynomial = transform_like(np.random.default_rng(1000))
    first = Poly(polynomial, R).coeff_monomial(1)
    ways = [
        polynomial,
        factor(expand(-3 * polynomial)),
        Eq(R, R - polynomial / (p**2 + R**2 + 1)),
        Eq(first / R, expand((first - polynomial) / R)),
        exp(-p) * polynomial**2 / (p - 1),
    ]
    answers = [find(way) for way in ways]
    assert all(item.certified for item in answers)
    assert len({(item.kind, item.exponent) for item in answers}) == 1
    assert [complex(item.p) for item in answers] == pytest.approx([complex(answers[0].p)] * 5, abs=1e-13)


@pytest.mark.parametrize("delta", [Rational(1, 2), Rational(19, 20), Rational(21, 20), Integer(2), 0.3, 7.0])
def test_the_marchenko_pastur_law_by_its_quadratic_equation(delta) -> None:
    """R(p) = ∫ dμ/(x + p): its branch point is the lower edge, and for δ < 1 the atom at 0 is a pole in front of it."""
    found = find(-p / delta * R**2 + (1 / delta - 1 - p) * R + 1)
    assert found.certified
    if delta < 1:
        assert (found.kind, found.p) == ("pole", 0)
        assert found.amplitude == pytest.approx(1 - float(delta), rel=1e-11)
    else:
        assert found.kind == "branch point"
        assert found.rate == pytest.approx((1 - float(delta) ** -0.5) ** 2, rel=2e-14)


@pytest.mark.parametrize(
    ("h", "kind", "where", "exponent", "amplitude"),
    [
        (R**3 - 1 / p, "branch point", 0, -2 / 3, 1 / math.gamma(1 / 3)),
        (R**2 - 1 / (p + 1) ** 3, "branch point", -1, 0.5, 2 / math.sqrt(math.pi)),
        ((R * (p + 1) ** 2 - 1) * (R - p - 3), "pole", -1, 1, 1),  # a double pole beside another sheet that crosses
        ((R - 1 / (p + 2)) ** 2 - p**3 / (p + 2) ** 6, "branch point", 0, -2.5, 2**-3 / math.gamma(-1.5)),  # a cusp
        ((R * (p + 2) - 1) ** 2 - p**2 * (p + 1) / (p + 2) ** 3, "branch point", -1, -1.5, None),  # p = 0: sheets cross
    ],
)
def test_kinds_of_algebraic_singularities(h, kind, where, exponent, amplitude) -> None:
    found = find(h)
    assert (found.kind, found.p) == (kind, pytest.approx(where, abs=1e-13))
    assert found.exponent == pytest.approx(exponent, abs=1e-12)
    if amplitude is not None:
        assert abs(found.amplitude) == pytest.approx(abs(amplitude), rel=1e-10)


def test_a_double_point_that_rounding_splits_is_none() -> None:
    """R = 2 (q − √(q² − 1)), q = (p − 0.1)² + 1.3 − 0.3: q² − 1 has a double zero at p = 0.1 up to rounding."""
    q = expand((p - 0.1) ** 2 + 1.3 - 0.3)
    found = find(R - 1 / (q - R / 4))
    assert found.kind == "branch point"
    assert complex(found.p) == pytest.approx(0.1 + 1j * math.sqrt(2), abs=1e-12)


def test_real_axis_only_and_a_region() -> None:
    h = R - 1 / ((p + 1) * ((p + Rational(1, 5)) ** 2 + 9) - R / 100)
    assert abs(complex(find(h).p).imag) > 2
    near = find(h, region=(-3, 1))
    assert np.isreal(near.p)
    assert near.p == pytest.approx(find(h, certify=False).p, abs=1e-13)
    assert not find(h, certify=False).certified
    with pytest.raises(SolverError, match="no singularity in the searched region Re p ≥ 1"):
        find(h, region=(1, 1))


def test_no_sheet_is_bounded() -> None:
    with pytest.raises(SolverError, match="no bounded solution"):
        find(R**2 - p)


def test_a_choice_of_sheets_that_matters_is_not_certified() -> None:
    both = (R * (p + 1) - 1) * (R * (p + 2) - 1)  # R ~ 1/p on two sheets
    assert not find(both).certified
    assert find((R * (p + 1) - 1) * (R * (p + 1) - 2)).certified  # they agree


def test_command_line(tmp_path, capsys) -> None:
    path = tmp_path / "quadratic.py"
    path.write_text(
        "from eqsolve import Eq, Singularity, param, unknown\n"
        'p, R = unknown("p R")\nshift = param("shift")\n'
        "q = p + shift\n"
        'model = Singularity("quadratic", transform=Eq(q * R**2 + (q + 1) * R, 1), variable=p, unknown=R,\n'
        '                    defaults={shift: 0}, observables={"gamma": -p})\n'
    )
    for shift in ("0", "2", "-0.3"):
        assert main(["solve", str(path), "--set", f"shift={shift}", "--atol", "1e-6", "--json"]) == 0
        made = json.loads(capsys.readouterr().out)
        assert made["status"] == "ok"
        assert made["stats"]["certified"]
        assert made["values"]["gamma"] == pytest.approx(float(shift) + 3 - math.sqrt(8), abs=1e-14)


def test_a_polynomial_with_too_many_critical_points_is_searched_without_a_certificate() -> None:
    found = find(R * (p + 2) - 1 - R**20 * (p + 3) ** 5 / 10**9)
    assert not found.certified
