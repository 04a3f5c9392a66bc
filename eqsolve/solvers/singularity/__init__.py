"""Convergence rates: the rightmost singularity of a transform."""
