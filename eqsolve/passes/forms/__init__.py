"""Forms that a solver runs, and what they are derived from."""
