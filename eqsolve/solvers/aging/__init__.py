"""Closed two-time systems over many decades."""
