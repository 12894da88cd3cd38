"""One step of a Markov chain by simulated mechanics: HMC's fixed trajectory, and NUTS's that doubles until it turns back.

Idea: a position is a vector, its potential energy minus its log-density, and a momentum is drawn for each step. A transition is
a pure function of arrays, so that it is jitted once and chains are its lanes. NUTS's tree is never built: one loop takes a
leapfrog step in each turn, whatever subtree that belongs to, so that lanes wait for each other only at the end of a transition.
Of the subtree that is being made, momenta and their running sums are kept at one leaf for each level: those are the left ends
of the subtrees that end at a later leaf. Trap: a point where the log-density is NaN or -inf has no weight and ends the tree.

Sources: Neal, "MCMC using Hamiltonian dynamics" (2011); Hoffman and Gelman, "The No-U-Turn Sampler" (2014); weights and the
criterion on momentum sums by Betancourt, "A conceptual introduction to Hamiltonian Monte Carlo" (2017); the tree as a loop by
Phan, Pradhan and Jankowiak, "Composable effects for flexible and accelerated probabilistic programming in NumPyro" (2019).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from funcad import lax

__all__ = ["Place", "Move", "hmc", "leapfrog", "nuts", "log_weight"]

DIVERGENT = 1000.0  # of energy: so much more than at the start, and the simulation has lost its way

ValueAndGrad = Callable[[Any], tuple[Any, Any]]


class Place(NamedTuple):
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

    left: Place
    right: Place
    chosen: tuple  # (position, value, gradient) of the proposal
    weight: Any  # the logarithm of the sum of the weights
    total: Any  # the sum of the momenta
    depth: Any
    edge: Place  # of the subtree: its last leaf,
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


def leapfrog(f: ValueAndGrad, at: Place, step: Any, inverse_mass: Any) -> Place:
    """One step of the leapfrog integrator."""
    half = at.momentum + 0.5 * step * at.gradient
    position = at.position + step * velocity(inverse_mass, half)
    value, gradient = f(position)
    return Place(position, half + 0.5 * step * gradient, value, gradient)


def log_weight(at: Place, inverse_mass: Any) -> Any:
    """Minus the energy; -inf where there is none."""
    found = at.value - 0.5 * np.sum(at.momentum * velocity(inverse_mass, at.momentum))
    return np.where(np.isnan(found), -np.inf, found)


def hmc(f: ValueAndGrad, momentum: Any, uniforms: Any, at: tuple, step: Any, inverse_mass: Any, length: int) -> Move:
    """A trajectory of `length` steps, whose end is taken or refused. `uniforms`: two random numbers."""
    first = Place(at[0], momentum, *at[1:])
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
    start = Place(at[0], momentum, *at[1:])
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
    return Place(*chosen) if type(new) is Place else tuple(chosen)


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
