"""Ensembles whose paths are affine in Gaussian drives and Gaussian constants: their law is Gaussian, no path is needed.

Where every signal and every start is affine in the unknowns, the noises and the Gaussian constants, with coefficients that
are the same for all paths, these are jointly Gaussian, given constants of another law. What is averaged is then a function of
few Gaussian arguments at each time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sympy import Add, Basic, DiracDelta, Dummy, Expr, Poly, S, expand

from eqsolve.compile.lowering import Lowered, lower
from eqsolve.compile.members import for_members, write_members
from eqsolve.compile.stochastic import StochasticProgram, compile_stochastic
from eqsolve.language.laws import Normal
from eqsolve.language.symbols import Function, Parameter, Random, Value
from eqsolve.passes.forms.expressions import partial
from eqsolve.passes.forms.kinks import switches
from eqsolve.passes.forms.path_form import COLUMN, ROW, Mean, PathEnsemble, PathForm
from eqsolve.passes.forms.structure import Derivation


@dataclass(frozen=True, eq=False)
class ArgumentPlan:
    """Σ coefficient × variable at one time."""

    variables: tuple[tuple[str, int], ...]  # ("unknown" | "noise" | "constant", place)
    coefficients: Lowered  # a function of the time, the conditions and the functions of time


@dataclass(frozen=True, eq=False)
class FactorPlan:
    """A function of Gaussian arguments, the time, the conditions and the functions of time."""

    arguments: tuple[int, ...]
    function: Lowered
    degree: int | None  # of a polynomial in the arguments; None of another function
    bends: int  # kinks and jumps: they are at the zeros of
    switches: Lowered  # functions of the same, affine in the only argument


@dataclass(frozen=True)
class ByParts:
    """A term of E f(t) g(t') by Stein's lemma: means and covariances of arguments, times a simpler pair.

    ``links`` of one argument are means, of two covariances.

    An argument is given by its side, 0 for the time of f and 1 for that of g, and its place.
    """

    links: tuple[tuple[tuple[int, int], ...], ...]
    first: int
    second: int


@dataclass(frozen=True, eq=False)
class JointPlan:
    """What averages with the Gaussian law of an ensemble need in addition to its path equations."""

    affine: tuple[str, ...]  # constants in which everything is affine
    conditions: tuple[str, ...]  # constants that are conditioned on whatever their law
    functions: tuple[str, ...]
    arguments: tuple[ArgumentPlan, ...]  # of everything that is averaged, each once
    factors: tuple[FactorPlan, ...]  # the same
    pairs: tuple[tuple[tuple[int, int], ...], ...]  # factors of every term of means (or unknown)
    # by factor that is a polynomial in some of its arguments: coefficients and arguments of terms
    parts: dict[int, tuple[tuple[int, tuple[int, ...]], ...]]
    moments: dict[tuple[int, int], tuple[ByParts, ...]]  # of pairs with such a factor


@dataclass(frozen=True, eq=False)
class GaussianProgram:
    """The path equations and closed relations of a system, and the law of each ensemble."""

    paths: StochasticProgram
    laws: tuple[JointPlan, ...]
    rough: bool  # kinks at equal times: by white noise, or declared, as exp(-|t − t'|)

    def for_members(self) -> GaussianProgram:
        """Return the plan for every member of the families that its unknowns stand for."""
        pairs = [pair for item in zip(self.paths.ensembles, self.laws, strict=True) for pair in for_members(item)]
        ensembles, laws = zip(*pairs, strict=True)
        rest = write_members(replace(self.paths, ensembles=()))
        return replace(self, paths=replace(rest, ensembles=ensembles), laws=laws)


def compile_gaussian(derivation: Derivation, parameters: Sequence[Parameter]) -> GaussianProgram:
    """Return the plan of a system whose law is Gaussian, its parameters being arguments."""
    form = derivation.form
    assert form is not None
    laws = tuple(_GaussianLaw(ensemble).plan(parameters) for ensemble in form.ensembles)
    kernels = [*(law.covariance for _, law in form.covariances), *(item.rhs for item in form.kernels)]
    kinks = [item for item in switches(kernels) if {ROW, COLUMN} <= item.free_symbols]
    return GaussianProgram(compile_stochastic(derivation, parameters), laws, bool(form.whites or kinks))


def why_not_gaussian(form: PathForm) -> str:
    """Return why the law of the paths is not known to be Gaussian; nothing when it is."""
    try:
        for ensemble in form.ensembles:
            _GaussianLaw(ensemble)
    except _NotGaussianError as reason:
        return str(reason)
    return ""


class _NotGaussianError(Exception):
    """Says what keeps a system from being Gaussian."""


class _GaussianLaw:
    """Takes what an ensemble averages apart into functions of Gaussian arguments, each once."""

    def __init__(self, ensemble: PathEnsemble) -> None:
        unknowns = [unknown.symbol for unknown in ensemble.unknowns]
        noises = [noise(ROW) for noise in ensemble.noises]
        self.affine = _affine_constants(ensemble, [*unknowns, *noises])
        self.conditions = [item for item in ensemble.randoms if item not in self.affine]
        named: tuple[tuple[str, Sequence[Basic]], ...]
        named = (("unknown", unknowns), ("noise", noises), ("constant", self.affine))
        self.variables = {item: (kind, place) for kind, items in named for place, item in enumerate(items)}
        self.plain: dict[Basic, Dummy] = {item: Dummy(f"x{place}", real=True) for place, item in enumerate(self.variables)}
        self.back = {placeholder: item for item, placeholder in self.plain.items()}
        # combinations of variables at one time, (variable, coefficient) pairs, and their symbols
        self.arguments: dict[tuple[tuple[Basic, Expr], ...], Dummy] = {}
        # by functions of arguments that are averaged: their symbols, their degree, and their kinks
        self.factors: dict[Expr, tuple[tuple[Dummy, ...], int | None, list[Expr]]] = {}
        self.parts: dict[int, tuple[tuple[int, tuple[int, ...]], ...]] = {}
        self.moments: dict[tuple[int, int], tuple[ByParts, ...]] = {}
        self.pairs = tuple(self._pairs(mean, unknowns) for mean in ensemble.means)

    def _pairs(self, mean: Mean, unknowns: Sequence[Basic]) -> tuple[tuple[int, int], ...]:
        """Return the places of the two factors of every term of a mean."""
        if mean.sides:
            raise _NotGaussianError("a mean of values at two times is no sum of products: pairs are averaged along paths")
        terms: Iterable[tuple[Expr, Expr]] = [(left, right) for _, left, right in mean.terms]
        if mean.kind == "response":
            ((before, after),) = terms
            terms = [(before * partial(mean.output, symbol), after) for symbol in unknowns]
        return tuple(self._pair(*(self._walk(expr.xreplace(self.plain)) for expr in term)) for term in terms)

    def _pair(self, left: Expr, right: Expr) -> tuple[int, int]:
        """Return the places of two factors; arguments in which one is a polynomial are integrated by parts."""
        first, second = self._factor(left), self._factor(right)
        if (first, second) in self.moments:
            return first, second
        if first in self.parts or second in self.parts:
            terms: list[ByParts] = []
            for (f, near), (g, far) in itertools.product(
                *(self.parts.get(place, ((place, ()),)) for place in (first, second))
            ):
                pair = (list(self.factors)[f], list(self.factors)[g])
                terms += self._moments([*((0, item) for item in near), *((1, item) for item in far)], pair, ())
            self.moments[first, second] = tuple(terms)
        # a product rule in more dimensions costs more than paths
        elif (count := sum(len([*self.factors.values()][place][0]) for place in (first, second))) > 4:
            raise _NotGaussianError(f"a mean of {count} Gaussian variables at once is cheaper with paths")
        return first, second

    def _moments(self, linear: list[tuple[int, int]], factors: tuple[Expr, Expr], links: tuple[Any, ...]) -> Iterator[ByParts]:
        """Yield the terms of E[v … f g], v … Gaussian: E[v F] = E[v] E[F] + Σ_u cov(v, u) E[∂F/∂u] (Stein's lemma)."""
        if not linear:
            yield ByParts(links, *self._pair(*factors))
            return
        mine, *rest = linear
        (f, g), order = factors, list(enumerate(self.arguments.values()))
        yield from self._moments(rest, factors, (*links, (mine,)))
        others = [(other, rest[:place] + rest[place + 1 :], factors) for place, other in enumerate(rest)]
        others += [((0, place), rest, (f.diff(symbol), g)) for place, symbol in order if f.has(symbol)]
        others += [((1, place), rest, (f, g.diff(symbol))) for place, symbol in order if g.has(symbol)]
        for other, left, moved in others:
            yield from self._moments(left, moved, (*links, tuple(sorted((mine, other)))))

    def _factor(self, function: Expr) -> int:
        """Return the place of a function of arguments among the factors."""
        if function in self.factors:
            return list(self.factors).index(function)
        if function.has(DiracDelta):
            raise _NotGaussianError("the response of a function with a jump is asked for")
        symbols = tuple(item for item in self.arguments.values() if function.has(item))
        degree = None
        if not symbols:
            degree = 0
        elif function.is_polynomial(*symbols):
            degree = int(Poly(function, *symbols).total_degree())
        kinks = [item for item in switches([function]) if item.free_symbols & {*symbols}]
        if kinks and (len(symbols) > 1 or not all(_is_affine(item, symbols) for item in kinks)):
            raise _NotGaussianError("a mean has a kink that is no simple function of one Gaussian variable")
        place, powers = len(self.factors), [item for item in symbols if function.is_polynomial(item)]
        self.factors[function] = (symbols, degree, kinks)
        # two factors of degree three have 76 terms
        if len(symbols) > 1 and powers and (whole := Poly(function, *powers)).total_degree() <= 3:
            order = list(self.arguments.values())
            self.parts[place] = tuple(
                (self._factor(factor), tuple(order.index(x) for x, n in zip(powers, powers_of, strict=True) for _ in range(n)))
                for powers_of, factor in whole.terms()
            )
        return place

    def _walk(self, node: Any) -> Any:
        """Return a node with its largest affine parts as functions of arguments."""
        if not node.free_symbols & self.back.keys():
            return node
        if isinstance(node, Expr) and _is_affine(node, list(self.back)):
            return self._argument(node)
        if isinstance(node, Add):
            simple = [part for part in node.args if _is_affine(part, list(self.back))]
            rest = [part for part in node.args if part not in simple]
            return Add(self._walk(Add(*simple)), *(self._walk(part) for part in rest))
        return node.func(*(self._walk(part) for part in node.args))

    def _argument(self, expr: Expr) -> Expr:
        """Return an affine expression in terms of an argument: scale × argument + offset."""
        present = [item for item in self.back if expr.has(item)]
        slopes = {item: expand(expr.diff(item)) for item in present}
        slopes = {item: slope for item, slope in slopes.items() if slope != 0}
        offset = expand(expr.xreplace(dict.fromkeys(present, S.Zero)))
        if not slopes:
            return offset
        first = next(iter(slopes.values()))
        scale = first if len(slopes) == 1 or first.is_number else S.One
        terms = tuple((self.back[item], expand(slope / scale)) for item, slope in slopes.items())
        return scale * self.arguments.setdefault(terms, Dummy(f"u{len(self.arguments)}", real=True)) + offset

    def plan(self, parameters: Sequence[Parameter]) -> JointPlan:
        """Return the law as array functions."""
        pieces = [*(slope for argument in self.arguments for _, slope in argument), *self.factors]
        values = [value.head for expr in pieces for value in expr.atoms(Value)]
        functions = sorted({head for head in values if isinstance(head, Function)}, key=str)
        inputs: list[Basic] = [ROW, *self.conditions, *(head(ROW) for head in functions)]
        arguments = tuple(
            ArgumentPlan(tuple(map(self.variables.__getitem__, variables)), lower(slopes, inputs, parameters))
            for variables, slopes in (zip(*terms, strict=True) for terms in self.arguments)
        )
        order, factors = list(self.arguments.values()), []
        for function, (symbols, degree, kinks) in self.factors.items():
            value, zeros = (lower(pieces, [*symbols, *inputs], parameters) for pieces in ([function], kinks))
            factors.append(FactorPlan(tuple(map(order.index, symbols)), value, degree, len(kinks), zeros))
        named = (self.affine, self.conditions, functions)
        affine, conditions, heads = (tuple(item.name for item in items) for items in named)
        return JointPlan(affine, conditions, heads, arguments, tuple(factors), self.pairs, self.parts, self.moments)


def _affine_constants(ensemble: PathEnsemble, moving: Sequence[Basic]) -> list[Random]:
    """Return the Gaussian constants in which all equations of the paths are affine."""
    affine = [item for item in ensemble.randoms if item.law is None or isinstance(item.law, Normal)]
    equations: list[tuple[str, Expr]] = [(ensemble.unknowns[link.unknown].name, link.signal) for link in ensemble.links]
    equations += [(unknown.name, unknown.start) for unknown in ensemble.unknowns]
    equations += [(memory.symbol.name, memory.signal) for memory in ensemble.memories]
    for name, expr in equations:
        if not _is_affine(expr, moving):
            raise _NotGaussianError(f"the equation of `{name}` is not linear along a path")
        meeting = [item for item in affine if expr.has(item) and not _is_affine(expr, [*moving, *affine])]
        affine = [item for item in affine if item not in meeting]
    if not (ensemble.noises or ensemble.kicks or affine):
        raise _NotGaussianError("nothing that drives its paths is Gaussian")
    return affine


def _is_affine(expr: Expr, variables: Sequence[Basic]) -> bool:
    """Whether an expression is affine in variables, with coefficients that do not depend on them."""
    placeholders = {item: Dummy(f"x{place}", real=True) for place, item in enumerate(variables)}
    plain = expr.xreplace(placeholders)
    symbols = plain.free_symbols & set(placeholders.values())
    return all(not expand(plain.diff(item)).free_symbols & symbols for item in symbols)
