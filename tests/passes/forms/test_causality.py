"""The order of a time slice, and the cycles nothing can resolve."""

from eqsolve import Eq, System, function, times
from eqsolve.passes.forms.causality import analyse_causality

t = times("t")


def test_each_set_that_hangs_together_gives_its_shortest_cycle() -> None:
    a, b, c, d, e = function("a b c d e")
    system = System(
        "cyclic",
        eqs=[Eq(a(t), b(t) + e(t)), Eq(b(t), c(t)), Eq(c(t), a(t) + b(t)), Eq(d(t), 2 * d(t)), Eq(e(t), t)],
    )
    assert sorted(analyse_causality(system).cycles) == [("b", "c"), ("d",)]


def test_a_cycle_names_each_reader_before_what_it_reads() -> None:
    a, b, c = function("a b c")
    system = System("ring", eqs=[Eq(a(t), b(t)), Eq(b(t), c(t)), Eq(c(t), a(t))])
    assert analyse_causality(system).cycles == (("a", "b", "c"),)


def test_many_cycles_are_not_listed_one_by_one() -> None:
    functions = [function(f"f{index}") for index in range(25)]
    system = System("full", eqs=[Eq(f(t), sum(g(t) for g in functions if g != f)) for f in functions])
    [cycle] = analyse_causality(system).cycles
    assert len(cycle) == 2
