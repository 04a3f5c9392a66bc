"""How many points an expectation gets: for an accuracy to begin with, and in each way there may be more."""

import math
from dataclasses import replace

from eqsolve.numerics.gaussian import Level


def make_level(accuracy: float, seed: int) -> Level:
    """Return the points that go with an accuracy of expectations."""
    digits = -math.log10(accuracy)
    return Level(accuracy, 1.4, round(4 + 3 * digits), round(40 / accuracy), seed)


def refine(level: Level, way: str, over: float | None = None) -> Level:
    """Return a level with more points in one way: as a probe, or as an effect ``over`` the tolerance asks for."""
    match way:
        case "sharp":
            return replace(level, sharp=level.sharp / (math.sqrt(2) if over is None else 2**0.25))
        case "modes":
            wide = 20.0 if level.accuracy > 1e-3 else 10.0
            factor = wide if over is None else min(max(over / 1.5, 2.0), 16.0)
            return replace(level, accuracy=level.accuracy / factor, most=round(factor * level.most))
        case "constants":
            return replace(level, constants=math.ceil(1.5 * level.constants))
    return replace(level, most=4 * level.most)
