"""Where a piece of a model was written, and in which order its terms stand there."""

import ast
import functools
import linecache
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from traceback import walk_stack
from types import FrameType
from typing import Any

import sympy

_ENGINE = str(Path(__file__).resolve().parent.parent)
_SYMPY = str(Path(sympy.__file__).resolve().parent)
_INSIDE = (_ENGINE, _SYMPY)
_OUTSIDE = tuple(str(Path(_ENGINE) / folder) for folder in ("_models", "_analyses"))


@dataclass(frozen=True)
class Location:
    """A place in a user's file; prints as ``my_model.py:32``."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"

    def entry(self, part: str, name: str) -> "Location":
        """Return where ``x`` stands in ``init={x: 0}`` of the call here; else this place."""
        calls = [call for call in _calls("".join(linecache.getlines(self.file))) if call.lineno == self.line]
        for word in (word for call in calls for word in call.keywords if word.arg == part):
            keys = filter(None, getattr(word.value, "keys", ()))
            lines = [key.lineno for key in keys if ast.unparse(key) in (name, repr(name))]
            return Location(self.file, (lines or [word.value.lineno])[0])
        return self


@functools.lru_cache(maxsize=8)
def _calls(text: str) -> list[ast.Call]:
    try:
        return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    except (SyntaxError, ValueError):
        return []


def user_frame() -> FrameType | None:
    """Return the innermost frame that belongs to the user, neither to eqsolve nor to sympy."""
    for frame, _ in walk_stack(sys._getframe(1)):
        name = frame.f_code.co_filename
        if not name.startswith(_INSIDE) or name.startswith(_OUTSIDE):
            return frame
    return None


def user_location() -> Location | None:
    """Return the file and line of the user's code that is running now."""
    frame = user_frame()
    return None if frame is None else Location(frame.f_code.co_filename, frame.f_lineno)


def here() -> str:
    """Return the place in the user's file, to open an error message with."""
    location = user_location()
    return f"{location}: " if location else ""


@functools.lru_cache(maxsize=256)
def node_at(frame: FrameType, instruction: int) -> ast.expr | None:
    """Return the expression that an instruction of a frame belongs to, from the source on disk or in a notebook."""
    try:
        line, end_line, column, end_column = list(frame.f_code.co_positions())[instruction // 2]
        lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)[(line or 1) - 1 : end_line]
        raw = [text.encode() for text in lines]
        raw[-1] = raw[-1][:end_column]
        raw[0] = raw[0][column:]
        return ast.parse(textwrap.dedent(f"({b''.join(raw).decode()})"), mode="eval").body
    except (SyntaxError, IndexError, ValueError):
        return None


Order = dict[sympy.Expr, tuple[sympy.Expr, ...]]


class _Reader:
    """Re-reads an expression's source to learn the order of its terms and factors.

    sympy sorts sums and products. The source still knows how the author wrote them, so the operands
    are read again in the caller's namespace and each sum or product is remembered with its parts in order.
    """

    def __init__(self, frame: FrameType) -> None:
        self.namespace = {**frame.f_globals, **frame.f_locals}
        self.order: Order = {}

    def plain(self, node: ast.expr) -> Any:
        code = compile(ast.Expression(body=node), "<model>", "eval")
        return eval(code, self.namespace)  # the user's own code, which has just run once in this very frame

    def read(self, node: ast.expr) -> Any:
        match node:
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                return self._note(node, (ast.Add, ast.Sub), lambda sign, value: sign * value, sympy.Add)
            case ast.BinOp(op=ast.Mult() | ast.Div()):
                return self._note(node, (ast.Mult, ast.Div), lambda sign, value: value**sign, sympy.Mul)
            case ast.BinOp(left=base, op=ast.Pow(), right=power):
                return self.read(base) ** self.read(power)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                value = self.read(operand)
                if isinstance(value, sympy.Add):
                    self.order[-value] = tuple(-part for part in self.order.get(value, value.args))
                return -value
            case ast.Call(func=function, args=arguments, keywords=[]):
                return self.plain(function)(*map(self.read, arguments))
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return tuple(map(self.read, items))
        return self.plain(node)

    def _note(self, node: ast.expr, operators: tuple[type, type], signed: Callable[[int, Any], Any], join: Any) -> Any:
        parts: list[Any] = []

        def flatten(item: ast.expr, sign: int) -> None:
            match item:
                case ast.BinOp(left=left, op=op, right=right) if isinstance(op, operators):
                    flatten(left, sign)
                    flatten(right, -sign if isinstance(op, operators[1]) else sign)
                case ast.UnaryOp(ast.USub(), inner) if join is sympy.Mul and not isinstance(self.plain(inner), sympy.Add):
                    parts.append(sympy.S.NegativeOne)
                    flatten(inner, sign)
                case _:
                    parts.append(signed(sign, sympy.sympify(self.read(item))))

        flatten(node, 1)
        value = join(*parts)
        if isinstance(value, join):
            self.order[value] = tuple(parts)
        return value


def written_order(position: int, expected: sympy.Expr) -> Order:
    """Return how sums and products in an argument of the user's current call are ordered in the source.

    ``expected`` is the value that it had; if re-reading gives anything else nothing is returned.
    """
    frame = user_frame()
    call = None if frame is None else node_at(frame, frame.f_lasti)
    if frame is None or not isinstance(call, ast.Call) or position >= len(call.args):
        return {}
    reader = _Reader(frame)
    try:
        value = reader.read(call.args[position])
    except Exception:  # display only: an unreadable source falls back to sympy's order
        return {}
    return reader.order if value == expected else {}
