"""Finite sizes: flows run as they are declared, data sources, linearised flows."""
