"""Derivatives by what is no symbol: the value of a function, an integral, an expectation."""

from sympy import Basic, DiracDelta, Dummy, Expr, S

_X = Dummy("x", real=True)  # always the same, so that sympy knows what it worked out before


def partial(expr: Expr, value: Basic) -> Expr:
    """Return ∂expr/∂value, the value being treated as an independent variable."""
    return expr.xreplace({value: _X}).diff(_X).xreplace({_X: value})


def slope(expr: Expr, value: Basic) -> Expr:
    """Return ∂expr/∂value by regions: of a kink that on each side, of a jump that beside it."""
    return partial(expr, value).replace(DiracDelta, lambda *_: S.Zero)
