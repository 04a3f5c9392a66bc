"""Laws of random constants, by name."""

from eqsolve.language.laws import (
    Bernoulli,
    Discrete,
    Empirical,
    GaussBernoulli,
    Laplace,
    MarchenkoPastur,
    Mixture,
    Normal,
    Point,
    Product,
    Rademacher,
    StudentT,
    Uniform,
)

__all__ = [
    "Bernoulli",
    "Discrete",
    "Empirical",
    "GaussBernoulli",
    "Laplace",
    "MarchenkoPastur",
    "Mixture",
    "Normal",
    "Point",
    "Product",
    "Rademacher",
    "StudentT",
    "Uniform",
]
