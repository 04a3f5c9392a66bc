"""Figures; matplotlib is imported only when something is drawn."""
