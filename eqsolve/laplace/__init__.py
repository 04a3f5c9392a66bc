"""Laplace transforms of declared systems, and the singularities that set their long-time decay; usable on their own."""

from eqsolve.laplace.half_plane import Candidate
from eqsolve.laplace.singularity import SingularPoint, rightmost_singularity
from eqsolve.laplace.transform import Transform, TransformedSystem, transform_system

__all__ = [
    "Candidate",
    "SingularPoint",
    "Transform",
    "TransformedSystem",
    "rightmost_singularity",
    "transform_system",
]
