"""L-BFGS with a line search, as an optimiser: the state holds the last steps and the last changes of the gradient.

Idea: parameters are ravelled into one vector, the two-loop recursion (Nocedal and Wright, algorithm 7.4) gives the direction,
and the step length is found by bisection for the weak Wolfe conditions (Lewis and Overton, 2013), which guarantee that the
next pair has positive curvature. Invariant: an unused pair has rho = 0, so it changes nothing, and no shape depends on the
count.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np

import funcad.numpy as fnp
from funcad import tree
from funcad.api.grad import value_and_grad
from funcad.control.cond import cond
from funcad.control.while_loop import while_loop
from funcad.ir.aval import aval_of
from funcad.optimize.optimizers import ZERO, GradientTransformation, described, fitted, next_count, positive_sqrt, where
from funcad.primitives.conversion import convert


class LbfgsState(NamedTuple):
    """What `lbfgs` remembers: the last steps s, the changes y of the gradient along them, and what the line search found.

    `count` is the number of updates, `params` and `gradient_before` are the last point and its gradient (ravelled), the rows
    of `steps` and `changes` are the pairs (s, y), `rho` is 1 / s.y, 0 of pairs that are not used yet. `value` and `gradient`
    (ravelled) are those of the point that the last update leads to, `step_size` is its length as a multiple of the direction;
    `value` is NaN without a line search.

    >>> import numpy as np
    >>> from funcad import optimize
    >>> state = optimize.lbfgs(memory_size=5).init(np.zeros(3))
    >>> state.count, state.steps.shape
    (np.int64(0), (5, 3))
    """

    count: Any
    params: Any
    gradient_before: Any
    steps: Any
    changes: Any
    rho: Any
    step_size: Any
    value: Any
    gradient: Any


def _ravel(values: Any, dtype: np.dtype) -> Any:
    leaves = [fnp.reshape(x, (-1,)) for x in tree.leaves(values)]
    leaves = [x if aval_of(x).dtype == dtype else convert(x, dtype) for x in leaves]
    return leaves[0] if len(leaves) == 1 else fnp.concatenate(leaves)


def _layout(params: Any) -> tuple[np.dtype, Callable[[Any], Any]]:
    """The dtype of the vector, and the way back from it."""
    leaves, structure = tree.flatten(params)
    avals = [aval_of(x) for x in leaves]
    if not avals or any(a.dtype.kind != "f" for a in avals):
        raise TypeError(f"lbfgs takes real float parameters, got {' and '.join([f'{a:a}' for a in avals]) or 'none'}")
    ends = np.cumsum([prod(a.shape) for a in avals])[:-1].tolist()

    def unravel(vector: Any) -> Any:
        starts = [0, *ends, None]
        parts = [vector[i:j] for i, j in zip(starts, starts[1:])]
        shaped = [fnp.reshape(p, a.shape) for p, a in zip(parts, avals)]
        kept = [p if aval_of(p).dtype == a.dtype else convert(p, a.dtype) for p, a in zip(shaped, avals)]
        return structure.unflatten(kept)

    return np.result_type(*[a.dtype for a in avals]), unravel


def _direction(g: Any, steps: Any, changes: Any, rho: Any) -> Any:
    """-H g, with the inverse Hessian H that the pairs stand for; the newest pair is last."""
    m = aval_of(rho).shape[0]
    q, alphas = g, []
    for i in reversed(range(m)):
        alphas.append(rho[i] * fnp.vdot(steps[i], q))
        q = q - alphas[-1] * changes[i]
    known = rho[m - 1] > 0
    curvature = where(known, rho[m - 1] * fnp.vdot(changes[m - 1], changes[m - 1]), 1.0)
    norm = positive_sqrt(fnp.vdot(g, g))
    q = q * where(known, 1.0 / curvature, 1.0 / fnp.maximum(norm, 1.0))
    for i, alpha in zip(range(m), reversed(alphas)):
        q = q + (alpha - rho[i] * fnp.vdot(changes[i], q)) * steps[i]
    return -q


class _Search(NamedTuple):
    count: Any
    found: Any
    low: Any
    high: Any
    t: Any
    value: Any
    gradient: Any


def _line_search(f: Any, x: Any, direction: Any, value: Any, g: Any, max_steps: int, c1: float, c2: float) -> _Search:
    """A step t with f(x + t d) <= f(x) + c1 t g.d and the slope there at least c2 g.d, by doubling and bisection.

    After `max_steps` without success: the longest step that decreased f enough (0 if none did).
    """
    slope = fnp.vdot(g, direction)
    one = aval_of(g).dtype.type(1)
    start = _Search(ZERO, np.bool_(False), 0 * one, np.inf * one, one, value + 0 * one, g)

    def body(s: _Search) -> _Search:
        new_value, new_g = f(x + s.t * direction)
        enough = new_value <= value + c1 * s.t * slope  # false for NaN too, which shortens the step
        flat = fnp.vdot(new_g, direction) >= c2 * slope
        low, high = where(enough, s.t, s.low), where(enough, s.high, s.t)
        found = enough & flat
        middle = where(high < np.inf, 0.5 * (low + where(high < np.inf, high, low)), 2.0 * low)
        return _Search(
            next_count(s.count),
            found,
            low,
            high,
            where(found, s.t, middle),
            where(enough, new_value, s.value),
            where(enough, new_g, s.gradient),
        )

    end = while_loop(lambda s: (s.count < max_steps) & ~s.found, body, start)
    return end._replace(t=end.low)  # the last step that decreased f enough: where value and gradient were taken


@described
def lbfgs(
    learning_rate: Any = None,
    memory_size: int = 10,
    *,
    max_line_search_steps: int = 30,
    sufficient_decrease: float = 1e-4,
    curvature: float = 0.9,
) -> GradientTransformation:
    """L-BFGS (Liu and Nocedal, 1989): steps that know the curvature, for smooth losses without noise.

    Parameters
    ----------
    learning_rate : float or schedule, optional
        The length of a step. Without it there is a line search.
    memory_size : int
        From how many steps the curvature is taken.
    max_line_search_steps : int
        The most evaluations of one search.
    sufficient_decrease, curvature : float
        The constants of the weak Wolfe conditions, which a step satisfies.

    Returns
    -------
    GradientTransformation
        With a line search, call `update(grads, state, params, value=value, value_fn=f)`, where f takes the parameters
        alone; it evaluates f and its gradient at trial points. `value_and_grad_from_state(f)` gives what the search
        found already.

    Raises
    ------
    TypeError
        When `init` is called with parameters that are not real floats.

    Notes
    -----
    Parameters are arrays, numbers or containers of them. An update whose pair has no positive curvature is not
    remembered. As `optax.lbfgs`. For a whole minimisation in one call there is `funcad.scipy.optimize.minimize`.

    Examples
    --------
    >>> import numpy as np
    >>> from funcad import optimize
    >>> f = lambda x: 100.0 * (x[1] - x[0] ** 2) ** 2 + (1.0 - x[0]) ** 2
    >>> optimizer = optimize.lbfgs()
    >>> value_and_grad = optimize.value_and_grad_from_state(f)
    >>> x = np.array([-1.2, 1.0])
    >>> state = optimizer.init(x)
    >>> for _ in range(40):
    ...     value, grads = value_and_grad(x, state)
    ...     updates, state = optimizer.update(grads, state, x, value=value, value_fn=f)
    ...     x = optimize.apply_updates(x, updates)
    >>> x.round(6)
    array([1., 1.])
    >>> optimizer = optimize.lbfgs(0.5, memory_size=3)  # no search
    >>> optimizer.update(np.array([2.0]), optimizer.init(np.zeros(1)), np.zeros(1))[0]  # the first is scaled
    array([-0.5])

    See also
    --------
    value_and_grad_from_state, adam, apply_updates
    """
    if memory_size < 1:
        raise ValueError(f"lbfgs: memory_size must be at least 1, got {memory_size}")

    def init(params: Any) -> LbfgsState:
        dtype, _ = _layout(params)
        x = fnp.zeros_like(_ravel(params, dtype))
        pairs = fnp.stack([x] * memory_size)
        zero = dtype.type(0)
        return LbfgsState(ZERO, x, x, pairs, pairs, fnp.sum(pairs, axis=1), zero, dtype.type(np.nan), x)

    def update(
        updates: Any, state: LbfgsState, params: Any = None, *, value: Any = None, value_fn: Any = None, **extra: Any
    ) -> tuple[Any, LbfgsState]:
        if params is None:
            raise ValueError("lbfgs needs the parameters: call update(grads, state, params, value=..., value_fn=...)")
        dtype, unravel = _layout(params)
        x, g = _ravel(params, dtype), _ravel(updates, dtype)
        steps, changes, rho = _remember(state, x, g)
        direction = _direction(g, steps, changes, rho)
        if learning_rate is not None:
            t = fitted(learning_rate(state.count) if callable(learning_rate) else learning_rate, g)
            nothing = dtype.type(np.nan)
            after = (t * dtype.type(1), nothing, fnp.zeros_like(g))
        else:
            if value_fn is None or value is None:
                raise TypeError(
                    "lbfgs with a line search needs the function: update(grads, state, params, value=value, value_fn=f); "
                    "or give lbfgs a learning_rate"
                )
            f = _on_vectors(value_fn, unravel, dtype)
            found = _line_search(f, x, direction, fitted(value, g), g, max_line_search_steps, sufficient_decrease, curvature)
            t, after = found.t, (found.t, found.value, found.gradient)
        new = LbfgsState(next_count(state.count), x, g, steps, changes, rho, *after)
        return unravel(t * direction), new

    return GradientTransformation(init, update)


def _on_vectors(value_fn: Any, unravel: Any, dtype: np.dtype) -> Callable[[Any], tuple[Any, Any]]:
    def of_vector(vector: Any) -> Any:
        out = value_fn(unravel(vector))
        return out if aval_of(out).dtype == dtype else convert(out, dtype)

    return value_and_grad(of_vector)


def _remember(state: LbfgsState, x: Any, g: Any) -> tuple[Any, Any, Any]:
    """The pairs with that of the last update, if there was one and its curvature is positive."""
    step, change = x - state.params, g - state.gradient_before
    product = fnp.vdot(step, change)
    good = (state.count > 0) & (product > 0)
    rho = 1.0 / where(good, product, 1.0)

    def pushed(old: Any, new: Any) -> Any:
        return where(good, fnp.concatenate([old[1:], fnp.reshape(new, (1, *aval_of(new).shape))]), old)

    return pushed(state.steps, step), pushed(state.changes, change), pushed(state.rho, rho)


def value_and_grad_from_state(f: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    """`value_and_grad(f)` of parameters and an `lbfgs` state, which computes only if the line search has not done it already.

    The state must be the one that led to these parameters.

    >>> import numpy as np
    >>> optimizer = lbfgs()
    >>> value_and_grad_from_state(lambda x: np.sum(x**2))(np.ones(2), optimizer.init(np.ones(2)))[1]
    array([2., 2.])
    """

    def compute(params: Any, state: LbfgsState) -> tuple[Any, Any]:
        dtype, unravel = _layout(params)
        known = ~fnp.isnan(state.value)

        def fresh(x: Any) -> Any:
            return _on_vectors(f, unravel, dtype)(x)

        value, g = cond(known, lambda x: (state.value, state.gradient), fresh, _ravel(params, dtype))
        return value, unravel(g)

    return compute
