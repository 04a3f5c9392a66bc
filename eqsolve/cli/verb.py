"""What a command consists of."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Verb"]


@dataclass(frozen=True)
class Verb:
    """One command: its help, its arguments, and the function that runs it and returns the exit code."""

    summary: str
    description: str
    example: str  # after `eqsolve`; {model} stands for a model that exists
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]
