"""What the machine has."""

from __future__ import annotations

import os


def memory() -> float:
    """Return the machine's memory in bytes; infinity where the system does not tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return float("inf")
