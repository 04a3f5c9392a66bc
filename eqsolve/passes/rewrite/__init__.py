"""Passes from system to system: substitutions, rescaled time, eliminated unknowns, constraints."""
