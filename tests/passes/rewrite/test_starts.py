"""A process at the start inside an expectation: what it starts from, whatever solves the system."""

import numpy as np
import pytest
from sympy import cos, exp

import eqsolve
from eqsolve import GP, E, Eq, ModelError, System, White, correlation, process, random, times
from eqsolve.laws import Normal, Uniform
from eqsolve.passes.rewrite.starts import put_starts

t, tp = times("t t'")
x, y, z = process("x y z")
C = correlation("C")
x0 = random("x0", Normal(0, 1))


def relaxing(init, *, noise=None, law=None, observables=None):
    """x' = −x + noise, and what it has of its start: E x(t) x(0), and the mean square displacement."""
    laws = {} if law is None else {z: law}
    shown = observables or {"kept": E(x(t) * x(0)), "moved": E((x(t) - x(0)) ** 2)}
    return System("m", [Eq(x(t).diff(t), -x(t) + (noise or 0))], laws=laws, init={x: init}, observables=shown)


@pytest.mark.parametrize("init", [Normal(0, 1), x0], ids=["law", "constant"])
@pytest.mark.parametrize(("noise", "law", "strength"), [(None, None, 0.0), (z(t), White(1), 0.5)], ids=["ode", "white"])
def test_it_is_the_same_draw_as_the_path_starts_from(init, noise, law, strength):
    """E x(t)x(0) = e⁻ᵗ, E(x(t) − x(0))² = (1 − e⁻ᵗ)² + strength (1 − e⁻²ᵗ)."""
    model = relaxing(init, noise=noise, law=law)
    eqsolve.check(model)
    found = eqsolve.solve(model, t_max=1, rtol=1e-6, at=[1.0]).at([1.0])
    assert found["kept"].item() == pytest.approx(np.exp(-1), rel=1e-6)
    assert found["moved"].item() == pytest.approx((1 - np.exp(-1)) ** 2 + strength * (1 - np.exp(-2)), rel=1e-6)


def test_what_is_defined_starts_from_its_definition():
    model = System(
        "m", [Eq(x(t).diff(t), -x(t)), Eq(y(t), x(t) ** 2)], init={x: x0}, observables={"kept": E(y(t) * y(0))}
    )  # fmt: skip
    assert str(put_starts(model).observables["kept"]) == "E[x0**2*y(t)]"


def test_a_noise_has_no_start_of_its_own():
    model = relaxing(0, noise=z(t), law=GP(exp(-((t - tp) ** 2))), observables={"kept": E(x(t) * z(0))})
    with pytest.raises(ModelError, match=r"reads `z\(0\)` inside an expectation.*two times, C\(t, t'\), and read C\(t, 0\)"):
        eqsolve.check(model)


def test_two_times_come_apart_by_identities():
    def model(mean):
        eqs = [Eq(C(t, tp), mean), Eq(x(t).diff(t), -x(t) + z(t))]
        return System("m", eqs, laws={z: GP(C(t, tp))}, init={x: Uniform(0, 1)})

    eqsolve.check(model(E(cos(x(t) - x(tp)))))
    assert eqsolve.solve(model(E(cos(x(t) - x(tp)))), t_max=0.1, rtol=1e-2).dataset["C"][0, 0] == pytest.approx(1)
