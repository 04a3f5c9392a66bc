"""explain says what solve will do: the solver named is the one that runs, for every model and every option of the choice."""

import json

import pytest

import eqsolve
from eqsolve import Eq, Flow, Int, System, field, function, gradient, param, state, times
from eqsolve.errors import EqsolveError, UsageError
from eqsolve.explaining import foresee
from eqsolve.language.loading import list_models, load
from eqsolve.language.system import Cases
from eqsolve.passes.rewrite.indices import for_reading
from eqsolve.passes.rewrite.white import make_additive
from eqsolve.solvers.registry import solver_names

t, s = times("t s")
y = function("y")
PLAIN = System("plain", eqs=[Eq(y(t).diff(t), -y(t))], init={y: 1})
MEMORY = System("memory", eqs=[Eq(y(t).diff(t), -Int(y(s), (s, 0, t)))], init={y: 1})


class Ran(Exception):
    """Ends a solve where a solver would begin."""


@pytest.fixture
def runs(monkeypatch):
    """A function that returns the name of the solver that ``solve`` begins, or nothing where it refuses."""

    def begin(run, identity, *more):
        raise Ran(identity["solver"])

    monkeypatch.setattr("eqsolve.solving._run_kept", begin)

    def started(model, **options):
        try:
            timed = {} if model.kind in ("FixedPoint", "Singularity", "Cases") else {"t_max": 1}
            eqsolve.solve(model, **timed, **options)
        except Ran as ran:
            return str(ran)
        except EqsolveError:
            return ""
        raise AssertionError("no solver was begun")

    return started


FEW = {  # of every kind, and for every solver; the others are slow
    *("dln", "dln_flow", "dln_infinite_data", "dln_fixed_point", "dln_rate", "dln_lazy", "dln_descent", "dln_search", "lasso"),
    *("pspin", "rnn", "rnn_populations", "soft_spin", "mct_hard_spheres", "mackey_glass", "sir_memory", "lotka_volterra"),
    *("lotka_volterra_demographic", "linear_flow", "linear_regression", "two_layer_features", "l1_transition"),
}
OPTIONS = ({"kernels": False}, {"step": 0.1}, {"solver": "operators"})


@pytest.mark.parametrize(
    "name", [pytest.param(item.name, marks=[pytest.mark.slow] * (item.name not in FEW)) for item in list_models()]
)
def test_every_model_is_explained_and_the_solver_named_is_the_one_that_runs(name, runs):
    model = load(name)
    made = eqsolve.explain(model)
    text = made.text()
    assert made.name == json.loads(json.dumps(made.to_dict()))["model"] == name
    assert len(made.equations) == len(model.equations)
    for title, lines in made.sections():
        assert title in text
        assert all(line in text for line in lines)
    if isinstance(model, System):
        solved = make_additive(for_reading(model))  # noise that is multiplied is solved in other variables
        assert sorted(n for block in made.blocks for n in block) == sorted(head.name for head in solved.unknowns)
        assert len(made.substitutions) == len(model.substitute)
    assert runs(model) in made.solver.name.split(" or ")
    if not isinstance(model, Cases | Flow):
        options = OPTIONS[sum(map(ord, name)) % len(OPTIONS)]  # each of them for a third of the models
        assert foresee(model, **options).name == runs(model, **options), options


@pytest.mark.parametrize("model", [PLAIN, MEMORY], ids=["plain", "memory"])
@pytest.mark.parametrize("step", [None, 0.1])
def test_every_other_solver_is_possible_or_refused_as_told(model, step, runs):
    others = dict(eqsolve.explain(model, step=step).solver.others)
    for name, told in others.items():
        assert told.startswith("also applicable") == (runs(model, step=step, solver=name) == name), (name, told)


def test_what_is_called_possible_gives_the_same_numbers():
    for model in (PLAIN, MEMORY):
        explained = eqsolve.explain(model).solver
        chosen = eqsolve.solve(model, at=[1.0], t_max=1)
        for name, told in explained.others:
            if told.startswith("also applicable"):
                other = eqsolve.solve(model, at=[1.0], t_max=1, solver=name)
                assert float(other.at([1.0])["y"][0]) == pytest.approx(float(chosen.at([1.0])["y"][0]), rel=1e-3)


def test_a_flow_is_explained_by_its_mean_field():
    flow = load("linear_flow")
    made = eqsolve.explain(flow)
    assert [item.text for item in made.mean_field.equations] == [item.text for item in eqsolve.explain(flow.dmft()).equations]
    assert "the mean-field equations derived from the flow" in made.text()
    assert made.to_dict()["mean_field"]["kind"] == "System"


def test_a_flow_with_momentum_and_one_of_descent_are_explained(runs):
    flow = load("linear_flow")
    for variant in (flow.momentum(1), flow.gradient_descent(0.1), flow.infinite_data()):
        assert eqsolve.explain(variant).solver.name == runs(variant) != ""


def test_a_flow_that_solve_refuses_says_why(runs):
    u, f, g = state("u"), field("f"), gradient("g")
    delta, q = param("delta", positive=True), param("q")
    flow = Flow("odd", state={u: 1}, weights=[u], fields=[f], loss_gradient=[f + y(t)], gradients=[g], drift={u: -g},
                defaults={delta: 1, q: 1})  # fmt: skip
    made = eqsolve.explain(flow)
    assert runs(flow) == made.solver.name == ""
    assert made.solver.reason.startswith("solve refuses this: ")


def test_a_step_is_never_dropped_in_silence():
    with pytest.raises(UsageError, match="omit step="):
        eqsolve.solve(PLAIN, t_max=1, step=0.1, solver="two_time")
    assert set(solver_names()) >= {"ode", "two_time", "operators", "stochastic", "fixed_point", "singularity"}


def test_a_model_is_named_or_given():
    assert eqsolve.explain("dln_rate").solver.name == "singularity"
    with pytest.raises(UsageError, match="model= takes a model, its name or the path of its file, got 3"):
        eqsolve.explain(3)
