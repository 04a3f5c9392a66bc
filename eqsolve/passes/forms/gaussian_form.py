"""Ensembles whose paths are affine in Gaussian drives and Gaussian constants: their law is Gaussian, no path is needed.

Where every signal and every start is affine in the unknowns, the noises and the Gaussian constants, with coefficients that
are the same for all paths, these are jointly Gaussian. Constants of another law, or ones that enter otherwise, are conditioned
on: given them the law is Gaussian. What is averaged is then a function of few Gaussian arguments at each time, each an affine
combination of unknowns, noises and constants.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sympy import Add, Basic, DiracDelta, Dummy, Expr, Poly, S, expand

from eqsolve.language.laws import Normal
from eqsolve.language.symbols import Random
from eqsolve.passes.forms.expressions import partial
from eqsolve.passes.forms.kinks import switches
from eqsolve.passes.forms.path_form import Ensemble, Mean, PathForm
from eqsolve.passes.forms.sectors import ROW

Argument = tuple[tuple[Basic, Expr], ...]
"""A combination of Gaussian variables at one time: (variable, coefficient) pairs; coefficients are not random."""


@dataclass(frozen=True)
class Factor:
    """A function of Gaussian arguments."""

    arguments: tuple[int, ...]  # their places among the ensemble's arguments
    # the function, the symbols standing for the arguments
    symbols: tuple[Dummy, ...]
    function: Expr
    # that of the function as a polynomial in the arguments; None of another function
    degree: int | None
    # expressions, affine in the only argument, at whose zeros the function bends or jumps
    switches: tuple[Expr, ...]


@dataclass(frozen=True)
class GaussianEnsemble:
    """What makes an ensemble Gaussian."""

    # constants in which everything is affine, and those that are conditioned on whatever their law
    affine: tuple[Random, ...]
    conditions: tuple[Random, ...]
    # of everything that is averaged, each once
    arguments: tuple[Argument, ...]
    factors: tuple[Factor, ...]
    # of each mean, by its terms, the places of its two factors. Of a response, by unknown: a(t)
    # ∂output/∂unknown, and b.
    pairs: tuple[tuple[tuple[int, int], ...], ...]


class _NotGaussianError(Exception):
    """Says what keeps a system from being Gaussian."""


def derive_gaussian_form(form: PathForm) -> tuple[GaussianEnsemble, ...] | str:
    """Return the Gaussian ensembles of a system in path form, or the reason why there are none."""
    try:
        return tuple(map(_ensemble, form.ensembles))
    except _NotGaussianError as reason:
        return str(reason)


def _ensemble(ensemble: Ensemble) -> GaussianEnsemble:
    moving = [unknown.symbol for unknown in ensemble.unknowns] + [noise(ROW) for noise in ensemble.noises]
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
    collect = _Factors([*moving, *affine])
    pairs = tuple(collect.of(mean, [unknown.symbol for unknown in ensemble.unknowns]) for mean in ensemble.means)
    conditions = tuple(item for item in ensemble.randoms if item not in affine)
    return GaussianEnsemble(tuple(affine), conditions, tuple(collect.arguments), tuple(collect.factors), pairs)


class _Factors:
    """Takes what is averaged apart into functions of Gaussian arguments; equal ones are kept once."""

    def __init__(self, variables: Sequence[Basic]) -> None:
        self.plain: dict[Basic, Dummy] = {item: Dummy(f"x{place}", real=True) for place, item in enumerate(variables)}
        self.back = {placeholder: item for item, placeholder in self.plain.items()}
        self.arguments: dict[Argument, int] = {}
        self.symbols: list[Dummy] = []
        self.factors: list[Factor] = []
        self.known: dict[Expr, int] = {}

    def of(self, mean: Mean, unknowns: Sequence[Basic]) -> tuple[tuple[int, int], ...]:
        if mean.kind != "response":
            pairs = [(self.factor(left), self.factor(right)) for _, left, right in mean.terms]
        else:
            ((_, before, after),) = mean.terms
            slopes = [before * partial(mean.output, symbol) for symbol in unknowns]
            pairs = [(self.factor(slope), self.factor(after)) for slope in slopes]
        for pair in pairs:
            counts = [len(self.factors[place].arguments) for place in pair]
            # Gaussian arguments of a pair of factors: a product rule in more dimensions is dearer than paths
            if sum(counts) > 4:
                raise _NotGaussianError(f"a mean of {sum(counts)} Gaussian variables at once is cheaper with paths")
        return tuple(pairs)

    def factor(self, expr: Expr) -> int:
        """Return the place of a factor."""
        if expr not in self.known:
            self.known[expr] = len(self.factors)
            self.factors.append(self._make(expr))
        return self.known[expr]

    def _make(self, expr: Expr) -> Factor:
        if expr.has(DiracDelta):
            raise _NotGaussianError("the response of a function with a jump is asked for")
        function = self._walk(expr.xreplace(self.plain))
        assert isinstance(function, Expr)
        symbols = tuple(item for item in self.symbols if function.has(item))
        degree = None
        if not symbols:
            degree = 0
        elif function.is_polynomial(*symbols):
            degree = int(Poly(function, *symbols).total_degree())
        bends = [item for item in switches([function]) if item.free_symbols & {*symbols}]
        if bends and (len(symbols) > 1 or not all(_is_affine(item, symbols) for item in bends)):
            raise _NotGaussianError("a mean has a kink that is no simple function of one Gaussian variable")
        return Factor(tuple(self.symbols.index(item) for item in symbols), symbols, function, degree, tuple(bends))

    def _walk(self, node: Basic) -> Basic:
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
        if terms not in self.arguments:
            self.arguments[terms] = len(self.symbols)
            self.symbols.append(Dummy(f"u{len(self.symbols)}", real=True))
        return scale * self.symbols[self.arguments[terms]] + offset


def _is_affine(expr: Expr, variables: Sequence[Basic]) -> bool:
    """Whether an expression is affine in variables, with coefficients that do not depend on them."""
    placeholders = {item: Dummy(f"x{place}", real=True) for place, item in enumerate(variables)}
    plain = expr.xreplace(placeholders)
    symbols = plain.free_symbols & set(placeholders.values())
    return all(not expand(plain.diff(item)).free_symbols & symbols for item in symbols)
