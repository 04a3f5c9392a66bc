"""Which drawing a result gets: by its kind, or by what the names stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eqsolve.errors import UsageError, did_you_mean
from eqsolve.plotting.style import new_axes, plain

if TYPE_CHECKING:
    from eqsolve.results.result import Result

__all__ = ["plot_result"]

_CURVE, _KERNEL, _PATHS = ("t",), ("row", "column"), ("path", "t")
_WORDS = {_CURVE: "a function of time", _KERNEL: "a function of two times", _PATHS: "a random process", (): "a number"}


def plot_result(result: Result, names: tuple[str, ...], axes: Any = None, label: str | None = None) -> Any:
    """Draw what was asked for, or what the result is about; return the axes."""
    if len(names) == 1 and names[0] not in result.names and hasattr(result.source, "law"):
        return _law(result, names[0], axes)
    for name in names:
        if name not in result.names:
            has = ", ".join(result.names)
            raise UsageError(f"`{name}` is not in the result{did_you_mean(name, result.names)} (to draw there are: {has})")
    if result.kind == "sweep":
        from eqsolve.plotting.sweeps import plot_sweep

        return plot_sweep(result, names, axes)
    return _plot(result, names or _default(result), axes, label)


def _law(result: Result, name: str, axes: Any) -> Any:
    """Draw the law of a random variable of a fixed point: its density, its atoms as stems."""
    axes = result.law(name).plot(name, axes=new_axes(axes))
    plain(axes, result)
    return axes


def _default(result: Result) -> tuple[str, ...]:
    for dims in (_CURVE, _KERNEL, _PATHS):
        if found := tuple(name for name in result.names if result.dataset[name].dims == dims):
            return found if dims == _CURVE else found[:1]
    return tuple(name for name in result.names if not result.dataset[name].dims)


def _plot(result: Result, names: tuple[str, ...], axes: Any, label: str | None) -> Any:
    kinds = {result.dataset[name].dims for name in names}
    if not kinds:
        raise UsageError(f"the result of `{result.model}` has nothing to draw")
    dims, *others = kinds
    if others:
        told = ", ".join(f"`{name}` is {_WORDS.get(_dims(result, name), 'a table')}" for name in names)
        raise UsageError(f"one drawing shows one kind of thing: {told}")
    if dims == _CURVE:
        from eqsolve.plotting.curves import plot_curves

        return plot_curves(result, names, axes, label)
    if dims == ():
        from eqsolve.plotting.numbers import plot_numbers

        return plot_numbers(result, names, axes)
    if len(names) > 1:
        what = _WORDS.get(_dims(result, names[0]), "a table")
        raise UsageError(f"a drawing shows {what} at a time, got {', '.join(names)}")
    if dims == _KERNEL:
        from eqsolve.plotting.kernels import plot_kernel

        return plot_kernel(result, names[0], axes)
    from eqsolve.plotting.paths import is_process, plot_paths

    if is_process(result, names[0]):
        return plot_paths(result, names[0], axes)
    raise UsageError(f"`{names[0]}` lies over {', '.join(map(str, dims))}, for which there is no drawing")


def _dims(result: Result, name: str) -> tuple[str, ...]:
    return tuple(str(dim) for dim in result.dataset[name].dims)
