"""Solving a model on a grid of parameters: axes, points, the journal, workers, and the run that joins them."""
