"""Rich phase of a large initialization with weight decay, around t_c = 2 log(α)/λ (eq. dmft_rich).

Time is counted from t_c, so that α⁴ e^{−2λt} becomes e^{−2λt} and α disappears. The system starts from w =
0 at the finite negative time tau0: it is the network of eq. dmft_dln with α = e^{−λ tau0/2}, seen from its
own t_c, and the rich phase proper is the limit tau0 → −∞. As printed, except for the reason given there: it
is w², not w, that is compared with α⁴ e^{−2λt}.
"""

from sympy import exp, sinh, sqrt

from eqsolve import Eq, load, param

lam = param("lam", positive=True, latex=r"\lambda", about="weight decay")
tau0 = param("tau0", negative=True, about="time of the start, counted from 2 log(α)/λ")
dln = load("dln").subs(lam=lam)
t, alpha, w, g, theta = dln.symbols("t alpha w g theta")

model = dln.shift_time(-tau0).replace(
    "dln_rich",
    eqs=[Eq(w(t).diff(t), -sqrt(w(t)**2 + exp(-2 * lam * t)) * g(t) - lam * w(t))],
    substitute={w: exp(-lam * t) * sinh(theta(t))},
    defaults={lam: 0.5, tau0: -6, alpha: None},
    observables={"loss": None, "overlap": None, "l1": None},
)
