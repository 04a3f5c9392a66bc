"""Solving a model on a grid of parameters: axes, points, journal, workers, the run."""
