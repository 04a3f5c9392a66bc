"""What a command consists of."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Verb:
    """One command: its help, its arguments, and the function that runs it and returns the exit code."""

    summary: str
    description: str
    example: str  # after `eqsolve`; {model} stands for a model that exists, {parameter} for one of its parameters
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]
    more: tuple[str, ...] = ()  # further examples, in the order in which one would try them; what follows a # explains
