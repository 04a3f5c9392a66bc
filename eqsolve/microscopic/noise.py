"""The noises of a flow at finite size: one value for every sample or coordinate, drawn as time goes on.

In discrete time with steps of length h, white noise of strength S is held during a step with the variance S/h, so that it
moves a coordinate by a normal of variance S h; what is resampled is drawn at every step; telegraph signals and Gaussian
processes have their exact laws at the times of the steps. A run can be begun again, with the same noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eqsolve.compile.lowering import lower
from eqsolve.errors import UsageError
from eqsolve.language.binding import Binding
from eqsolve.language.flow import Flow
from eqsolve.language.nodes import GP, White
from eqsolve.language.noises import Resampled, Telegraph
from eqsolve.language.symbols import Process, Time
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.growing import Factor

__all__ = ["Noises", "refuse_continuous"]

_LONGEST = 3000  # times at which a Gaussian process is drawn, at most: the factor of its covariance is held


def refuse_continuous(flow: Flow) -> None:
    """Raise for a noise that has no meaning in continuous time."""
    for noise, law in flow.laws.items():
        if isinstance(law, Resampled):
            raise UsageError(
                f"flow `{flow.name}`: the noise `{noise.name}` ~ {law} is drawn afresh at every step; say how long a step is: "
                "step=0.1, on the command line --step 0.1"
            )


@dataclass(eq=False)
class _Past:
    """A Gaussian process so far: its times, its coordinates, and the factor of its covariance."""

    times: list[float] = field(default_factory=list)
    coordinates: list[Array] = field(default_factory=list)
    factor: Factor = field(default_factory=lambda: Factor(np.zeros((64, 64))))


class Noises:
    """Draws the noises of one run; ``sizes`` says how many values each has."""

    def __init__(self, binding: Binding, sizes: Mapping[Process, int], seed: Any) -> None:
        flow = binding.model
        assert isinstance(flow, Flow)
        self.sizes, self.seed, self.name = sizes, seed, flow.name
        self.laws: dict[Process, Any] = {item: flow.laws[item] for item in sizes}
        self.made: dict[Process, Any] = {}
        for item, law in self.laws.items():
            match law:
                case Resampled():
                    self.made[item] = binding.apply(law.law).numeric()
                case Telegraph():
                    self.made[item] = tuple(float(binding.apply(part)) for part in law.args)
                case White():
                    clocks = [entry for entry in law.strength.free_symbols if isinstance(entry, Time)]
                    self.made[item] = lower([binding.apply(law.strength)], clocks or [Time("t")])
                case GP():
                    times = sorted(law.covariance.atoms(Time), key=str) or [Time("t"), Time("t'")]
                    centre = sorted(law.mean.atoms(Time), key=str) or [Time("t")]
                    self.made[item] = (
                        lower([binding.apply(law.covariance)], times),
                        lower([binding.apply(law.mean)], centre),
                    )
        self.begin()

    def begin(self) -> dict[Process, Array]:
        """Begin the run again; return what the noises are on average."""
        self.rng = np.random.default_rng(self.seed)
        self.now: dict[Process, Array] = {}
        self.time: dict[Process, float] = {}
        self.past = {item: _Past() for item, law in self.laws.items() if isinstance(law, GP)}
        return {item: np.full(size, self._mean(item)) for item, size in self.sizes.items()}

    def _mean(self, item: Process) -> float:
        law, made = self.laws[item], self.made[item]
        if isinstance(law, Resampled):
            values, weights = made.rule(64)
            return float(weights @ values)
        if isinstance(law, Telegraph):
            return float(made[0])
        return float(made[1](0.0)[0]) if isinstance(law, GP) else 0.0

    def draw(self, time: float, length: float, *, fresh: bool = True) -> dict[Process, Array]:
        """Return the noises at a time, for a step of some length; those without memory stay as they are unless ``fresh``."""
        for item, size in self.sizes.items():
            law, made = self.laws[item], self.made[item]
            match law:
                case Resampled() if fresh:
                    self.now[item] = np.asarray(made.sample(self.rng, size), dtype=float)
                case White() if fresh:
                    strength = float(made(time)[0])
                    self.now[item] = math.sqrt(max(strength, 0.0) / length) * self.rng.standard_normal(size)
                case Telegraph():
                    self._switch(item, size, time, *made)
                case GP():
                    self._continue(item, size, time)
        return self.now

    def _switch(self, item: Process, size: int, time: float, share: float, memory: float) -> None:
        if item not in self.now:
            self.now[item] = (self.rng.random(size) < share).astype(float)
        elif time > self.time[item]:
            again = self.rng.random(size) >= math.exp(-(time - self.time[item]) / memory)
            self.now[item] = np.where(again, self.rng.random(size) < share, self.now[item])
        self.time[item] = time

    def _continue(self, item: Process, size: int, time: float) -> None:
        """Draw a Gaussian process at one more time, given all before."""
        past, (covariance, mean) = self.past[item], self.made[item]
        if past.times and time <= past.times[-1]:
            return
        if len(past.times) >= _LONGEST:
            raise UsageError(
                f"flow `{self.name}`: the Gaussian process `{item.name}` is drawn at {_LONGEST} times at most, and this run "
                "needs more; take a longer step, or a shorter time"
            )
        past.times.append(time)
        known = past.factor.known
        if known == len(past.factor.rows):
            wider = np.zeros((2 * known, 2 * known))
            wider[:known, :known] = past.factor.rows
            past.factor.rows = wider
        times = np.array(past.times)
        row = past.factor.row(np.broadcast_to(np.asarray(covariance(time, times)[0], float), times.shape))
        past.factor.keep(row)
        past.coordinates.append(self.rng.standard_normal(size))
        self.now[item] = float(mean(time)[0]) + row @ np.array(past.coordinates)
