"""Numbers in words, as several outputs say them."""

from __future__ import annotations

__all__ = ["percent"]


def percent(fraction: float) -> str:
    """Return a fraction in percent, to two digits."""
    return f"{100 * fraction:.2g}%" if fraction < 0.995 else f"{100 * fraction:.0f}%"
