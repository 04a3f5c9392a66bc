"""Derived tangent equations and slice orders against the auxiliary equations written out by hand in the paper."""

from sympy import Expr, exp, sqrt, tanh

import eqsolve
from eqsolve import GP, E, Eq, Int, Resp, System, correlation, param, process, random, response, times
from eqsolve.passes.forms.causality import analyse_causality
from eqsolve.passes.forms.tangents import Tangent, TangentEquation, derive_tangents

t, tp, s = times("t t' s")


def tangents(model: System) -> dict[tuple[str, str], TangentEquation]:
    return {(item.process.name, item.noise.name): item for item in derive_tangents(model)}


def same(left: Expr, right: Expr) -> bool:
    return (left - right).expand() == 0


def test_two_layer_network() -> None:
    """∂w/∂z as in the derivation of the response: δw' = (∂F/∂w) δw − D δg, started at −D/δ."""
    model = eqsolve.load("dln")
    w, g, z, R_f, alpha, delta, lam = model.symbols("w g z R_f alpha delta lam")
    found = tangents(model)
    dw, dg = Tangent(w, z), Tangent(g, z)
    D = sqrt(w(t) ** 2 + alpha**4 * exp(-2 * lam * t))
    assert set(found) == {("w", "z"), ("g", "z")}
    assert same(found["g", "z"].equation.rhs, dw(t, tp) - Int(R_f(t, s) * dw(s, tp), (s, tp, t)))
    assert found["g", "z"].instantaneous == 1 / delta
    assert same(found["w", "z"].equation.rhs, (-w(t) / D * g(t) - lam) * dw(t, tp) - D * dg(t, tp))
    assert same(found["w", "z"].initial, -D.subs(t, tp) / delta)
    assert found["w", "z"].instantaneous == 0


def test_layers_kept_apart() -> None:
    """eq. dmft_truncated_dln without truncation: u, v, f and g with two noises; the sign of R_w(t, s) in ∂f is negative."""
    lam = param("lam", nonnegative=True)
    delta = param("delta", positive=True)
    u, v, w, f, g, z_f, z_g = process("u v w f g z_f z_g")
    w_star, xi = random("w_star xi")
    C_w, C_f = correlation("C_w C_f")
    R_w, R_f = response("R_w R_f")
    model = System(
        "layers",
        eqs=[
            Eq(u(t).diff(t), -(lam * u(t) + u(t) ** 2 * g(t)) / 2),
            Eq(v(t).diff(t), -(lam * v(t) - v(t) ** 2 * g(t)) / 2),
            Eq(w(t), (u(t) ** 3 - v(t) ** 3) / 3),
            Eq(g(t), z_g(t) / delta + w(t) - w_star - Int(R_f(t, s) * (w(s) - w_star), (s, 0, t))),
            Eq(f(t), z_f(t) - Int(R_w(t, s) * (f(s) - xi), (s, 0, t))),
            Eq(R_w(t, tp), -E(Resp(w(t), z_g(tp)))),
            Eq(R_f(t, tp), -E(Resp(f(t), z_f(tp)))),
            Eq(C_w(t, tp), E((w(t) - w_star) * (w(tp) - w_star))),
            Eq(C_f(t, tp), E((f(t) - xi) * (f(tp) - xi))),
        ],
        laws={z_g: GP(delta * C_f(t, tp)), z_f: GP(C_w(t, tp))},
        init={u: 1, v: 1},
    )
    found = tangents(model)
    du, dv, dw, dg, df = (Tangent(x, n) for x, n in ((u, z_g), (v, z_g), (w, z_g), (g, z_g), (f, z_f)))
    assert same(found["w", "z_g"].equation.rhs, u(t) ** 2 * du(t, tp) - v(t) ** 2 * dv(t, tp))
    assert same(found["u", "z_g"].equation.rhs, -(lam / 2 + u(t) * g(t)) * du(t, tp) - u(t) ** 2 / 2 * dg(t, tp))
    assert same(found["v", "z_g"].equation.rhs, -(lam / 2 - v(t) * g(t)) * dv(t, tp) + v(t) ** 2 / 2 * dg(t, tp))
    assert same(found["u", "z_g"].initial, -(u(tp) ** 2) / (2 * delta))
    assert same(found["v", "z_g"].initial, v(tp) ** 2 / (2 * delta))
    assert same(found["g", "z_g"].equation.rhs, dw(t, tp) - Int(R_f(t, s) * dw(s, tp), (s, tp, t)))
    assert same(found["f", "z_f"].equation.rhs, -R_w(t, tp) - Int(R_w(t, s) * df(s, tp), (s, tp, t)))
    assert found["f", "z_f"].instantaneous == 1
    assert ("f", "z_g") not in found


def test_nonlinear_memory() -> None:
    x, z = process("x z")
    R = response("R")
    C = correlation("C")
    model = System(
        "memory",
        eqs=[
            Eq(x(t), z(t) - Int(R(t, s) * tanh(x(s)), (s, 0, t))),
            Eq(R(t, tp), E(Resp(x(t), z(tp)))),
            Eq(C(t, tp), E(x(t) * x(tp))),
        ],
        laws={z: GP(C(t, tp))},
    )
    dx = Tangent(x, z)
    slope = 1 - tanh(x(s)) ** 2
    expected = -R(t, tp) * (1 - tanh(x(tp)) ** 2) - Int(R(t, s) * slope * dx(s, tp), (s, tp, t))
    (found,) = derive_tangents(model)
    difference = found.equation.rhs - expected
    assert difference.expand() == 0 or _integrands_agree(found.equation.rhs, expected)


def _integrands_agree(left: Expr, right: Expr) -> bool:
    """Compare the one integral of each side by its integrand, which sympy may have left unexpanded."""
    (first,), (second,) = left.atoms(Int), right.atoms(Int)
    rest = (left + first) - (right + second)
    return rest.expand() == 0 and (first.integrand - second.integrand).expand() == 0


def test_slice_order() -> None:
    order = analyse_causality(eqsolve.load("dln")).order
    assert order == ("w", "C_w", "R_w", "R_f", "C_f", "z", "g")


def test_cycle_is_a_block() -> None:
    """Two kernels that read each other under integrals in the same slice are solved together."""
    A, B = response("A B")
    model = System(
        "block",
        eqs=[
            Eq(A(t, tp), 1 + Int(B(t, s), (s, tp, t))),
            Eq(B(t, tp), 1 + Int(A(t, s), (s, tp, t))),
        ],
    )
    causality = analyse_causality(model)
    assert causality.blocks == (("A", "B"),)
    assert causality.cycles == ()
