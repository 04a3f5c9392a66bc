"""Closed systems of compositions: whole kernels as matrices on few nodes."""
