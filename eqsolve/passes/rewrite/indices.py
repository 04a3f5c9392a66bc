"""Families written out: a model with indices as the same model without them, each member an unknown of its own.

What solvers that know no indices take, and what `check` looks at, at small sizes; the numbers of tables are parameters of it.
"""

import ast
import dataclasses
import functools
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import sympy
from sympy import Add, Basic, Derivative, Integer, KroneckerDelta, Tuple

from eqsolve.errors import ModelError, ParameterError
from eqsolve.language.binding import bind_some, parameter_value, read_value, refuse_unknown
from eqsolve.language.indices import (
    Contraction,
    Index,
    MemberSum,
    Sum,
    at_indices,
    counts,
    free_indices,
    members_in,
    ordered_indices,
    places,
)
from eqsolve.language.laws import Laplace, Law, Normal, Uniform
from eqsolve.language.model import Equation, Model, Table, leaves, mapper
from eqsolve.language.nodes import GP, E, Int, InverseValue, Resp
from eqsolve.language.printing import kept_by_model
from eqsolve.language.symbols import (
    Correlation,
    CrossCorrelation,
    Function,
    Head,
    Named,
    Parameter,
    Process,
    Random,
    Time,
    Unknown,
    Value,
    default_latex,
    fresh_name,
)
from eqsolve.language.system import FixedPoint, System, start_constant
from eqsolve.numerics.arrays import GENERIC, ROUNDING, member_name, member_names
from eqsolve.numerics.backend import memory
from eqsolve.passes.forms.convolution_form import has_shifts, why_not_convolution
from eqsolve.passes.forms.expressions import free_times, outermost, rebuilt
from eqsolve.passes.forms.kinks import KINKS
from eqsolve.passes.forms.path_form import is_random
from eqsolve.passes.forms.structure import choosing_parameters

AnyModel = TypeVar("AnyModel", bound=Model)

# Functions of time that an adaptive method with a dense Jacobian takes before collocation with GMRES. Logistic equations and
# oscillators gain twice by it at 100 members and 8 times at 300, stiff equations lose 4 times at 100 and 300, 10 times at 1000
_FEW = 100
MOST_MEMBERS = 50_000  # numbers of one table, or members of one family, that are written out: a minute of symbolic work


@dataclass(frozen=True)
class Expanded:
    """A model without indices; ``tables`` names those whose numbers are parameters of it."""

    model: Model
    tables: frozenset[str]

    def settings(self, arrays: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Return the numbers of tables as settings of the model."""
        known = {item.name for item in self.model.parameters}
        entries = ((member_name(base, place), value) for base in self.tables for place, value in np.ndenumerate(arrays[base]))
        return {name: float(value) for name, value in entries if name in known}


# --- Jointly normal families: a root of the covariance times independent standard normal constants.
@dataclass(frozen=True)
class JointNormal:
    """The law of a jointly normal family: its covariance is ``factor`` times a table."""

    name: str
    mean: Any
    factor: Any
    covariance: Parameter

    @property
    def root(self) -> str:
        """The name of the table R with R Rᵀ = covariance."""
        return f"{self.name}_root"

    def array(self, covariance: np.ndarray) -> np.ndarray:
        """Return the symmetric root, which follows the covariance without jumps."""
        what = f"the table `{self.covariance.base}` is the covariance of `{self.name}`"
        scale = float(np.abs(covariance).max(initial=0.0))
        if not np.allclose(covariance, covariance.T, rtol=0, atol=ROUNDING * scale):
            raise ParameterError(f"{what}; it must be symmetric")
        values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
        if values[0] < -ROUNDING * scale * len(values):
            least = f"has the eigenvalue {values[0]:.3g} below zero"
            raise ParameterError(f"{what}, and {least}; give one that is positive semidefinite")
        return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def joint_normal(item: Random) -> JointNormal | None:
    """Return the law of a family whose members are not independent, Normal(mean, K[k, l])."""
    law = item.law
    more = frozenset() if law is None else free_indices(law) - set(item.axes)
    if law is None or not more:
        return None
    mean, covariance = law.args if isinstance(law, Normal) else (sympy.S.Zero, sympy.S.Zero)
    tables = [entry for entry in covariance.atoms(Parameter) if entry.indices]
    factor = covariance / tables[0] if len(tables) == 1 else covariance
    plain = not free_indices(factor) and not free_indices(mean) - set(item.axes)
    if len(item.axes) != 1 or len(tables) != 1 or {*item.axes, *more} != set(tables[0].indices) or not plain:
        own = ", ".join(map(str, item.axes))
        raise ModelError(
            f"the law {law} of `{item.base}[{own}]` has the index "
            f"`{', '.join(sorted(map(str, more)))}`; a family that is jointly normal carries one "
            "index and has the law Normal(mean, K[k, l]), with a table `K`, or a factor times it"
        )
    return JointNormal(item.base, mean, factor, tables[0])


def _standardised(law: Law) -> tuple[sympy.Expr, sympy.Expr, Law] | None:
    """Return a location, a scale and a law without numbers of the members, where location + scale × draw has the law."""
    match law:
        case Normal(args=(mean, variance)):
            return mean, sympy.sqrt(variance), Normal(0, 1)
        case Uniform(args=(low, high)):
            return low, high - low, Uniform(0, 1)
        case Laplace(args=(scale,)):
            return sympy.S.Zero, scale, Laplace(1)
    return None


def _joint_draws(model: Model) -> dict[Basic, Basic]:
    """Return the members of jointly normal families as sums of independent draws, m + √f Σ_l R_kl ξ_l."""
    sums: dict[Basic, Basic] = {}
    for item in families_of(model):
        if isinstance(item, Random) and (law := joint_normal(item)) is not None:
            (axis,), (entry,) = item.axes, item.indices
            other = Index(f"{item.base}_draw", None, axis.extra, integer=True, nonnegative=True)
            draw = Random(f"{item.base}_draw", None, (Normal(0, 1),), ((axis,), (other,)))
            root = Parameter(law.root, None, (), ((axis, axis), (entry, other)))
            mean, factor = (at_indices(part, {axis: entry}) for part in (law.mean, law.factor))
            sums[item] = mean + sympy.sqrt(factor) * Sum(root * draw, other)
    return sums


@kept_by_model
def with_draws(model: Model) -> Model:
    """Return a model whose jointly normal families, and those with laws of their own, are made of draws that are alike."""
    swaps = _joint_draws(model)
    for item in families_of(model):
        own = isinstance(item, Random) and item not in swaps and item.law is not None and free_indices(item.law)
        if own and (standard := _standardised(item.law)) is not None:
            here = dict(zip(item.axes, item.indices, strict=True))
            draw = Random(f"{item.base}_draw", None, (standard[2],), (item.axes, item.indices))
            swaps[item] = at_indices(standard[0], here) + at_indices(standard[1], here) * draw
    starts = {}
    for key, value in model.init.items() if isinstance(model, System) else ():
        if isinstance(value, Law) and free_indices(value) and (standard := _standardised(value)) is not None:
            starts[key] = standard[0] + standard[1] * start_constant(getattr(key, "head", key), standard[2])
    if starts:
        model = model._with(init=Table((key, starts.get(key, value)) for key, value in model.init.items()))
    drawn = _changed(model, mapper(swaps)) if swaps else model
    used = {item.base for item in families_of(drawn)}  # a law given when solving may leave out what the declared one reads
    tables = Table(pair for pair in drawn.tables.items() if used & set(pair[1].names))
    if not swaps and len(tables) == len(drawn.tables):
        return drawn
    drawn = drawn._with(tables=tables)
    read = {item.name for item in drawn._with(defaults=Table()).names.values()}
    read |= {name for sources in tables.values() for name in sources.arguments}
    return drawn._with(defaults=Table(pair for pair in drawn.defaults.items() if pair[0].name in read))


# --- Sizes.
def _resized(expr: Any, sizes: Mapping[Index, Index]) -> Any:
    """Return an expression whose indices have other sizes; last values, as in Eq(k, 11), stay last."""
    swaps: dict[Basic, Basic] = dict(sizes)
    for item in members_in(expr):
        axes = tuple(sizes.get(axis, axis) for axis in item.axes)
        extra = tuple(_resized(entry, sizes) if isinstance(entry, Basic) else entry for entry in item.extra)
        swaps[item] = item.changed(extra, (axes, tuple(entry.xreplace(sizes) for entry in item.indices)))
    for item in expr.atoms(sympy.Rel):
        for index in item.free_symbols & {index for index in sizes if index.size.is_Integer}:
            few = sizes[index].count
            late = {it: it + few - index.count for it in item.args if it.is_Integer and it >= few}
            swaps[item] = item.xreplace({**swaps, **late})
    return expr.xreplace(swaps)


def all_indices(model: Model) -> tuple[Index, ...]:
    """Return every index of a model, in order of their names."""
    indices = {item for item in model.names.values() if isinstance(item, Index)}
    for item in families_of(model):
        indices |= {*item.axes, *(index for entry in item.indices for index in entry.atoms(Index))}
    return tuple(sorted(indices, key=str))


def sized(model: Model, settings: Mapping[str, Any]) -> Model:
    """Return a model whose indices run over the numbers that settings give; kept."""
    names = {item.size.name for item in all_indices(model) if not item.size.is_Integer}
    return _sized(model, tuple((name, settings[name]) for name in sorted(names) if name in settings)) if names else model


@functools.lru_cache(maxsize=64)
def _sized(model: Model, numbers: tuple[tuple[str, Any], ...]) -> Model:
    swaps: dict[Index, Index] = {}
    for item in all_indices(model):
        if not item.size.is_Integer:
            given = dict(numbers).get(item.size.name, model.given(item.size))
            if given is None:
                raise ParameterError(
                    f"the size of the index `{item}` is the parameter `{item.size}`, which has no value and no default"
                )
            count = read_value(given, what=f"parameter `{item.size}`")
            if not count.is_Integer or count < 1:
                raise ParameterError(f"the size `{item.size}` of the index `{item}` must be a whole number > 0, got {given}")
            swaps[item] = item.changed((count, item.size))
    return _changed(model, lambda expr: _resized(expr, swaps))


def _small(model: Model) -> Model:
    """Return a model with so few values of every index that one member has all its neighbours."""
    entries = {entry for item in families_of(model) for entry in item.indices}
    few = 1 + 2 * max((1, *(abs(int(shift)) for entry in entries for shift in entry.atoms(Integer))))
    sizes = {item: min(item.count, few) if item.size.is_Integer else few for item in all_indices(model)}
    swaps = {item: item.changed((Integer(size), *item.extra)) for item, size in sizes.items()}
    return _changed(model, lambda expr: _resized(expr, swaps))


def _changed(model: Model, change: Any) -> Model:
    return model._mapped(change, *(field for field in model.content if field not in ("name", "tables", "defaults", "step")))


# --- Writing out.
def is_pair(equation: Equation) -> bool:
    """Whether an equation gives the derivative of a correlation with two indices."""
    return equation.is_differential and isinstance(equation.head, Correlation) and len(equation.head.indices) == 2


@kept_by_model
def representative(model: Model) -> Expanded:
    """Return a model written out at small sizes, with numbers of tables that have a default."""
    small = _small(model)
    written = expand(small)
    new = (item for item in written.model.parameters if item not in small.parameters and written.model.given(item) is None)
    defaults = Table({**written.model.defaults, **dict.fromkeys(new, sympy.S.One)})
    return dataclasses.replace(written, model=written.model._with(defaults=defaults))


@kept_by_model
def expand(model: Model) -> Expanded:
    """Return a model with every member written out."""
    return _expanded(model)


@kept_by_model
def expand_with_pairs(model: Model) -> Expanded:
    """Return the same with correlations of two different members as outputs, beside processes."""
    return _expanded(model, pairs=bool(getattr(model, "processes", ())))


def _expanded(model: Model, pairs: bool = False) -> Expanded:
    model = _changed(model, mapper(draws)) if (draws := _joint_draws(model)) else model
    written = _MemberWriter(model, pairs=pairs).written(model)
    idle = {size for item in all_indices(model) for size in item.extra} - {*written._with(defaults=Table()).names.values()}
    defaults = Table(pair for pair in written.defaults.items() if pair[0] not in idle)
    return Expanded(written._with(defaults=defaults), frozenset(table_axes(model)))


class _NotAlikeError(Exception):
    """Some member has another equation than the rest."""


def _named_sums(model: System) -> System:
    """Return a system whose sums over functions of time in forces are functions of their own."""
    named: dict[Basic, Basic] = {}
    sums: list[Equation] = []
    taken = {item.base for item in model.names.values()}
    for eq in (eq for eq in model.equations if isinstance(eq.head, Process)):
        for node in outermost(eq.rhs, Sum, but=Int):
            times, axes = free_times(node), ordered_indices(node)
            if len(times) == 1 and node not in named and not is_random(node):
                taken.add(name := fresh_name(f"{eq.defined.head.base}_sum", taken))
                named[node] = Function(name, None, (axes, axes))(*times)
                sums.append(Equation(named[node], node, eq.location))
    changed = model._mapped(mapper(named), "equations")
    return changed._with(equations=(*changed.equations, *sums)) if sums else model


@kept_by_model
def generic(model: System) -> System | None:
    """Return a system without indices in which each unknown stands for its family; None where members are not alike.

    They are where they meet in sums of kernels and functions alone: then the equation of ``x_at_0_of_4``, the member of `x`
    at any value of its index, is that of each, with numbers of tables in their places.
    """
    model = _named_sums(model)
    writer = _MemberWriter(model, stand=True)
    # paths are drawn once for a member that stands for all: what is random must run over the same indices, and a force,
    # or an expectation, must not read the paths of several members
    random = {writer.stand(item.axes) for item in model.names.values() if isinstance(item, Process | Random)}
    inner = [node for eq in model.equations for node in ((eq.rhs,) if isinstance(eq.head, Process) else eq.rhs.atoms(E))]
    sums = any(node.has(Sum) for node in inner) or model.constraints or model.substitute
    if writer.crossed or writer.paired or len(random) > 1 or sums or not (model.kernels or model.noises):
        return None
    try:
        standing = writer.written(model._with(exact=Table()))
    except _NotAlikeError:
        return None
    tables = {item: sympy.S.One for item in standing.parameters if GENERIC.search(item.name)}  # (to be bound to anything)
    if any(isinstance(item, Index) for item in standing.names.values()) or choosing_parameters(standing) & tables.keys():
        return None
    latex = {name: model.observable_latex.get(old) or default_latex(old) for name, old in writer.called.items()}
    defaults = Table({**model.defaults, **tables})
    return standing._with(generic=True, tables=Table(), defaults=defaults, observable_latex=Table(latex))


class _MemberWriter:
    """Writes the parts of a model without indices.

    With ``stand``, one member stands for all: an index becomes another, and names are made of it as of a number. With
    ``pairs``, correlations of two different members are defined, too.
    """

    def __init__(self, model: Any, stand: bool = False, pairs: bool = False) -> None:
        self.model, self.generic, self.pairs = model, stand, pairs
        self.called: dict[str, str] = {}  # observables, by the names that they have here
        # correlations with two indices: the names of those with differential equations, and the definitions of others
        self.paired = {eq.defined.head.base for eq in model.equations if is_pair(eq)}
        self.crossed = {
            eq.head.base: eq
            for eq in model.equations
            if isinstance(eq.head, Correlation) and len(eq.head.indices) == 2 and eq.head.base not in self.paired
        }
        taken = {item.name for item in model.names.values() if not item.indices}
        for base, axes in {} if stand else {item.base: item.axes for item in families_of(model)}.items():
            count = int(np.prod(counts(axes)))
            if count > MOST_MEMBERS:
                text = f"`{base}` has {count} members; here these are written out one by one, at most {MOST_MEMBERS} of them"
                raise ModelError(f"{model.label}: {text}: take a smaller size of its indices")
            for name in taken.intersection(member_names(base, counts(axes))):
                raise ModelError(f"{model.label}: `{name}` is the name of a member of `{base}`; rename one of them")

    def stand(self, axes: Iterable[Index]) -> tuple[Index, ...]:
        """Return the indices of what stands for all members of a family: the first of each size, then the second, ..."""
        sizes = [axis.size for axis in axes]
        names = [(f"at_{sizes[:place].count(size)}_of_{size}", size) for place, size in enumerate(sizes)]
        return tuple(Index(name, None, (size,), integer=True, nonnegative=True) for name, size in names)

    def places(self, over: tuple[Index, ...]) -> Iterator[dict[Index, Any]]:
        return iter([dict(zip(over, self.stand(over), strict=True))]) if self.generic else places(over)

    # --- expressions
    def at(self, expr: Any, place: Mapping[Index, Any], label: str = "") -> Any:
        """Return an expression at values of its indices, its sums written out."""
        if not isinstance(expr, Basic):
            return expr
        summed = self._crossed(self._summed(at_indices(expr, place)))
        return summed.xreplace({item: self.scalar(item, label, expr) for item in members_in(summed)})

    def _crossed(self, expr: Any) -> Any:
        """Put in the definition of correlations of two different members: these are not symmetric in their times."""
        for value in expr.atoms(Value):
            definition = self.crossed.get(value.head.base)
            if definition is not None and value.head.indices[0] != value.head.indices[1]:
                here = dict(zip(definition.defined.head.indices, value.head.indices, strict=True))
                right = self._summed(at_indices(definition.at(*value.moments), here))
                expr = expr.xreplace({value: self._crossed(right)})
        return expr

    def _summed(self, expr: Any) -> Any:
        if isinstance(expr, Sum) and self.generic:
            return self._standing(expr)
        if isinstance(expr, Sum):
            body = self._summed(expr.body)
            return Add(*(at_indices(body, place) for place in places(expr.over)))
        return rebuilt(expr, self._summed) if expr.has(Sum) else expr

    def _standing(self, node: Sum) -> MemberSum:
        """Return a sum as a contraction of whole families, and what it reads as that of the members that stand for all."""
        times, contraction = [item for item in node.free_symbols if isinstance(item, Time)], Contraction(node)
        if len(times) > 2 or node.has(Int, Resp, Derivative, KroneckerDelta, *KINKS) or is_random(node):
            raise _NotAlikeError
        heads = [item.head for item in node.atoms(Value) if not isinstance(item.head, Correlation)]
        if getattr(self.model, "processes", ()) and any(head.arity == 2 for head in heads):  # responses
            raise _NotAlikeError
        standing = []
        for read in contraction.reads:
            own = {item.indices for item in members_in(read)}
            if isinstance(read, E) and [*map(len, own), *map(type, next(iter(own), ()))] != [1, Index]:
                raise _NotAlikeError
            standing.append(read.xreplace({item: item.member(self.stand(item.axes)) for item in members_in(read)}))
        return MemberSum(contraction, *standing)

    def scalar(self, item: Any, label: str, source: Any) -> Any:
        """Return the unknown, constant or parameter that a member of an expression is."""
        if self.generic and (item.indices != self.stand(item.axes) or ordered_indices(*getattr(item, "extra", ()))):
            raise _NotAlikeError
        for spot, (axis, entry) in enumerate(zip(item.axes, item.indices, strict=True)):
            if not self.generic and not (entry.is_Integer and 0 <= entry < axis.count):
                raise ModelError(f"{label or self.model.label}: {_outside(item, spot, source)}")
        name, latex = member_name(item.base, item.indices), item.latex_name
        if self.generic:
            latex = item.own_latex or default_latex(item.base)
        if isinstance(item, Head):
            cross = item.base in self.paired and item.indices[0] != item.indices[1]
            return self._cross(item) if cross else type(item)(name, latex)
        here = dict(zip(item.axes, item.indices, strict=True))
        extra = tuple(self.at(entry, here, label) for entry in item.extra)
        return type(item)(name, latex, extra, **item._assumptions_orig)

    # --- parts of a model
    def written(self, model: AnyModel) -> AnyModel:
        return model._with(**{field: getattr(self, f"_{field}", self.part)(getattr(model, field)) for field in model.content})

    def part(self, value: Any) -> Any:
        """Return a part that holds nothing with an index of its own, or a table whose entries may."""
        if isinstance(value, Table):
            return Table(pair for key, entry in value.items() for pair in self._entry(key, entry))
        if isinstance(value, tuple):
            return tuple(self.at(entry, {}) if isinstance(entry, Basic) else entry for entry in value)
        return self.at(value, {})

    def _entry(self, key: Any, value: Any) -> Iterator[tuple[Any, Any]]:
        for place in self.places(ordered_indices(key)):
            written = self._equation(value, place) if isinstance(value, Equation) else self.at(value, place)
            yield self.at(key, place), written

    def _equation(self, equation: Equation, place: Mapping[Index, Any]) -> Equation:
        left, right = (self.at(side, place, equation.label) for side in (equation.lhs, equation.rhs))
        return Equation(left, right, equation.location)

    def _pair(self, equation: Equation, place: Mapping[Index, Any]) -> Equation:
        """Return the definition of the correlation of two different members, which nothing else reads."""
        target = at_indices(equation.defined, place)
        left = self._cross(target.head)(*target.moments)
        return Equation(left, self.at(equation.rhs, place, equation.label), equation.location)

    @staticmethod
    def _cross(head: Head) -> CrossCorrelation:
        """Return the correlation of two different members."""
        turned = head.changed((), (head.axes, head.indices[::-1]))
        other = (member_name(head.base, turned.indices), turned.latex_name)
        return CrossCorrelation(member_name(head.base, head.indices), head.latex_name, other)

    def _equations(self, equations: tuple[Equation, ...]) -> tuple[Equation, ...]:
        written: dict[str, Equation] = {}
        for equation in equations:
            for place in self.places(ordered_indices(equation.lhs, equation.rhs)):
                crossed = equation.head is not None and equation.head.base in self.crossed and len(set(place.values())) > 1
                if crossed and not self.pairs:
                    continue
                one = self._pair(equation, place) if crossed else self._equation(equation, place)
                if (other := written.get(one.key)) is not None and self.model.kind == "System":
                    raise ModelError(f"two equations for `{one.key}`: {other.location} and {one.location}; keep one")
                written[one.key if self.model.kind == "System" else str(len(written))] = one
        for one in written.values():
            if isinstance(one.head, CrossCorrelation) and one.is_differential:
                other = written.get(one.head.turned.name)
                if other is None or not other.is_differential:
                    raise ModelError(
                        f"{one.label}: the same two members in the other order have no differential equation, and "
                        "C[l, k](t, tp) = C[k, l](tp, t); write one for all members, Eq(C[k, l](t, tp).diff(t), ...)"
                    )
        return tuple(written.values())

    def _observables(self, table: Table) -> Table:
        written: dict[str, Any] = {}
        for name, expr in table.items():
            for place in self.places(ordered_indices(expr)):
                self.called[own := member_name(name, place.values())] = name
                written[own] = self.at(expr, place, f"observable `{name}`")
        return Table(written)

    def _laws(self, table: Table) -> Table:
        laws: dict[Any, Any] = {}
        for key, law in table.items():
            own = ordered_indices(key)
            more = [item for item in ordered_indices(law) if item not in own]
            if more and (len(own) != 1 or len(more) != 1 or own[0].size != more[0].size or not isinstance(law, GP)):
                raise ModelError(
                    f"{self.model.label}: the law of `{key}` has the index `{more[0]}` that `{key}` has not; a law joint over "
                    "an index is u[k]: GP(C[k, l](t, tp)), with two indices of the same size; joint white noise is a sum of "
                    "independent ones, Sum(R[k, l]*xi[l](t), l) with xi[k]: White(1)"
                )
            if not more:
                laws.update(self._entry(key, law))
                continue
            if self.generic:
                raise _NotAlikeError
            members = [self.at(key, place) for place in places(own)]
            rows = [[self.at(law.covariance, {**a, **b}) for b in places(more)] for a in places(own)]
            laws[Tuple(*members)] = GP(rows, [self.at(law.mean, a) for a in places(own)])
        return Table(laws)

    def _paired(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        pairs = zip(values, self.model.fields, strict=True)
        return tuple(self.at(value, place) for value, field in pairs for place in places(ordered_indices(field)))

    _weights = _fields = _loss_gradient = _gradients = _paired

    def _defaults(self, part: Any) -> Any:
        return part

    _tables = _name = _defaults  # (functions of tables name parameters)


def _outside(item: Named | Head, spot: int, expr: Basic) -> str:
    """Return what is wrong with a member that lies outside its range, and the way out."""
    last = item.axes[spot].extra[-1] - 1  # of the index as it was declared
    low = item.indices[spot] < 0
    for member in members_in(expr):
        for index in member.indices[spot].atoms(Index) if member.base == item.base else ():
            shift = member.indices[spot] - index
            if (shift < 0) == low and shift != 0:
                place = f"{index} < {-shift}" if low else f"{index} > {last - shift}"
                place = f"Eq({index}, {0 if low else last})" if abs(shift) == 1 else place
                shown = f"{member}" + {1: "(t)", 2: "(t, tp)"}.get(getattr(item, "arity", 0), "")
                cases = f"Piecewise((value, {place}), ({shown}, True)), with sympy's Eq"
                return f"`{shown}` lies outside its range 0 … {last} at one end; say what stands there by cases, {cases}"
    return f"`{item}` lies outside its range 0 … {last}"


# --- Numbers of tables.
def table_arrays(model: Model, settings: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the tables of a model by name, checked against its indices, and the settings that are no tables."""
    axes = table_axes(model)
    given = {name: value for name, value in settings.items() if name in axes}
    rest = {name: value for name, value in settings.items() if name not in axes}
    for name in rest:
        whole = next((base for base, own in axes.items() if re.fullmatch(rf"{base}(_\d+){{{len(own)}}}", name)), None)
        if whole is not None:
            raise ParameterError(f"`{name}` is one number of the table `{whole}`, which is set as a whole: {whole}=array")
    refuse_unknown(model, rest, [*model.settable, *axes])
    shapes = {name: counts(own) for name, own in axes.items()}
    values: dict[str, Any] = {}
    for sources in model.tables.values():
        if not set(sources.names) <= given.keys():
            numbers = {name: _number(model, name, rest) for name in sources.arguments}
            for name in shapes.keys() & {*sources.names} if callable(sources.source) else ():
                if (size := 8 * np.prod(shapes[name], dtype=float)) > (free := memory()):
                    text = f"the table `{name}` has {' × '.join(map(str, shapes[name]))} numbers, {size / 2**30:.0f} GB"
                    raise ParameterError(f"{text}; that does not fit into the {free / 2**30:.0f} GB of memory that are free")
            values |= sources.arrays(numbers)
    values |= given
    tables: dict[str, np.ndarray] = {}
    for name, indices in axes.items():
        if name not in values:
            text = f"the table `{name}` of model `{model.name}` has no values"
            raise ParameterError(f"{text}; give them: tables={{{name}: array}}, or {name}=array")
        tables[name] = array = _array(name, values[name])
        if wrong := wrong_shape(name, indices, array):
            raise ParameterError(wrong)
        if not np.isfinite(array).all():
            where = ", ".join(map(str, np.argwhere(~np.isfinite(array))[0]))
            raise ParameterError(f"the table `{name}` is not finite at [{where}]")
    joint = (joint_normal(item) for item in families_of(model) if isinstance(item, Random))
    tables |= {law.root: law.array(tables[law.covariance.base]) for law in joint if law is not None}
    return tables, rest


def with_slopes(model: Model, arrays: Mapping[str, Any], settings: Mapping[str, Any], along: Iterable[str]) -> Any:
    """Return a model with tables linear in parameters, V = (V − a V') + a V', their arrays, and the names of these parameters.

    They are those along which every function that makes tables gives its derivative; not where tables stand in laws.
    """
    lawful = {entry.base for item in model.randoms if item.law is not None for entry in item.law.atoms(Parameter)}
    swaps: dict[Basic, Basic] = {}
    tables, known = dict(arrays), []
    for symbol in (item for item in model.parameters if item.name in along):
        name, value = symbol.name, _number(model, symbol.name, settings)
        makers = [item for item in model.tables.values() if name in item.arguments]
        if not makers or any(name not in item.slopes or lawful & {*item.names} for item in makers):
            continue
        known.append(name)
        for slope in (item.slopes[name] for item in makers):
            slopes = slope.arrays({it: _number(model, it, settings) for it in slope.arguments})
            for base in slopes.keys() & arrays.keys() - settings.keys():
                tables[f"{base}_by_{name}"] = change = np.asarray(slopes[base], dtype=float)
                tables[base] = tables[base] - value * change
                for item in (item for item in families_of(model) if item.base == base):
                    more = symbol * Parameter(f"{base}_by_{name}", None, (), (item.axes, item.indices))
                    swaps[item] = swaps.get(item, item) + more
    return (_changed(model, mapper(swaps)) if swaps else model), tables, known


def wrong_shape(name: str, axes: tuple[Index, ...], array: Any) -> str:
    """Return in words that a table has another shape than its indices say, or nothing."""
    if np.shape(array) == counts(axes):
        return ""
    return f"the table `{name}[{', '.join(map(str, axes))}]` takes the shape {counts(axes)}, got {np.shape(array)}"


def table_axes(model: Model) -> dict[str, tuple[Index, ...]]:
    return {item.base: item.axes for item in families_of(model) if isinstance(item, Parameter)}


def families_of(model: Model) -> list[Named | Head]:
    """Return the members of families in a model, in the laws of its random constants too."""
    return [item for item in model.names.values() if item.indices]


def _array(name: str, given: Any) -> np.ndarray:
    """Return the numbers of a table: an array, nested lists, or "@file.npy"."""
    try:
        if isinstance(given, str) and given.startswith("@"):
            given = np.load(given[1:], allow_pickle=False)
        elif isinstance(given, str):
            given = ast.literal_eval(given)  # numbers in brackets, no code
        return np.asarray(given, dtype=float)
    except (OSError, SyntaxError, TypeError, ValueError) as error:
        raise ParameterError(f"the table `{name}` takes an array, [1, 2] or @file.npy; got {given!r} ({error})") from None


def _number(model: Model, name: str, settings: Mapping[str, Any]) -> float:
    return float(parameter_value(model, next(item for item in model.parameters if item.name == name), settings.get(name)))


def with_laws(model: Model, settings: Mapping[str, Any]) -> tuple[Model, dict[str, Any]]:
    """Return a model whose random families have the laws of some settings, and the other settings."""
    families = {item.base for item in model.randoms if item.indices}
    given = {name: law for name, law in settings.items() if name in families}
    rest = {name: value for name, value in settings.items() if name not in given}
    return (model.subs(bind_some(model, given)) if given else model), rest


def written_out(model: Model, settings: Mapping[str, Any]) -> tuple[Model, dict[str, Any]]:
    """Return a model without indices, the numbers of its tables as defaults, and the settings that are left for it.

    What makes tables is no parameter of it any more, so that setting it later is refused.
    """
    if not model.is_indexed:
        return model, dict(settings)
    model, settings = with_laws(sized(model, settings), settings)
    arrays, rest = table_arrays(model, settings)
    expanded = expand(model)
    numbers = expanded.settings(arrays)
    used = {*expanded.model._with(defaults=Table(), tables=Table()).names.values()}
    known = {item: value for item, value in model.defaults.items() if item in used}
    known |= {item: sympy.sympify(numbers[item.name]) for item in expanded.model.parameters if item.name in numbers}
    plain = expanded.model._with(defaults=Table(known), tables=Table())
    return plain, {name: value for name, value in rest.items() if name in plain.settable or name not in model.settable}


def family_axes(model: Model) -> dict[str, tuple[Index, ...]]:
    """Return the axes of what a result holds: unknowns and observables with indices, by name."""
    unknowns = {item.base: item.axes for item in families_of(model) if not isinstance(item, Parameter)}
    over = {name: ordered_indices(expr) for name, expr in model.observables.items()}
    return {**unknowns, **{name: axes for name, axes in over.items() if axes}}


def families_in(names: Container[str], model: Model, settings: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return the axes of the families whose members are among some names, with their sizes."""
    if not model.is_indexed:
        return {}
    axes = family_axes(sized(model, settings))
    families = {name: {str(axis): axis.count for axis in own} for name, own in axes.items()}
    return {name: own for name, own in families.items() if all(item in names for item in member_names(name, (*own.values(),)))}


# --- How a model with indices is solved.
def _is_joint(node: E) -> bool:
    """Whether a mean is no function of what one member has: over several members of a random family, or of other means."""
    items = node.atoms(Random)
    if node.argument.has(E) or len({item.base for item in items}) < len(items) or any(map(is_random, node.atoms(Sum))):
        return True
    for item in items:
        law, plain = item.law, len({entry for entry in item.indices if entry.is_Symbol}) == len(item.indices)
        if law is not None and not isinstance(law, Normal):
            plain &= not law.atoms(Unknown) and (not free_indices(law) or _standardised(law) is not None)
        if not plain or joint_normal(item) is not None or (law is not None and law.has(E)):
            return True
    return False


def _why_not_on_arrays(model: FixedPoint) -> str:
    """Return why a fixed point is solved with its members written out; nothing where it is solved on arrays."""
    means = {node for leaf in leaves(model._key()) for node in leaf.atoms(E)}
    count = sum(np.prod(counts(axes)) for axes in {item.base: item.axes for item in model.unknowns}.values())
    given = all(isinstance(eq.lhs, Unknown) for eq in model.equations)
    if means and count <= (3 if given else 5) and not any(item.indices for item in model.randoms):
        return "it has few unknowns, which are scanned"
    if any(outermost(leaf, InverseValue, but=E) for eq in model.equations for leaf in (eq.lhs, eq.rhs)):
        return "it has an inverse function outside of expectations"
    if any(map(_is_joint, means)):
        return "an expectation is taken over several members of a family"
    fixed = any(map(_is_fixed, (item for leaf in leaves(model.equations) for item in leaf.atoms(Unknown))))
    return "members of a family stand at fixed numbers" if fixed else ""


def _why_not_ode(system: System) -> str:
    """Return why differential equations of families are not solved on arrays; nothing where they are."""
    if system.noises or system.kernels or has_shifts(system) or any(leaf.has(Int, Resp) for leaf in leaves(system._key())):
        return "it follows paths with noise or memory"
    if not any(equation.is_differential for equation in system.equations):
        return "it has no differential equation"
    begun = [getattr(key, "head", key) for key in system.init]
    for heads, what in ((system.unknowns, "have equations of their own"), (begun, "start from values of their own")):
        if len({head.base for head in heads}) < len(heads) or any(map(_is_fixed, heads)):
            return f"members of a family {what}"
    own = [item.law for item in system.randoms if item.law is not None and joint_normal(item) is None]
    for law in (*own, *(value for value in system.init.values() if isinstance(value, Law))):
        if free_indices(law) and _standardised(law) is None:
            return f"members of a random family have laws of their own, {law}"
    random = {item.base for item in (*system.randoms, *system.processes)}
    expressions = [*(eq.rhs for eq in system.equations), *system.observables.values(), *system.init.values()]
    read = {getattr(node, "head", node) for expr in expressions for node in expr.atoms(Value, Random)}
    return (
        "members of a random family stand at fixed numbers" if any(it.base in random and _is_fixed(it) for it in read) else ""
    )


def _is_fixed(member: Any) -> bool:
    """Whether a member stands at a number, or beside its index."""
    return any(not entry.is_Symbol for entry in member.indices)


@kept_by_model
def why_written_out(model: Model) -> str:
    """Return why a model is not solved on arrays but with its members written out; nothing where it is."""
    if isinstance(model, FixedPoint):
        return _why_not_on_arrays(model)
    if not isinstance(model, System):
        return f"a {model.kind} is solved with its members written out"
    if is_ode_family(model):
        return ""
    return (_why_not_ode if model.processes or model.randoms or model.step is not None else why_not_convolution)(model)


def is_ode_family(model: Model) -> bool:
    """Whether a model with indices is integrated by an adaptive method, on arrays.

    Many functions without random constants, or with sums over members, are left to ``convolution``, where stiff ones are
    solved by GMRES.
    """
    if not isinstance(model, System) or not model.is_indexed or _why_not_ode(model):
        return False
    members = sum(np.prod(counts(head.axes)) for head in model.unknowns)
    few = members <= _FEW and not any(leaf.has(Sum) for leaf in leaves(model._key()))
    return bool(model.processes or model.randoms or few)


def for_reading(model: Model) -> Model:
    """Return a model with indices as it is solved at its defaults; where members are written out, with few of them."""
    if not model.is_indexed:
        return model
    whole = sized(model, {})
    return representative(whole).model if why_written_out(whole) else whole
