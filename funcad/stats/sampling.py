"""`sample`: draws from a log-density that is written in NumPy, by NUTS or HMC; chains are the lanes of one jitted transition.

Idea: the transition (trajectories.py) is pure and takes its random numbers as arrays, so that it may become one native
function; the loop over draws, the adaptation (adaptation.py) and the random numbers are NumPy on arrays of chains. Invariant:
the same key gives the same draws, on one machine and one version. Trap: parameters must range over all numbers; what is
positive is a logarithm, with the logarithm of the derivative added to the density.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad import random, tree
from funcad.api.border import api
from funcad.api.grad import value_and_grad
from funcad.api.vmap import vmap
from funcad.host.progress import meter
from funcad.host.real_types import is_a
from funcad.host.where import outside
from funcad.jitted.jit import jit
from funcad.scipy.tree_vectors import Vector
from funcad.show.pictures import axes_of
from funcad.show.tables import html_table, text_table
from funcad.stats.adaptation import StepSizes, inverse_mass_of, roots_of, windows
from funcad.stats.trajectories import Place, hmc, leapfrog, log_weight, nuts

__all__ = ["Samples", "sample"]

TRIES = 100  # starts of chains, before the density is found to be zero nearly everywhere
STEPS = 60  # doublings or halvings of the first step size
STATISTICS = ("acceptance_rate", "diverging", "n_steps", "energy", "lp")  # ArviZ's names


class Samples:
    """Draws of a log-density; see `sample`."""

    def __init__(self, vector: Vector, positions: np.ndarray, statistics: dict[str, np.ndarray], step_size: Any, mass: Any):
        self._vector = vector
        self.positions = positions
        self.draws = vmap(vmap(vector.tree))(positions)
        self.statistics = statistics
        self.step_size = step_size
        self.inverse_mass = mass

    def named(self) -> dict[str, np.ndarray]:
        """The draws by the names of their places in the pytree, arrays (chains, draws, ...)."""
        pairs = tree.leaves_with_path(self.draws)
        return {tree.keystr(path, simple=True, separator=".") or "x": leaf for path, leaf in pairs}

    def to_arviz(self) -> Any:
        """ArviZ's InferenceData (a DataTree from its version 1 on), with `sample_stats`. ImportError without ArviZ."""
        arviz = _arviz()
        if arviz is None:
            raise ImportError("Samples.to_arviz needs ArviZ, which is not installed.\nRemedy: pip install arviz.")
        groups = {"posterior": self.named(), "sample_stats": self.statistics}
        return arviz.from_dict(groups) if int(arviz.__version__.split(".")[0]) else arviz.from_dict(**groups)

    def summary(self) -> dict[str, dict[str, Any]]:
        """By name: `mean`, `sd`, the quantiles `q5`, `q50`, `q95` over all chains; `r_hat`, `ess` where ArviZ is installed."""
        found: dict[str, dict[str, Any]] = {}
        for name, x in self.named().items():
            low, middle, high = np.quantile(x, [0.05, 0.5, 0.95], axis=(0, 1))
            found[name] = {"mean": x.mean((0, 1)), "sd": x.std((0, 1), ddof=1), "q5": low, "q50": middle, "q95": high}
        arviz = _arviz()
        if arviz is not None:
            data = self.to_arviz()
            for key, values in (("r_hat", arviz.rhat(data)), ("ess", arviz.ess(data))):
                for name in found:
                    values = getattr(values, "dataset", values)
                    found[name][key] = np.asarray(values[name])
        return found

    def _table(self) -> tuple[list[str], list[list[str]]]:
        rows = []
        head: list[str] = []
        for name, facts in self.summary().items():
            head = [*facts, "parameter"]
            for i in np.ndindex(np.shape(facts["mean"])):
                rows.append([f"{facts[k][i]:.4g}" for k in facts] + [f"{name}[{', '.join(map(str, i))}]" if i else name])
        return head, rows

    def __repr__(self) -> str:
        head, rows = self._table()
        return f"{self._what()}\n{text_table(head, rows, right=len(head) - 1)}"

    def _repr_html_(self) -> str:
        head, rows = self._table()
        return f"<p>{self._what()}</p>{html_table(head, rows, right=len(head) - 1)}"

    def _what(self) -> str:
        chains, draws = self.positions.shape[:2]
        lost = int(self.statistics["diverging"].sum())
        return f"{chains} chains of {draws} draws{f', {lost} of them divergent' if lost else ''}"

    def plot(self, ax: Any = None) -> Any:
        """The traces of all parameters, by chain, on matplotlib's axes `ax` or new ones, which are returned."""
        ax = axes_of(ax, "Samples.plot")
        head = self._table()[1]
        for i in range(self.positions.shape[2]):
            for chain in self.positions[:, :, i]:
                ax.plot(chain, linewidth=0.5, color=f"C{i % 10}", label=None)
            ax.plot([], color=f"C{i % 10}", label=head[i][-1])
        ax.set(xlabel="draw")
        ax.legend()
        return ax


def _arviz() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # ArviZ's advertisement of its next version
            return importlib.import_module("arviz")
    except ImportError:
        return None


@api
def sample(
    log_density: Callable[..., Any],
    start: Any,
    key: Any,
    args: tuple = (),
    *,
    draws: int = 1000,
    warmup: int = 1000,
    chains: int = 4,
    method: str = "nuts",
    dense: bool = False,
    acceptance: float = 0.8,
    deepest: int = 10,
    length: int = 32,
    spread: float = 1.0,
) -> Samples:
    """Draws of the distribution with the log-density `log_density(parameters, *args)`, up to a constant, by NUTS or HMC.

    log_density: of a pytree of real parameters that range over all numbers; it is traced, and arrays it returns are summed.
    start: such a pytree; each chain starts near it, at most `spread` away in each number.
    key: of funcad.random.
    draws, warmup: how many a chain keeps, and how many before these it only learns from.
    chains: how many, together, as the lanes of one transition.
    method: "nuts", whose trajectories of at most 2**deepest steps end where they turn back; "hmc", of `length` steps.
    dense: learn a mass with correlations, not a diagonal.
    acceptance: the mean probability of acceptance that step sizes are led to.

    Returns Samples: `draws`, a pytree like start of arrays (chains, draws, ...), `statistics`, `summary()`, `to_arviz()`,
    `plot()`. Divergent trajectories warn: near there the draws are not the distribution's. Raises ValueError where the density
    is zero at all starts that were tried, or an option is none. JAX has no sampler of its own.

    >>> import numpy as np, funcad
    >>> from funcad import stats
    >>> found = stats.sample(lambda x: -0.5 * ((x - 3.0) / 2) ** 2, 0.0, funcad.random.key(1), draws=500, warmup=500)
    >>> found.draws.shape, bool(abs(found.draws.mean() - 3) < 0.5), bool(abs(found.draws.std() - 2) < 0.5)
    ((4, 500), True, True)
    """
    vector = Vector("sample: start", start)
    if vector.dtype.kind != "f" or not vector.size:
        raise TypeError(f"sample: start must hold real numbers, at least one, got {start!r}")
    if method not in ("nuts", "hmc"):
        raise ValueError(f"sample: method must be 'nuts' or 'hmc', got {method!r}")
    for name, value, least in (("draws", draws, 1), ("warmup", warmup, 0), ("chains", chains, 1), ("length", length, 1)):
        if not is_a(value, (int, np.integer)) or value < least:
            raise ValueError(f"sample: {name} must be an integer, at least {least}, got {value!r}")
    if not 1 <= deepest <= 20 or not 0 < acceptance < 1:
        raise ValueError(f"sample: needs 1 <= deepest <= 20 and 0 < acceptance < 1, got {deepest!r} and {acceptance!r}")
    f = value_and_grad(lambda v: np.sum(log_density(vector.tree(v), *args)))
    rng = np.random.Generator(np.random.Philox(np.asarray(random.bits(key, (4,), np.uint32)).tolist()))
    transition, width = (nuts, 2**deepest + 2 * deepest) if method == "nuts" else (hmc, 2)
    run = _Chains(f, jit(vmap(functools.partial(transition, f, **_limit(method, deepest, length)))), rng, width)
    run.begin(np.asarray(vector.flat(start), float), chains, spread)
    run.settle_steps(acceptance)
    with meter(lambda: "sample", warmup + draws) as progress:
        run.warm_up(warmup, dense, progress)
        positions, statistics = run.draw(draws, progress)
    lost = int(statistics["diverging"].sum())
    if lost:
        warnings.warn(
            f"sample: {lost} of {chains * draws} trajectories diverged; near there draws are not those of the distribution.\n"
            "Remedy: a higher acceptance (0.95, 0.99), a longer warmup, or other parameters.",
            RuntimeWarning,
            stacklevel=outside(1),
        )
    return Samples(vector, positions, statistics, run.steps.settled() if warmup else run.steps.sizes, run.inverse_mass)


def _limit(method: str, deepest: int, length: int) -> dict[str, int]:
    return {"deepest": deepest} if method == "nuts" else {"length": length}


class _Chains:
    """The state of all chains: arrays whose first axis is theirs."""

    def __init__(self, f: Callable[..., Any], transition: Callable[..., Any], rng: np.random.Generator, width: int):
        self.f, self.transition, self.rng, self.width = f, transition, rng, width

    def begin(self, start: np.ndarray, chains: int, spread: float) -> None:
        """Near the start, where the density is not zero."""
        f = jit(vmap(self.f))
        at = np.tile(start, (chains, 1))
        lost = np.ones(chains, bool)
        for _ in range(TRIES):
            at[lost] = start + spread * self.rng.uniform(-1, 1, (int(lost.sum()), len(start)))
            value, gradient = map(np.array, f(at))
            lost = ~(np.isfinite(value) & np.all(np.isfinite(gradient), axis=1))
            if not lost.any():
                self.at = (at, value, gradient)
                self._set_mass(np.ones_like(at))
                return
        raise ValueError(
            f"sample: the log-density or its gradient is not finite at {TRIES} starts near {start}.\n"
            "Remedy: start where it is, a smaller spread; parameters that range over all numbers (logarithms of positive ones)."
        )

    def _set_mass(self, inverse_mass: np.ndarray) -> None:
        self.inverse_mass = inverse_mass
        self.momenta = roots_of(inverse_mass)

    def settle_steps(self, acceptance: float) -> None:
        """First step sizes: one step of that size is accepted about as often as wanted."""

        @jit
        @vmap
        def change(momentum: Any, position: Any, value: Any, gradient: Any, step: Any, inverse_mass: Any) -> Any:
            first = Place(position, momentum, value, gradient)
            last = leapfrog(self.f, first, step, inverse_mass)
            return log_weight(last, inverse_mass) - log_weight(first, inverse_mass)

        sizes = np.ones(len(self.at[0]))
        momenta = self.momenta(self.rng.standard_normal(self.at[0].shape))
        larger = searching = None
        for _ in range(STEPS):
            good = np.asarray(change(momenta, *self.at, sizes, self.inverse_mass)) > np.log(acceptance)
            larger = good if larger is None else larger
            searching = (good == larger) if searching is None else searching & (good == larger)
            if not searching.any():
                break
            sizes = np.where(searching, np.where(larger, 2 * sizes, 0.5 * sizes), sizes)
        if not hasattr(self, "steps"):
            self.steps = StepSizes(sizes, acceptance)
        else:
            self.steps.begin(sizes)

    def turn(self, sizes: np.ndarray) -> Any:
        """One transition of each chain."""
        chains, n = self.at[0].shape
        momenta = self.momenta(self.rng.standard_normal((chains, n)))
        move = self.transition(momenta, self.rng.random((chains, self.width)), self.at, sizes, self.inverse_mass)
        self.at = (move.position, move.value, move.gradient)
        return move

    def warm_up(self, warmup: int, dense: bool, progress: Any) -> None:
        begin, ends = windows(warmup)
        seen: list[np.ndarray] = []
        for i in range(warmup):
            move = self.turn(self.steps.sizes)
            self.steps.learn(np.asarray(move.accepted))
            if progress is not None:
                progress.step("warm-up")
            if begin <= i < ends[-1] if ends else False:
                seen.append(np.asarray(move.position))
            if i + 1 in ends:
                self._set_mass(inverse_mass_of(np.stack(seen), dense))
                seen = []
                self.settle_steps(self.steps.wanted)

    def draw(self, draws: int, progress: Any) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Positions (chains, draws, n), and what is said of each."""
        sizes = self.steps.settled() if self.steps.count else self.steps.sizes
        positions, told = [], []
        for _ in range(draws):
            move = self.turn(sizes)
            positions.append(np.asarray(move.position))
            told.append([np.asarray(x) for x in (move.accepted, move.divergent, move.steps, move.energy, move.value)])
            if progress is not None:
                progress.step()
        statistics = {name: np.stack(column, axis=1) for name, column in zip(STATISTICS, zip(*told))}
        return np.stack(positions, axis=1), statistics
