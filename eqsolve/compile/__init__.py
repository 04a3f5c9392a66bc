"""Plans: lowered functions with parameters as arguments, operators as data. Symbols end here.

The package itself is what users call: ``eqsolve.compile(model)`` gives the plan of a model.
"""

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """Makes the package callable: ``eqsolve.compile(model)``."""

    def __call__(self, model: Any) -> Any:
        from eqsolve.compile.plan import compile

        return compile(model)


sys.modules[__name__].__class__ = _Callable
