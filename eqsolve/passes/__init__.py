"""Pure functions from a model to what can be said of it: checks, dependency graph, tangents, substitutions,
signature."""
