"""Declare symbols by their names, as sympy does: one name gives one object, several names a tuple."""

from typing import Any

from eqsolve.errors import ModelError
from eqsolve.language import symbols
from eqsolve.language.indices import Family, Index
from eqsolve.language.laws import Law, Normal
from eqsolve.language.source import here


def _declare(
    cls: Any, names: str, latex: str | None, about: str | None = None, axes: tuple[Any, ...] = (), **kwargs: Any
) -> Any:
    for axis in axes:
        if not isinstance(axis, Index):
            raise ModelError(f"{here()}`{names}` carries indices made by index('k', 10); got {axis!r}")
    if not isinstance(names, str):
        raise ModelError(f"{here()}a {cls.kind_name} is declared by its name, a text such as 'x'; got {names!r}")
    parts = names.replace(",", " ").split()
    if not parts:
        raise ModelError(f"{here()}a {cls.kind_name} needs a name, got an empty string")
    if latex is not None and not isinstance(latex, str):
        raise ModelError(f"{here()}latex= takes a text such as r'\\lambda', got {latex!r}")
    if latex is not None and len(parts) > 1:
        raise ModelError(f"{here()}latex= goes with one name, got {len(parts)}: {names!r}")
    if len(set(axes)) < len(axes) and cls is not symbols.Parameter:
        raise ModelError(f"{here()}`{names}` carries an index twice; declare it with two, index('k l', {axes[0].size})")
    declared = tuple(cls(part, latex, member=(axes, axes), **kwargs) for part in parts)
    if about is not None and not isinstance(about, str):
        raise ModelError(f"{here()}about= takes a text such as 'samples per dimension', got {about!r}")
    if about:
        symbols.tell_meanings(dict.fromkeys(declared, about))
    result = tuple(map(Family, declared)) if axes else declared
    return result[0] if len(result) == 1 else result


def index(names: str, size: Any) -> Any:
    """Declare indices that run over 0 … size − 1: ``k, p = index("k p", 100)``.

    ``size`` is a whole number, or a parameter declared with ``integer=True``.
    """
    count = symbols.as_expression(size, f"the size of `{names}`")
    if not (count.is_Integer and count > 0) and not (isinstance(count, symbols.Parameter) and count.is_integer):
        raise ModelError(f"{here()}the size of the index `{names}` is a whole number above zero or a parameter, got {size!r}")
    return _declare(Index, names, None, extra=(count,), integer=True, nonnegative=True)


def table(names: str, *axes: Any, latex: str | None = None) -> Any:
    """Declare tables of numbers over indices: ``V = table("V", k, p)``; their values stand in ``tables=``."""
    if not axes:
        raise ModelError(f"{here()}a table carries an index, table({names!r}, k); a single number is param({names!r})")
    return _declare(symbols.Parameter, names, latex, None, axes)


def _ends(names: str, domain: Any) -> tuple[Any, Any]:
    if not (isinstance(domain, tuple | list) and len(domain) == 2):
        raise ModelError(f"{here()}domain= of `{names}` takes (lowest, highest), got {domain!r}")
    return domain[0], domain[1]


def times(names: str) -> Any:
    """Declare time variables: ``t, tp, s = times("t t' s")``."""
    return _declare(symbols.Time, names, None)


def param(
    names: str, *, latex: str | None = None, domain: Any = None, default: Any = None,
    about: str | None = None, **assumptions: bool,
) -> Any:  # fmt: skip
    """Declare parameters with their domain.

    Parameters
    ----------
    names
        One or several names separated by blanks.
    latex
        Printed form, for one name.
    domain
        Closed interval ``(lowest, highest)``; ``None`` on a side for no bound.
    default
        Value used when the user gives none.
    about
        What it means, in a few words: ``"samples per dimension, n/d"``. Shown wherever values are asked for.
    **assumptions
        sympy assumptions such as ``positive=True``, ``nonnegative=True``, ``integer=True``.
    """
    bounds = (*_ends(names, (None, None) if domain is None else domain), default)
    extra = tuple(None if value is None else symbols.as_expression(value, f"the domain of `{names}`") for value in bounds)
    given = extra if any(value is not None for value in extra) else ()
    return _declare(symbols.Parameter, names, latex, about, (), extra=given, **assumptions)


def random(names: str, law: Any = None, *axes: Any, latex: str | None = None, about: str | None = None) -> Any:
    """Declare random constants: ``w_star = random("w_star", Bernoulli(0.1))``; ``about`` says in words what they are.

    Several names with a joint law (``Product``, or an ``Empirical`` sample with several columns) are drawn together;
    several names with a scalar law are independent copies.
    """
    if law is not None and not isinstance(law, Law):
        hint = "give its parameters" if isinstance(law, type) else f"a fixed number is Point({law!r})"
        raise ModelError(
            f"{here()}the law of `{names}` must be a law such as Bernoulli(0.1) or Normal(0, 1), "
            f"got {type(law).__name__} {getattr(law, '__name__', repr(law))}; {hint}"
        )
    if law is not None and law.dimension > 1:
        parts = str(names).replace(",", " ").split()
        if len(parts) != law.dimension:
            raise ModelError(f"{here()}the joint law {law} has {law.dimension} components, got {len(parts)} names: {names!r}")
        return tuple(symbols.Random(part, None, (law.component(index, tuple(parts)),)) for index, part in enumerate(parts))
    return _declare(symbols.Random, names, latex, about, axes, extra=() if law is None else (law,))


def normal(names: str, *axes: Any, variance: Any = 1, mean: Any = 0, latex: str | None = None, about: Any = None) -> Any:
    """Declare Gaussian variables whose variance may contain unknowns: ``z = normal("z", variance=delta*C_f)``."""
    return random(names, Normal(mean, variance), *axes, latex=latex, about=about)


def _declarer(cls: Any, doc: str) -> Any:
    """Return the function that declares symbols of a kind by their names."""

    def declare(names: str, *axes: Any, latex: str | None = None) -> Any:
        return _declare(cls, names, latex, None, axes)

    declare.__doc__ = doc
    declare.__name__ = declare.__qualname__ = cls.__name__.lower()
    return declare


process = _declarer(symbols.Process, """Declare stochastic processes: ``w, g, z = process("w g z")``.""")
function = _declarer(symbols.Function, """Declare deterministic functions of one time: ``mu = function("mu")``.""")
correlation = _declarer(symbols.Correlation, """Declare symmetric functions of two times.""")
response = _declarer(symbols.Response, """Declare causal functions of two times, zero for t < t'.""")
state = _declarer(symbols.State, """Declare components of a flow's microscopic state.""")
field = _declarer(symbols.Field, """Declare a flow's fields f = X w(θ).""")
gradient = _declarer(symbols.Gradient, """Declare a flow's gradients g = Xᵀℓ/δ.""")


def unknown(names: str, *axes: Any, latex: str | None = None, domain: Any = None, **assumptions: bool) -> Any:
    """Declare the scalar unknowns of a fixed point or of a transform equation.

    ``domain`` is a closed interval ``(lowest, highest)`` of two numbers in which a solution is looked for, ends included.
    """
    if domain is None:
        return _declare(symbols.Unknown, names, latex, None, axes, **assumptions)
    ends = tuple(symbols.as_expression(end, f"the domain of `{names}`") for end in _ends(names, domain))
    if not all(end.is_Number and end.is_finite for end in ends) or not ends[0] < ends[1]:
        raise ModelError(f"{here()}domain= of `{names}` takes two increasing numbers, got {domain!r}")
    if ends[0] >= 0:
        assumptions.setdefault("positive" if ends[0] > 0 else "nonnegative", True)
    return _declare(symbols.Unknown, names, latex, None, axes, extra=ends, **assumptions)


def symbol(names: str, *, latex: str | None = None, **assumptions: bool) -> Any:
    """Declare bound variables, such as the ``y`` of ``Inverse(f(y), y)``."""
    return _declare(symbols.Plain, names, latex, None, (), **assumptions)
