"""Laws of several constants at once: samples, and independent components."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sympy import Basic, sympify

from eqsolve.errors import ParameterError
from eqsolve.language.law import Law
from eqsolve.language.source import here

if TYPE_CHECKING:
    from eqsolve.numerics.arrays import Array

__all__ = ["Component", "Empirical", "Product"]


class Empirical(Law):
    """The empirical law of a sample: a file (CSV, text or NPY) or a list; several columns give a joint law."""

    usage = "Empirical('file.csv') or Empirical([values])"
    twin = "Empirical"
    values: Array
    label: str

    def __new__(cls, source: Any) -> Any:
        import numpy as np

        label = str(source) if isinstance(source, str | Path) else ""
        if label:
            values = _read_sample(Path(label))
        else:
            try:
                values = np.array([[float(x) for x in np.atleast_1d(row)] for row in source], dtype=float)
            except (TypeError, ValueError) as error:
                raise ParameterError(f"{here()}law Empirical: {error}; usage: {cls.usage}") from None
        if values.size == 0 or not np.isfinite(values).all():
            raise ParameterError(f"{here()}law Empirical({label!r}): the sample is empty or holds NaN or infinite values")
        law = Basic.__new__(cls)
        law.values = values.reshape(len(values), -1)
        law.label = label
        law.dimension = law.values.shape[1]
        return law

    def __reduce__(self) -> Any:
        return (Empirical, (self.values.tolist(),))

    def _hashable_content(self) -> tuple[Any, ...]:
        return (hashlib.sha256(self.values.tobytes()).hexdigest(), self.values.shape)

    def _sympystr(self, printer: Any) -> str:
        return f"Empirical({self.label!r})" if self.label else f"Empirical(<{len(self.values)} values>)"

    def _latex(self, printer: Any) -> str:
        return rf"\mathrm{{Empirical}}_{{{len(self.values)}}}"

    def make(self) -> Any:
        if self.dimension > 1:
            raise ParameterError(
                f"{here()}law {self} is joint, with {self.dimension} columns; declare that many names with it"
            )
        return functools.partial(super().make(), self.values[:, 0])

    def component(self, index: int, names: tuple[str, ...]) -> Law:
        """Return the law of one component."""
        return Component(self, index, names)


class Product(Law):
    """Independent components: ``u0, v0 = random("u0 v0", Product(Normal(0, 1), Point(1)))``."""

    usage = "Product(law, law, ...)"

    def __new__(cls, *laws: Any) -> Any:
        if not laws or not all(isinstance(law, Law) for law in laws):
            raise ParameterError(f"{here()}law Product: got {laws!r}; usage: {cls.usage}")
        law = cls._new(*laws)
        law.dimension = len(laws)
        return law

    def _problem(self) -> str | None:
        return None

    def make(self) -> Any:
        raise ParameterError(f"{here()}law {self} is joint, of {self.dimension} constants; declare that many names with it")

    def component(self, index: int, names: tuple[str, ...]) -> Law:
        """Return the law of one component."""
        return self.args[index]


class Component(Law):
    """One component of a joint sample; variables that share the joint law are drawn together."""

    usage = "declared by random('a b', joint law)"
    twin = "Component"
    group: tuple[str, ...]

    def __new__(cls, joint: Any, index: Any, group: tuple[str, ...]) -> Any:
        law = Basic.__new__(cls, joint, sympify(index))
        law.group = group
        return law

    def __getnewargs__(self) -> Any:
        return (*self.args, self.group)

    def _hashable_content(self) -> tuple[Any, ...]:
        return (*self.args, self.group)

    @property
    def joint(self) -> Empirical:
        return self.args[0]

    @property
    def numbers(self) -> tuple[Any, ...]:
        return ()

    def make(self) -> Any:
        return functools.partial(super().make(), self.joint.values, int(self.args[1]), self.group)


def _read_sample(path: Path) -> Array:
    import numpy as np

    if not path.is_file():
        problem = f"there is no file {str(path)!r}"
        raise ParameterError(f"{here()}law Empirical: {problem}; usage: {Empirical.usage}")
    try:
        if path.suffix == ".npy":
            values = np.load(path, allow_pickle=False)
        else:
            text = path.read_text().replace(",", " ")
            rows = [[float(entry) for entry in line.split()] for line in text.splitlines() if line.strip()]
            values = np.array(rows, dtype=float)
        return np.asarray(values, dtype=float).reshape(len(values), -1)
    except (ValueError, OSError, UnicodeDecodeError, TypeError) as error:
        problem = f"{str(path)!r} does not hold a table of numbers: {error}"
        raise ParameterError(f"{here()}law Empirical: {problem}") from None
