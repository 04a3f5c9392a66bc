"""Whether time still goes on: what every solver that steps through time asks, so that each of them ends.

At a pole or a jump that attracts from both sides a step-size control goes on for ever: it accepts steps that get nowhere.
Such a stall is a pace far below what it has been, at which the time that is left would take too much work.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Pace"]

_SLOWER = 1e-3  # than on average before


@dataclass
class Pace:
    """Watches one march from ``begin`` to ``end``.

    ``patience`` is the work (calls, panels) after which the pace is looked at, ``most`` the work beyond which what is left
    is too much.
    """

    begin: float
    end: float
    patience: int
    most: float
    work: int = 0
    time: float | None = None

    def stalled(self, moment: float, work: int) -> str:
        """Return how little the last work has brought if time has stalled, else nothing."""
        before = self.begin if self.time is None else self.time
        done = work - self.work
        if done < self.patience:
            return ""
        gained = moment - before
        if (self.end - moment) * done > gained * self.most and gained * self.work < _SLOWER * (before - self.begin) * done:
            return f"brought it on by {gained:.1g} only"
        self.work, self.time = work, moment
        return ""
