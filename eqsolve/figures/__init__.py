"""Figures made by the scripts in `analyses/`."""
