"""Systems with white noise: many paths, advanced together step by step in time."""
