"""`sample`: draws from a log-density that is written in NumPy, by NUTS or HMC; chains are the lanes of one jitted transition.

Idea: the transition (below) is pure and takes its random numbers as arrays, so that it may become one native
function; the loop over draws, the adaptation (below) and the random numbers are NumPy on arrays of chains. Invariant:
the same key gives the same draws, on one machine and one version. Trap: parameters must range over all numbers; what is
positive is a logarithm, with the logarithm of the derivative added to the density.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from funcad import lax, random, tree
from funcad.api.border import api
from funcad.api.grad import value_and_grad
from funcad.api.vmap import vmap
from funcad.host.progress import meter
from funcad.host.real_types import is_a
from funcad.host.where import outside
from funcad.jitted.jit import jit
from funcad.scipy.tree_vectors import Vector
from funcad.show.compile_log import html_table, text_table
from funcad.show.graph import axes_of

# -- what a chain learns before its draws count: the step size of its leapfrogs, and the mass, a covariance
#
# Source: step sizes by dual averaging, Hoffman and Gelman, "The No-U-Turn Sampler" (2014); windows that double, as in Stan's
# reference manual, so that the mass is estimated from the part of the warm-up that has forgotten the start.


FIRST, LAST, SMALLEST = 0.075, 0.05, 25  # shares of the warm-up before and after the windows, and the steps of the first
SETTLING = 10  # steps at least after the last window, in which step sizes begin anew, from ten times too large ones
SHRINKAGE, STABLE, DECAY = 0.05, 10.0, 0.75  # of dual averaging, by its source
PRIOR, PRIOR_DRAWS = 1e-3, 5.0  # what variances are drawn to, and as how many draws it counts


class StepSizes:
    """A step size for each chain, led to where trajectories are accepted as often as wanted."""

    def __init__(self, sizes: np.ndarray, wanted: float):
        self.wanted = wanted
        self.begin(sizes)

    def begin(self, sizes: np.ndarray) -> None:
        """Anew, from these sizes."""
        self.sizes = sizes
        self.centre = np.log(10 * sizes)
        self.error, self.mean, self.count = np.zeros_like(sizes), np.log(sizes), 0

    def learn(self, accepted: np.ndarray) -> None:
        self.count += 1
        part = 1 / (self.count + STABLE)
        self.error = (1 - part) * self.error + part * (self.wanted - np.nan_to_num(accepted))
        log_size = self.centre - np.sqrt(self.count) / SHRINKAGE * self.error
        share = self.count**-DECAY
        self.mean = share * log_size + (1 - share) * self.mean
        self.sizes = np.exp(log_size)

    def settled(self) -> np.ndarray:
        return np.exp(self.mean)


def windows(warmup: int) -> tuple[int, list[int]]:
    """Where the first window begins, and where each of them ends; in a short warm-up there is none."""
    begin, end = round(FIRST * warmup), warmup - max(round(LAST * warmup), SETTLING)
    if end - begin < SMALLEST:
        return warmup, []
    ends, size = [], SMALLEST
    at = begin
    while at < end:
        at = end if at + size + 2 * size > end else at + size
        ends.append(at)
        size *= 2
    return begin, ends


def inverse_mass_of(draws: np.ndarray, dense: bool) -> np.ndarray:
    """The covariances of the draws (steps, chains, n), or their variances, drawn somewhat to a small number."""
    n = len(draws)
    centred = draws - draws.mean(axis=0)
    weight = n / (n + PRIOR_DRAWS)
    small = PRIOR * PRIOR_DRAWS / (n + PRIOR_DRAWS)
    if not dense:
        return weight * np.sum(centred**2, axis=0) / (n - 1) + small
    return weight * np.einsum("tci,tcj->cij", centred, centred) / (n - 1) + small * np.eye(draws.shape[2])


def roots_of(inverse_mass: np.ndarray) -> Any:
    """What noise is multiplied with to be a momentum: its covariance is the mass."""
    if inverse_mass.ndim == 2:
        return lambda noise: noise / np.sqrt(inverse_mass)
    factors = np.linalg.inv(np.linalg.cholesky(inverse_mass))
    return lambda noise: np.einsum("cji,cj->ci", factors, noise)


# -- one step of a Markov chain by simulated mechanics: HMC's fixed trajectory, and NUTS's that doubles until it turns back
#
# Idea: a position is a vector, its potential energy minus its log-density, and a momentum is drawn for each step. A transition
# is a pure function of arrays, so that it is jitted once and chains are its lanes. NUTS's tree is never built: one loop takes a
# leapfrog step in each turn, whatever subtree that belongs to, so that lanes wait for each other only at the end of a
# transition. Of the subtree that is being made, momenta and their running sums are kept at one leaf for each level: those are
# the left ends of the subtrees that end at a later leaf. Trap: a point where the log-density is NaN or -inf has no weight and
# ends the tree.
#
# Sources: Neal, "MCMC using Hamiltonian dynamics" (2011); Hoffman and Gelman, "The No-U-Turn Sampler" (2014); weights and the
# criterion on momentum sums by Betancourt, "A conceptual introduction to Hamiltonian Monte Carlo" (2017); the tree as a loop by
# Phan, Pradhan and Jankowiak, "Composable effects for flexible and accelerated probabilistic programming in NumPyro" (2019).


DIVERGENT = 1000.0  # of energy: so much more than at the start, and the simulation has lost its way

ValueAndGrad = Callable[[Any], tuple[Any, Any]]


class PhasePoint(NamedTuple):
    """A point of a trajectory."""

    position: Any
    momentum: Any
    value: Any  # the log-density there
    gradient: Any


class Move(NamedTuple):
    """Where a transition ends, and what is said of it."""

    position: Any
    value: Any
    gradient: Any
    accepted: Any  # the mean probability of acceptance along the trajectory, to which the step size is adapted
    divergent: Any
    steps: Any
    energy: Any


class _Tree(NamedTuple):
    """The trajectory so far, and the subtree that is being added to it."""

    left: PhasePoint
    right: PhasePoint
    chosen: tuple  # (position, value, gradient) of the proposal
    weight: Any  # the logarithm of the sum of the weights
    total: Any  # the sum of the momenta
    depth: Any
    edge: PhasePoint  # of the subtree: its last leaf,
    forward: Any  # its direction,
    leaf: Any  # how many leaves it has,
    sub_chosen: tuple  # and the same of it
    sub_weight: Any
    sub_total: Any
    kept_momenta: Any  # at one leaf for each level, see `_turns_within`
    kept_totals: Any
    accepted: Any
    steps: Any
    divergent: Any
    done: Any


def velocity(inverse_mass: Any, p: Any) -> Any:
    """Of a momentum; the inverse mass is a vector, which is a diagonal, or a matrix."""
    return inverse_mass * p if inverse_mass.ndim == 1 else p @ inverse_mass


def leapfrog(f: ValueAndGrad, at: PhasePoint, step: Any, inverse_mass: Any) -> PhasePoint:
    """One step of the leapfrog integrator."""
    half = at.momentum + 0.5 * step * at.gradient
    position = at.position + step * velocity(inverse_mass, half)
    value, gradient = f(position)
    return PhasePoint(position, half + 0.5 * step * gradient, value, gradient)


def log_weight(at: PhasePoint, inverse_mass: Any) -> Any:
    """Minus the energy; -inf where there is none."""
    found = at.value - 0.5 * np.sum(at.momentum * velocity(inverse_mass, at.momentum))
    return np.where(np.isnan(found), -np.inf, found)


def hmc(f: ValueAndGrad, momentum: Any, uniforms: Any, at: tuple, step: Any, inverse_mass: Any, length: int) -> Move:
    """A trajectory of `length` steps, whose end is taken or refused. `uniforms`: two random numbers."""
    first = PhasePoint(at[0], momentum, *at[1:])
    size = step * (0.9 + 0.2 * uniforms[1])  # else some lengths bring a trajectory back to its start
    last, _ = lax.scan(lambda place, _: (leapfrog(f, place, size, inverse_mass), None), first, None, length=length)
    before, after = log_weight(first, inverse_mass), log_weight(last, inverse_mass)
    probability = np.exp(np.minimum(after - before, 0.0))
    taken = uniforms[0] < probability
    chosen = [np.where(taken, new, old) for new, old in zip((last.position, last.value, last.gradient), at)]
    return Move(*chosen, probability, after - before < -DIVERGENT, np.asarray(length), -np.where(taken, after, before))


def nuts(f: ValueAndGrad, momentum: Any, uniforms: Any, at: tuple, step: Any, inverse_mass: Any, deepest: int) -> Move:
    """A trajectory that is doubled, forward or back, until it turns back; one of its points is drawn, by its weight.

    `deepest`: the doublings at most. `uniforms`: random numbers, one for each possible leaf, then two for each doubling.
    """
    start = PhasePoint(at[0], momentum, *at[1:])
    origin = log_weight(start, inverse_mass)
    of_leaves, of_doublings = uniforms[: 2**deepest], uniforms[2**deepest :].reshape(deepest, 2)

    def turn(tree: _Tree) -> _Tree:
        u_direction, u_tree = of_doublings[tree.depth]
        begins = tree.leaf == 0
        forward = np.where(begins, u_direction < 0.5, tree.forward)
        edge = _select(begins, _select(forward, tree.right, tree.left), tree.edge)
        sub_weight = np.where(begins, -np.inf, tree.sub_weight)
        # one more leaf of the subtree
        edge = leapfrog(f, edge, np.where(forward, step, -step), inverse_mass)
        weight = log_weight(edge, inverse_mass) - origin
        sub_weight = np.logaddexp(sub_weight, weight)
        sub_total = np.where(begins, 0.0, tree.sub_total) + edge.momentum
        taken = np.log(of_leaves[tree.steps]) < weight - sub_weight
        sub_chosen = _select(taken | begins, (edge.position, edge.value, edge.gradient), tree.sub_chosen)
        divergent = weight < -DIVERGENT
        kept = _keep(tree, edge.momentum, sub_total)
        turns = _turns_within(*kept, tree.leaf, edge.momentum, sub_total, inverse_mass)
        # the subtree joins the trajectory when it is as large as that
        bad = divergent | turns
        whole = ~bad & (tree.leaf + 1 == np.left_shift(1, tree.depth))
        better = whole & (np.log(u_tree) < sub_weight - tree.weight)
        left = _select(whole & ~forward, edge, tree.left)
        right = _select(whole & forward, edge, tree.right)
        total = np.where(whole, tree.total + sub_total, tree.total)
        depth = tree.depth + whole
        ends = whole & (_turns(left.momentum, right.momentum, total, inverse_mass) | (depth == deepest))
        return _Tree(
            left,
            right,
            _select(better, sub_chosen, tree.chosen),
            np.where(whole, np.logaddexp(tree.weight, sub_weight), tree.weight),
            total,
            depth,
            edge,
            forward,
            np.where(whole, 0, tree.leaf + 1),
            sub_chosen,
            sub_weight,
            sub_total,
            *kept,
            tree.accepted + np.exp(np.minimum(weight, 0.0)),
            tree.steps + 1,
            divergent,
            bad | ends,
        )

    p, none = start.momentum, np.zeros((deepest, *start.momentum.shape))
    counts = [np.asarray(0)] * 2
    tree = _Tree(
        *(start, start, at, np.asarray(0.0), p, counts[0], start, np.asarray(True), counts[1], at, np.asarray(-np.inf), p),
        *(none, none, np.asarray(0.0), np.asarray(0), np.asarray(False), np.asarray(False)),
    )
    tree = lax.while_loop(lambda t: ~t.done, turn, tree)
    return Move(*tree.chosen, tree.accepted / tree.steps, tree.divergent, tree.steps, -origin)


def _select(taken: Any, new: Any, old: Any) -> Any:
    chosen = [np.where(taken, a, b) for a, b in zip(new, old)]
    return PhasePoint(*chosen) if type(new) is PhasePoint else tuple(chosen)


def _level(leaf: Any, deepest: int) -> tuple[Any, Any]:
    """Where a leaf's momentum is kept, and how many subtrees it ends: the ones in leaf // 2, and those that end leaf."""
    bits = leaf // 2 ** np.arange(deepest) % 2
    return np.sum(bits[1:]), np.sum(np.cumprod(bits))


def _keep(tree: _Tree, p: Any, total: Any) -> tuple[Any, Any]:
    """The momenta and sums that are kept, with an even leaf's."""
    deepest = tree.kept_momenta.shape[0]
    level, _ = _level(tree.leaf, deepest)
    here = ((np.arange(deepest) == level) & (tree.leaf % 2 == 0))[:, None]
    return np.where(here, p, tree.kept_momenta), np.where(here, total, tree.kept_totals)


def _turns_within(momenta: Any, totals: Any, leaf: Any, p: Any, total: Any, inverse_mass: Any) -> Any:
    """Does a subtree that ends at this leaf turn back? They begin at the leaves kept last, as many as it ends subtrees."""
    deepest = momenta.shape[0]
    level, ended = _level(leaf, deepest)
    place = np.arange(deepest)
    checked = (place <= level) & (place > level - ended)
    return np.any(checked & _turns(momenta, p, total - totals + momenta, inverse_mass))


def _turns(left: Any, right: Any, total: Any, inverse_mass: Any) -> Any:
    """Do the ends of a trajectory come nearer? `left` and `total` may be rows of several."""
    way = velocity(inverse_mass, total - 0.5 * (left + right))
    return (np.sum(left * way, axis=-1) <= 0) | (np.sum(right * way, axis=-1) <= 0)


# -- `sample`


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
            first = PhasePoint(position, momentum, value, gradient)
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
