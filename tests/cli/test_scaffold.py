"""A variant's file says what the original's says, under its own name."""

import pytest

import eqsolve
from eqsolve.cli.doctor import variant_source, write_variant
from eqsolve.language.loading import load

# Of each kind; with closed forms, with a flow, made from another model, of several outputs.
KINDS = ["dln", "dln_search", "dln_lazy", "dln_fixed_point", "dln_fixed_point_l1_paths", "dln_rate", "dln_flow", "dln_sgd",
         "lasso", "pspin", "mackey_glass", "softmax_regression"]  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_model_has_a_variant(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    original = load(name)
    if isinstance(original, eqsolve.Cases):
        with pytest.raises(eqsolve.UsageError, match=f"start from one of: {original.cases[0][1]}"):
            write_variant("a_variant", name)
        return
    made = load(str(write_variant("a_variant", name)[0]))
    eqsolve.check(made)
    assert (made.name, type(made)) == ("a_variant", type(original))
    assert made.equations == original.equations
    assert not getattr(made, "exact", None)


def test_what_belongs_to_the_original_is_left_out():
    text = 'model = System("m", eqs=[], exact={a:\n  1}, flow="m_flow", defaults={})\n'
    model = type("Model", (), {"name": "m"})()
    made = variant_source("other", model, text)
    assert 'System("other", eqs=[], exact=None, flow=None, defaults={})' in made
    assert "are left\nout: they belong to the original equations" in made
    compile(made, "other.py", "exec")
