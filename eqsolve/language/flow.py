"""`Flow`: the microscopic model whose high-dimensional limit a `System` describes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sympy import Expr

from eqsolve.errors import ModelError, UsageError
from eqsolve.language.laws import IN_STEPS, exact_start, read_noise_law
from eqsolve.language.model import Model, Table, leaves
from eqsolve.language.source import Location, user_location
from eqsolve.language.symbols import Field, Gradient, Parameter, Process, State, Time, Value, as_expression
from eqsolve.verbs import later

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from eqsolve.language.system import System
    from eqsolve.microscopic.simulate import Simulation


class Flow(Model):
    """The general flow θ' = p_t(g, θ), g = Xᵀ ℓ_t(f; ξ)/δ, f = X w_t(θ), applied row by row.

    Parameters
    ----------
    state
        Components of θ with their initial values or laws.
    weights, fields
        The weights w_t(θ) and the fields f = X w they give, one for one; a teacher is one of them.
    loss_gradient, gradients
        ℓ_t(f; ξ) and the gradients g = Xᵀℓ/δ it gives, one for one with the fields.
    drift
        p_t(g, θ), one expression per component of the state.
    laws
        Laws of noises, processes at the running time such as ``s(t)``: ``White(2*T)``, ``GP(...)``, ``Telegraph(b, tau)``,
        ``Resampled(law)``. One that a loss gradient reads is drawn for every sample, one that a drift reads for every
        coordinate.
    ratio
        The parameter n/d; ``delta`` unless given.
    variables
        Named functions of the state, such as the weight w.
    substitute
        Exact changes of variable, u: φ(y, t), each with a new state y of its own. They are proved, carried to the
        mean-field system, and used by runs of the flow at finite size; gradient descent and momentum leave them out.
    """

    state: Table
    weights: tuple[Expr, ...]
    fields: tuple[Field, ...]
    loss_gradient: tuple[Expr, ...]
    gradients: tuple[Gradient, ...]
    drift: Table
    laws: Table
    ratio: Parameter
    variables: Table
    substitute: Table
    tables: Table

    def __init__(
        self,
        name: str,
        *,
        state: Mapping[Any, Any],
        weights: Sequence[Any],
        fields: Sequence[Any],
        loss_gradient: Sequence[Any],
        gradients: Sequence[Any],
        drift: Mapping[Any, Any],
        laws: Mapping[Any, Any] | None = None,
        ratio: Any = None,
        defaults: Mapping[Any, Any] | None = None,
        observables: Mapping[str, Any] | None = None,
        variables: Mapping[str, Any] | None = None,
        conditions: Iterable[Any] = (),
        substitute: Mapping[Any, Any] | None = None,
        tables: Mapping[Any, Any] | None = None,
        cite: str | None = None,
    ) -> None:
        self._declare(name, (), locals())
        paired = ("weights", "fields", "loss_gradient", "gradients")
        if len({len(getattr(self, part)) for part in paired}) != 1:
            counts = ", ".join(f"{len(getattr(self, part))} {part}" for part in paired)
            raise ModelError(
                f"{self.location}: flow `{name}` needs one field, loss gradient and gradient per weight; got {counts}"
            )
        odd = sorted(item.name for item in set(self.state) ^ set(self.drift))
        if odd:
            raise ModelError(
                f"{self.location}: flow `{name}`: state and drift must name the same components; `{odd[0]}` is in one only"
            )

    @property
    def time_symbols(self) -> tuple[Time, ...]:
        """The times that expressions are at; covariances of noises have a second one."""
        parts = tuple(getattr(self, part) for part in self.content if part != "laws")
        found = {item for leaf in leaves(parts) for item in leaf.atoms(Time)}
        return tuple(sorted(found, key=str))

    @property
    def running_time(self) -> Time:
        """The time that expressions are at, t where none is written."""
        return next(iter(self.time_symbols), Time("t"))

    @property
    def stepped(self) -> tuple[Process, ...]:
        """Noises that are followed in discrete time only, in the order declared."""
        return tuple(key for key, law in self.laws.items() if isinstance(law, IN_STEPS))

    def reads(self, part: str) -> tuple[Process, ...]:
        """Return the noises that ``"loss_gradient"`` (per sample) or ``"drift"`` (per coordinate) reads."""
        value = getattr(self, part)
        expressions = value.values() if isinstance(value, Table) else value
        found = {item.head for expr in expressions for item in expr.atoms(Value)}
        return tuple(key for key in self.laws if key in found)

    # --- what follows from a flow
    def _derived(self, verb: str, *given: Any) -> Any:
        """Return what a verb makes of the flow, its families with their members written out."""
        return later(verb)(later("written_out")(self, {})[0] if self.is_indexed else self, *given)

    def dmft(self, *, eliminate: bool | None = None) -> System:
        """Return the mean-field equations of the flow for n, d → ∞ with n/d → δ (eq. dmft_general).

        Rows and columns of the kernels that vanish are left out. Where a single loss gradient is linear in the fields,
        the fields are eliminated; ``eliminate=False`` keeps them, ``True`` insists.
        """
        if not isinstance(eliminate, bool | None):
            raise UsageError(f"eliminate= takes True or False, got {eliminate!r}")
        return self._derived("dmft", eliminate)

    def infinite_data(self) -> System:
        """Return the limit δ → ∞ of the mean-field equations: differential equations without memory or noise."""
        return self._derived("infinite_data")

    def long_time(self, name: str | None = None, *, integrated: bool = False) -> Any:
        """Return the `FixedPoint` that the mean-field equations tend to if they come to rest."""
        return later("long_time")(self, name, integrated)

    def gradient_descent(self, eta: Any) -> System:
        """Return the mean-field equations of gradient descent with step ``eta``, exact at this step."""
        return self._derived("gradient_descent", eta)

    def momentum(self, friction: Any) -> Flow:
        """Return the flow with inertia θ'' = −friction θ' + p(g, θ), as a flow of twice as many states."""
        return self._derived("momentum", friction)

    def sgd(self, batch: Any) -> Flow:
        """Return stochastic gradient descent: at every step each sample is in the batch with probability ``batch``.

        The loss gradient of a sample in the batch is divided by ``batch``, that of the others is zero. A number or a symbol;
        to be run, and solved, with ``step=``.
        """
        return self._derived("sgd", batch)

    def langevin(self, temperature: Any) -> Flow:
        """Return Langevin dynamics: white noise White(2 T) of its own is added to every drift that a gradient acts in."""
        return self._derived("langevin", temperature)

    def label_noise(self, variance: Any) -> Flow:
        """Return training with fresh label noise: at every step a normal of this variance is added to each teacher's field.

        The loss gradients see f* + ζ in place of f*, the observables do not; to be run, and solved, with ``step=``.
        """
        return self._derived("label_noise", variance)

    def simulate(
        self,
        d: int | None = None,
        delta: Any = None,
        seed: int | None = None,
        *,
        t_max: float | None = None,
        at: float | Iterable[float] | None = None,
        seeds: int = 1,
        data: Any = "gaussian",
        constants: str = "sampled",
        step: float | None = None,
        rtol: float = 1e-6,
        keep: bool = False,
        device: str = "cpu",
        workers: int | None = None,
        executor: Executor | None = None,
        progress: Any = None,
        params: Mapping[str, Any] | None = None,
        **parameters: Any,
    ) -> Simulation:
        """Run the flow at finite size.

        Parameters
        ----------
        d
            Number of coordinates; that of the matrix when ``data`` is one. The number of samples is n = δ d.
        delta
            The ratio δ = n/d, whatever the flow calls it.
        seed, seeds
            Seed of everything random, and how many independent draws to run. Draw i is the same whatever ``seeds`` is.
            Without a seed every setting of the parameters has draws of its own, the same in every session; with one,
            all settings share its draws.
        t_max, at
            Last time, and the times to report; 25 times up to ``t_max`` unless given.
        data
            ``"gaussian"``, ``"binary"`` (±1/√d), ``"student_t"`` (5 degrees of freedom), a law of the entries
            (standardised), an n × d array, or a file that holds one.
        constants
            ``"sampled"``: random constants and starts are drawn; ``"exact"``: placed so that their empirical law is the
            declared one; ``"balanced"``: also the first fields and gradients (Gaussian features only), which leaves much less
            scatter between draws.
        step
            Gradient descent with this step instead of the flow; times go to the nearest step.
        rtol
            Tolerance of the adaptive integrator per step.
        keep
            Keep the coordinates at every reported time, for ``runs.coordinates(name, t)``.
        device
            ``"gpu"``: on the graphics card, for the same draws; ``"auto"``: where there is one and the work is worth it.
        workers, executor
            Draws run at once (one per core by default), or the ``concurrent.futures`` executor to run them on.
        progress
            As in ``solve``: a function of (done, total, text), False for silence, a bar by default.
        params, **parameters
            Values of parameters and laws of random constants, by name.

        Returns
        -------
        Simulation
            Observables over draws and times, as xarray, table or picture.
        """
        if delta is not None:
            parameters[self.ratio.name] = delta
        return later("simulate")(
            self, d=d, seed=seed, t_max=t_max, at=at, seeds=seeds, data=data, constants=constants, step=step, rtol=rtol,
            keep=keep, device=device, workers=workers, executor=executor, progress=progress, params=params, **parameters,
        )  # fmt: skip

    def _normalise(self, field: str, value: Any) -> Any:
        where = user_location()
        match field:
            case "state":
                return Table({_member(k, State, where, field): exact_start(v) for k, v in value.items()})
            case "drift":
                return Table({_member(k, State, where, field): as_expression(v, "drift=") for k, v in value.items()})
            case "weights" | "loss_gradient":
                return tuple(as_expression(entry, f"{field}=") for entry in value)
            case "fields":
                return tuple(_member(entry, Field, where, field) for entry in value)
            case "gradients":
                return tuple(_member(entry, Gradient, where, field) for entry in value)
            case "laws":
                return Table({key: read_noise_law(key, law, where) for key, law in (value or {}).items()})
            case "ratio":
                return Parameter("delta", positive=True) if value is None else value
            case "substitute":
                return Table(
                    (_member(key, State, where, field), None if entry is None else as_expression(entry, "substitute="))
                    for key, entry in (value or {}).items()
                )
        return super()._normalise(field, value)


def _member(item: Any, kind: type[Any], where: Location | None, field: str) -> Any:
    if not isinstance(item, kind):
        raise ModelError(f"{where}: {field}= takes symbols made by {kind.__name__.lower()}(), got `{item}`")
    return item
