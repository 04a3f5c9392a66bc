"""Scalar self-consistent equations with expectations."""
