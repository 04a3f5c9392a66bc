"""From expressions to array functions."""
