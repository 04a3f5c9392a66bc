"""What a command consists of."""

import inspect
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Verb:
    """One command: its help, its arguments, and the function that returns its exit code."""

    summary: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]
    example: str  # after `eqsolve`; {model} stands for a model that exists, {parameter} for one of its parameters
    more: tuple[str, ...] = ()  # further examples, in the order in which one would try them; what follows a # explains
    description: str = ""  # the docstring of the function, unless given
    known: Callable[[Namespace], int | None] = lambda _: None  # the exit code where all is done already

    @property
    def about(self) -> str | None:
        return self.description or inspect.getdoc(self.run)
