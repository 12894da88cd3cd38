"""Optimisers: what they are, the steps of which they are made, and chains of these.

A learning rate is a number, a traced value or a schedule.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

import funcad.numpy as fnp
from funcad import tree
from funcad.api.border import api
from funcad.ir.aval import aval_of, said, shape_of
from funcad.primitives.conversion import conj, convert, real
from funcad.show.graph import axes_of

# -- what an optimiser is: a pair of pure functions on pytrees, and how pairs are chained
#
# Invariant: a state is made of arrays only (counters too), so its structure, shapes and dtypes stay the same from step to step,
# as `scan` and `while_loop` need it. Trap: a counter or a learning rate is float64 or int64 and strong; it is converted to a
# leaf's dtype before it meets the leaf, or float32 parameters would become float64.


ZERO = np.int64(0)
P = ParamSpec("P")
Params = TypeVar("Params")


class Update(Protocol):
    """Of gradients, or of what another transformation made of them: what is added, and the next state."""

    def __call__(self, updates: Params, /, *args: Any, **kwargs: Any) -> tuple[Params, tuple[Any, ...]]: ...


class GradientTransformation(NamedTuple):
    """A pair `init(params) -> state`, `update(updates, state, params) -> (updates, state)`.

    What goes in are gradients, or what another transformation made of them; what comes out of the last one is added to the
    parameters by `apply_updates`. Any pair of functions with these signatures is one.

    >>> from funcad import optimize
    >>> halve = optimize.GradientTransformation(lambda params: (), lambda g, state, params=None: (0.5 * g, state))
    >>> optimize.chain(halve, optimize.sgd(1.0)).update(4.0, ((), (optimize.EmptyState(),) * 3))[0]
    -2.0
    """

    init: Callable[[Any], tuple[Any, ...]]
    update: Update

    def __repr__(self) -> str:
        try:
            return _texts[self.update]
        except (KeyError, TypeError):  # made by hand
            return f"GradientTransformation(init={_text(self.init)}, update={_text(self.update)})"

    def __getattr__(self, name: str) -> Any:
        told = f"an optimiser has init and update, no {name!r}.\nRemedy: updates, state = "
        told += "optimizer.update(gradient, state, params); params = apply_updates(params, updates)."
        raise AttributeError(told, name=name, obj=self)


_texts: WeakKeyDictionary[Callable[..., Any], str] = WeakKeyDictionary()  # by `update`: how the pair was made


def described(constructor: Callable[P, GradientTransformation]) -> Callable[P, GradientTransformation]:
    """Decorate what makes transformations: their text is the call that made them."""
    names = inspect.signature(constructor).parameters

    @functools.wraps(constructor)
    def make(*args: P.args, **kwargs: P.kwargs) -> GradientTransformation:
        wrong = [name for name in kwargs if name not in names]
        if wrong:
            told = f"{constructor.__name__}() has no argument {wrong[0]!r}"
            raise TypeError(f"{told}.\nRemedy: one of {', '.join(names)}.")
        init, update = constructor(*args, **kwargs)
        made = GradientTransformation(init, api(update))
        given = [*map(_text, args), *[f"{name}={_text(value)}" for name, value in kwargs.items()]]
        _texts[made.update] = f"{constructor.__name__}({', '.join(given)})"
        return made

    return make


def _text(value: Any) -> str:
    if isinstance(value, GradientTransformation):
        return repr(value)
    if callable(value):
        return str(getattr(value, "__name__", type(value).__name__))
    text = " ".join(repr(value).split())
    return text if len(text) <= 40 else f"<{type(value).__name__}>"


class EmptyState(NamedTuple):
    """The state of a transformation that remembers nothing.

    >>> from funcad import optimize
    >>> optimize.scale(2.0).init({"w": 1.0})
    EmptyState()
    """


def dtype_like(leaf: Any) -> np.dtype:
    """The real dtype of a leaf's numbers."""
    dtype = aval_of(leaf).dtype
    return np.finfo(dtype).dtype if dtype.kind == "c" else dtype


def fitted(x: Any, leaf: Any) -> Any:
    """A factor (Python number, array of rank 0, traced) in the precision of the leaf that it will meet."""
    if type(x) is float or type(x) is int:
        return x
    dtype = dtype_like(leaf)
    return x if dtype.kind not in "f" else convert(x, dtype)


def zeros_like(params: Any) -> Any:
    return tree.map(fnp.zeros_like, params)


def squared_size(g: Any) -> Any:
    """|g|**2, a real number also where g is complex."""
    return real(g * conj(g)) if aval_of(g).dtype.kind == "c" else g * g


def count_from(_: Any = None) -> Any:
    return ZERO


def next_count(count: Any) -> Any:
    return count + np.int64(1)


def apply_updates(params: Params, updates: Any) -> Params:
    """params + updates, leaf by leaf.

    Parameters
    ----------
    params : array, number or container of them
        The parameters.
    updates : like params
        What an optimiser gave; it has the same structure.

    Returns
    -------
    like params
        In the dtypes of the parameters.

    Raises
    ------
    TreeMismatchError
        The structures differ; the message names the path.

    Notes
    -----
    It makes new arrays, and leaves the old ones as they are. As `optax.apply_updates`.

    Examples
    --------
    >>> import numpy as np
    >>> from funcad import optimize
    >>> optimize.apply_updates({"w": np.ones(2, np.float32)}, {"w": np.array([1.0, 2.0])})["w"]
    array([2., 3.], dtype=float32)

    See also
    --------
    sgd, adam, chain
    """

    def added(p: Any, u: Any) -> Any:
        if tree.is_tree_node(type(u)) or shape_of(u) != shape_of(p):
            raise ValueError(f"apply_updates: an update is {said(u)}, and its parameter is {said(p)}.")
        out = p + u
        dtype = aval_of(p).dtype
        return out if aval_of(out).dtype == dtype or dtype.kind not in "fc" else convert(out, dtype)

    return tree.map(added, params, updates)


@described
def chain(*transformations: Any) -> GradientTransformation:
    """One transformation of gradients after the other.

    Parameters
    ----------
    *transformations : GradientTransformation
        The first one gets the gradients.

    Returns
    -------
    GradientTransformation
        Its state is the tuple of theirs.

    Raises
    ------
    ValueError
        When `update` is called, and one of them needs what was not given, such as the parameters.

    Notes
    -----
    Keyword arguments of `update` (as `lbfgs` takes them) are handed to each. As `optax.chain`.

    Examples
    --------
    >>> import numpy as np
    >>> from funcad import optimize
    >>> optimizer = optimize.chain(optimize.clip_by_global_norm(1.0), optimize.sgd(0.5))
    >>> g = np.array([3.0, 4.0])
    >>> optimizer.update(g, optimizer.init(g))[0]
    array([-0.3, -0.4])

    See also
    --------
    clip_by_global_norm, sgd, adam, apply_updates
    """
    pairs = [GradientTransformation(*t) for t in transformations]

    def init(params: Any) -> tuple:
        return tuple([t.init(params) for t in pairs])

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, tuple]:
        if len(state) != len(pairs):
            raise ValueError(f"chain: a state of {len(state)} parts for {len(pairs)} transformations; make it with init")
        states = []
        for t, s in zip(pairs, state):
            updates, s = t.update(updates, s, params, **extra)
            states.append(s)
        return updates, tuple(states)

    return GradientTransformation(init, update)


def global_norm(updates: Any) -> Any:
    """The Euclidean norm of all leaves together; its derivative at 0 is 0.

    `updates` is a pytree of arrays. Returns a number; as optax.global_norm.

    >>> import numpy as np
    >>> global_norm([np.array([3.0]), np.array([4.0])])
    np.float64(5.0)
    """
    return positive_sqrt(sum([fnp.sum(squared_size(g)) for g in tree.leaves(updates)]))


def positive_sqrt(x: Any) -> Any:
    """sqrt(x) for x >= 0, whose derivative at 0 is 0."""
    positive = x > 0
    return where(positive, fnp.sqrt(where(positive, x, 1.0)), 0.0)


def where(condition: Any, x: Any, y: Any) -> Any:
    """`fnp.where`, whose result of rank 0 is a NumPy scalar, as other functions' is."""
    out = fnp.where(condition, x, y)
    return out[()] if type(out) is np.ndarray and not out.ndim else out


# -- the steps of which optimisers are made: momentum, scaling by running moments, clipping, weight decay, the learning rate


def stateless(function: Callable[[Any, Any], Any]) -> GradientTransformation:
    """The transformation `updates -> function(updates, params)`."""
    return GradientTransformation(
        lambda params: EmptyState(), lambda updates, state, params=None, **extra: (function(updates, params), state)
    )


@described
def scale(step_size: Any) -> GradientTransformation:
    """Multiply by a number, which may be traced.

    `step_size` is that number. Returns a GradientTransformation; as optax.scale.

    >>> import numpy as np
    >>> scale(2.0).update(np.ones(2), EmptyState())[0]
    array([2., 2.])
    """
    return stateless(lambda updates, _: tree.map(lambda g: fitted(step_size, g) * g, updates))


class CountState(NamedTuple):
    """The number of updates done."""

    count: Any


@described
def scale_by_schedule(step_size: Callable[[Any], Any]) -> GradientTransformation:
    """Multiply by `step_size(count)`, count being 0 at the first update.

    >>> import numpy as np
    >>> halving = scale_by_schedule(lambda count: 0.5**count)
    >>> state = halving.init(None)
    >>> _, state = halving.update(1.0, state)
    >>> halving.update(1.0, state)[0]
    np.float64(0.5)
    """

    def update(updates: Any, state: CountState, params: Any = None, **extra: Any) -> tuple[Any, CountState]:
        factor = step_size(state.count)
        return tree.map(lambda g: fitted(factor, g) * g, updates), CountState(next_count(state.count))

    return GradientTransformation(lambda params: CountState(ZERO), update)


@described
def scale_by_learning_rate(learning_rate: Any = None, *, flip_sign: bool = True) -> GradientTransformation:
    """Multiply by -learning_rate: a number (which may be traced), or a schedule; None: updates stay as they are.

    With `flip_sign=False` by learning_rate itself. As optax's.

    >>> import numpy as np
    >>> scale_by_learning_rate(0.1).update(np.ones(2), EmptyState())[0]
    array([-0.1, -0.1])
    """
    if learning_rate is None:
        return stateless(lambda updates, _: updates)
    sign = -1 if flip_sign else 1
    if callable(learning_rate):
        return scale_by_schedule(lambda count: sign * learning_rate(count))
    return scale(sign * learning_rate)


class TraceState(NamedTuple):
    """The decaying sum of the updates."""

    trace: Any


@described
def trace(decay: Any, nesterov: bool = False) -> GradientTransformation:
    """Momentum: t = g + decay * t, and the update is t, or g + decay * t by Nesterov's rule.

    `decay` is the share of t that is kept; `nesterov=True` takes that rule. As optax.trace.

    >>> import numpy as np
    >>> momentum = trace(0.5)
    >>> _, state = momentum.update(1.0, momentum.init(1.0))
    >>> momentum.update(1.0, state)[0]
    np.float64(1.5)
    """

    def update(updates: Any, state: TraceState, params: Any = None, **extra: Any) -> tuple[Any, TraceState]:
        def step(g: Any, t: Any) -> Any:
            return g + fitted(decay, g) * _fit(g, t)

        moved = tree.map(step, updates, state.trace)
        return (tree.map(step, updates, moved) if nesterov else moved), TraceState(moved)

    return GradientTransformation(lambda params: TraceState(zeros_like(params)), update)


class AdamState(NamedTuple):
    """Count of the updates, running means of the gradient and of its square."""

    count: Any
    mu: Any
    nu: Any


def _real_zeros(params: Any) -> Any:
    return tree.map(lambda p: fnp.zeros_like(squared_size(p)), params)


def _fit(g: Any, kept: Any) -> Any:
    """What the state has for g, if it was made for a parameter of this shape: others would broadcast."""
    if tree.is_tree_node(type(kept)) or shape_of(kept) != shape_of(g):
        raise ValueError(
            f"update: a gradient is {said(g)}, and the state was made for {said(kept)}.\n"
            "Remedy: state = optimizer.init(params), with the parameters to which the gradients belong."
        )
    return kept


def _running(old: Any, new: Any, decay: Any) -> Any:
    return tree.map(lambda x, m: fitted(decay, x) * _fit(x, m) + (1 - fitted(decay, x)) * x, new, old)


@described
def scale_by_adam(
    b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8, eps_root: Any = 0.0, nesterov: bool = False
) -> GradientTransformation:
    """m / (sqrt(v + eps_root) + eps), with the bias-corrected running means m of the gradient and v of its square.

    Kingma and Ba, 2015; with `nesterov`, Dozat, 2016. Where v is 0, so is m, and the derivative of the square root counts 0.
    `b1` and `b2` are the rates at which the means of the gradient and of its square forget.

    >>> import numpy as np
    >>> rule = scale_by_adam()
    >>> rule.update(np.array([3.0, -0.1]), rule.init(np.zeros(2)))[0].round(6)
    array([ 1., -1.])
    """

    def init(params: Any) -> AdamState:
        return AdamState(ZERO, zeros_like(params), _real_zeros(params))

    def update(updates: Any, state: AdamState, params: Any = None, **extra: Any) -> tuple[Any, AdamState]:
        count = next_count(state.count)
        mu = _running(state.mu, updates, b1)
        nu = _running(state.nu, tree.map(squared_size, updates), b2)
        by_mu, by_nu = 1 - b1**count, 1 - b2**count

        def step(g: Any, m: Any, v: Any) -> Any:
            if nesterov:
                first = fitted(b1 / (1 - b1 ** (count + 1)), g) * m + fitted((1 - b1) / by_mu, g) * g
            else:
                first = m / fitted(by_mu, g)
            return first / (positive_sqrt(v / fitted(by_nu, g) + fitted(eps_root, g)) + fitted(eps, g))

        return tree.map(step, updates, mu, nu), AdamState(count, mu, nu)

    return GradientTransformation(init, update)


class RmsState(NamedTuple):
    """Running means of the square of the gradient, and of the gradient (None unless centred)."""

    nu: Any
    mu: Any


@described
def scale_by_rms(
    decay: Any = 0.9, eps: Any = 1e-8, initial_scale: Any = 0.0, centered: bool = False, eps_in_sqrt: bool = True
) -> GradientTransformation:
    """g / sqrt(v + eps), with the running mean v of g**2, minus the square of that of g if `centered`.

    Tieleman and Hinton, 2012; Graves, 2013. With `eps_in_sqrt=False` it is g / (sqrt(v) + eps), as in PyTorch.
    `initial_scale` is what v starts from.

    >>> import numpy as np
    >>> rule = scale_by_rms(decay=0.75, eps=0.0)
    >>> rule.update(np.array([3.0]), rule.init(np.zeros(1)))[0]
    array([2.])
    """

    def init(params: Any) -> RmsState:
        nu = tree.map(lambda z: z + fitted(initial_scale, z), _real_zeros(params))
        return RmsState(nu, zeros_like(params) if centered else None)

    def update(updates: Any, state: RmsState, params: Any = None, **extra: Any) -> tuple[Any, RmsState]:
        nu = _running(state.nu, tree.map(squared_size, updates), decay)
        mu = _running(state.mu, updates, decay) if centered else None

        def step(g: Any, v: Any, *m: Any) -> Any:
            variance = v - squared_size(m[0]) if m else v
            if eps_in_sqrt:
                return g / positive_sqrt(variance + fitted(eps, g))
            return g / (positive_sqrt(variance) + fitted(eps, g))

        return tree.map(step, updates, nu, *([mu] if centered else [])), RmsState(nu, mu)

    return GradientTransformation(init, update)


class RssState(NamedTuple):
    """The sum of the squares of all gradients so far."""

    sum_of_squares: Any


@described
def scale_by_rss(initial_accumulator_value: Any = 0.1, eps: Any = 1e-7) -> GradientTransformation:
    """g / sqrt(s + eps), with the sum s of the squares of all gradients so far (0 where that is 0).

    Duchi, Hazan and Singer, 2011.
    `initial_accumulator_value` is what s starts from.

    >>> import numpy as np
    >>> rule = scale_by_rss(0.0, 0.0)
    >>> rule.update(np.array([3.0, 0.0]), rule.init(np.zeros(2)))[0]
    array([1., 0.])
    """

    def init(params: Any) -> RssState:
        return RssState(tree.map(lambda z: z + fitted(initial_accumulator_value, z), _real_zeros(params)))

    def update(updates: Any, state: RssState, params: Any = None, **extra: Any) -> tuple[Any, RssState]:
        sums = tree.map(lambda g, s: _fit(g, s) + squared_size(g), updates, state.sum_of_squares)

        def step(g: Any, s: Any) -> Any:
            some = s > 0
            return where(some, g / fnp.sqrt(where(some, s, 1.0) + fitted(eps, g)), 0.0)

        return tree.map(step, updates, sums), RssState(sums)

    return GradientTransformation(init, update)


@described
def add_decayed_weights(weight_decay: Any, mask: Any = None) -> GradientTransformation:
    """g + weight_decay * params. `mask` is a tree (or a prefix of one) of bools, or a function of params that gives one.

    >>> import numpy as np
    >>> add_decayed_weights(0.5).update(np.ones(2), EmptyState(), np.array([2.0, 4.0]))[0]
    array([2., 3.])
    """

    def decayed(updates: Any, params: Any) -> Any:
        if params is None:
            raise ValueError("weight decay needs the parameters: call update(grads, state, params)")
        if mask is None:
            return tree.map(lambda g, p: g + fitted(weight_decay, g) * p, updates, params)
        chosen = tree.broadcast(mask(params) if callable(mask) else mask, params)
        return tree.map(lambda g, p, m: g + fitted(weight_decay, g) * p if m else g, updates, params, chosen)

    return stateless(decayed)


@described
def clip_by_global_norm(max_norm: Any) -> GradientTransformation:
    """Scale all gradients by one factor, so that their norm together is at most `max_norm`.

    Parameters
    ----------
    max_norm : float
        The largest norm. Smaller gradients stay as they are.

    Returns
    -------
    GradientTransformation
        Its state is empty; put it before an optimiser in a `chain`.

    Raises
    ------
    TypeError
        When `update` is called with what is no array or number.

    Notes
    -----
    As `optax.clip_by_global_norm`, and `torch.nn.utils.clip_grad_norm_`, which changes gradients in place.

    Examples
    --------
    >>> import numpy as np
    >>> from funcad import optimize
    >>> clip = optimize.clip_by_global_norm(1.0)
    >>> clip.update([np.array([3.0]), np.array([4.0])], clip.init(None))[0]
    [array([0.6]), array([0.8])]

    See also
    --------
    global_norm, clip_by_value, chain
    """

    def clipped(updates: Any, _: Any) -> Any:
        norm = global_norm(updates)
        small = norm < max_norm
        safe = where(small, 1.0, norm)
        return tree.map(lambda g: where(small, g, g / fitted(safe, g) * fitted(max_norm, g)), updates)

    return stateless(clipped)


@described
def clip_by_value(max_delta: Any) -> GradientTransformation:
    """Every element between -max_delta and max_delta.

    >>> import numpy as np
    >>> clip_by_value(1.0).update(np.array([3.0, -0.5]), EmptyState())[0]
    array([ 1. , -0.5])
    """
    return stateless(lambda updates, _: tree.map(lambda g: fnp.clip(g, -fitted(max_delta, g), fitted(max_delta, g)), updates))


# -- chains of steps


def _identity() -> GradientTransformation:
    return stateless(lambda updates, _: updates)


def _given(value: Any) -> bool:
    """Is an option on? (A traced number is.)"""
    return value is not None and not (type(value) in (int, float) and value == 0)


@described
def sgd(learning_rate: Any, momentum: Any = None, nesterov: bool = False, weight_decay: Any = 0.0) -> GradientTransformation:
    """Stochastic gradient descent, with momentum and weight decay.

    Parameters
    ----------
    learning_rate : float, array or schedule
        A number, or a function of the count of steps.
    momentum : float, optional
        How much of the last step is added to the next.
    nesterov : bool
        Nesterov's rule (Sutskever et al., 2013): g + momentum * t instead of t.
    weight_decay : float
        Times the parameters, added to the gradient.

    Returns
    -------
    GradientTransformation
        A pair `(init, update)`: `state = init(params)` and `updates, state = update(grads, state, params)`.

    Raises
    ------
    ValueError
        When `update` is called without params, and there is weight decay.

    Notes
    -----
    The step is -learning_rate * t with t = g + weight_decay * params + momentum * t. As `optax.sgd` and
    `torch.optim.SGD`; the state is a value of its own, which nothing changes in place.

    Examples
    --------
    >>> import numpy as np
    >>> from funcad import optimize
    >>> optimizer = optimize.sgd(0.5)
    >>> optimizer.update(np.array([1.0, -2.0]), optimizer.init(np.zeros(2)))[0]
    array([-0.5,  1. ])
    >>> optimizer = optimize.sgd(optimize.exponential_decay(1.0, 1, 0.5), momentum=0.9)
    >>> params, grads = np.zeros(1), np.ones(1)
    >>> state = optimizer.init(params)
    >>> for _ in range(2):
    ...     updates, state = optimizer.update(grads, state, params)
    ...     params = optimize.apply_updates(params, updates)
    >>> params
    array([-1.95])

    See also
    --------
    adam, apply_updates, chain, exponential_decay
    """
    return chain(
        add_decayed_weights(weight_decay) if _given(weight_decay) else _identity(),
        trace(momentum, nesterov) if momentum is not None else _identity(),
        scale_by_learning_rate(learning_rate),
    )


@described
def adam(
    learning_rate: Any,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """Steps along the mean of the gradient, divided by the root of the mean of its square (Kingma and Ba, 2015).

    Parameters
    ----------
    learning_rate : float, array or schedule
        A number, or a function of the count of steps.
    b1, b2 : float
        How slowly the means of the gradient and of its square forget.
    eps, eps_root : float
        Added beside and below the root.
    nesterov : bool
        Nesterov's momentum: NAdam (Dozat, 2016).

    Returns
    -------
    GradientTransformation
        A pair `(init, update)`: `state = init(params)` and `updates, state = update(grads, state, params)`.

    Raises
    ------
    TreeMismatchError
        When `update` is called with gradients of another structure than the parameters.

    Notes
    -----
    The step is -learning_rate * m / (sqrt(v + eps_root) + eps); both means are corrected for starting at zero. As
    `optax.adam`.

    Examples
    --------
    >>> import numpy as np
    >>> from funcad import optimize
    >>> optimizer = optimize.adam(0.1)
    >>> optimizer.update(np.array([5.0, -0.1]), optimizer.init(np.zeros(2)))[0].round(6)
    array([-0.1,  0.1])
    >>> optimizer = optimize.adam(0.1, b1=0.5, nesterov=True)
    >>> optimizer.update({"w": np.array([2.0])}, optimizer.init({"w": np.zeros(1)}))[0]["w"].round(6)
    array([-0.133333])

    See also
    --------
    adamw, sgd, apply_updates, chain
    """
    return chain(scale_by_adam(b1, b2, eps, eps_root, nesterov), scale_by_learning_rate(learning_rate))


@described
def adamw(
    learning_rate: Any,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    weight_decay: Any = 1e-4,
    mask: Any = None,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """`adam` with weight decay that is not divided by the root (Loshchilov and Hutter, 2019).

    Parameters
    ----------
    learning_rate, b1, b2, eps, eps_root, nesterov
        As for `adam`.
    weight_decay : float
        Times the parameters and the learning rate, subtracted from them at each step.
    mask : container of bools, or callable, optional
        Which leaves decay, or a function of the parameters that says so.

    Returns
    -------
    GradientTransformation
        As `adam`; `update` needs params.

    Raises
    ------
    ValueError
        When `update` is called without params.

    Notes
    -----
    The step is -learning_rate * (m / (sqrt(v) + eps) + weight_decay * params). As `optax.adamw`.

    Examples
    --------
    >>> import numpy as np
    >>> from funcad import optimize
    >>> optimizer = optimize.adamw(0.1, weight_decay=0.5)
    >>> p = np.array([2.0])
    >>> optimizer.update(np.array([1.0]), optimizer.init(p), p)[0].round(6)
    array([-0.2])
    >>> optimizer = optimize.adamw(0.1, weight_decay=0.5, mask={"w": True, "b": False})
    >>> p = {"w": np.array([2.0]), "b": np.array([2.0])}
    >>> {name: float(step[0].round(6)) for name, step in optimizer.update(p, optimizer.init(p), p)[0].items()}
    {'w': -0.2, 'b': -0.1}

    See also
    --------
    adam, add_decayed_weights
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, nesterov),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


@described
def rmsprop(
    learning_rate: Any,
    decay: Any = 0.9,
    eps: Any = 1e-8,
    initial_scale: Any = 0.0,
    eps_in_sqrt: bool = True,
    centered: bool = False,
    momentum: Any = None,
    nesterov: bool = False,
) -> GradientTransformation:
    """Steps along the gradient, divided by the root of the mean of its square (Tieleman and Hinton, 2012).

    Parameters
    ----------
    learning_rate : float, array or schedule
        A number, or a function of the count of steps.
    decay : float
        How slowly the mean forgets.
    eps : float
        Added below the root, or beside it with `eps_in_sqrt=False`.
    initial_scale : float
        What the mean starts from.
    eps_in_sqrt : bool
        Where eps is added.
    centered : bool
        Subtract the square of the mean of the gradient (Graves, 2013).
    momentum, nesterov
        As for `sgd`.

    Returns
    -------
    GradientTransformation
        A pair `(init, update)`: `state = init(params)` and `updates, state = update(grads, state, params)`.

    Raises
    ------
    TreeMismatchError
        When `update` is called with gradients of another structure than the parameters.

    Notes
    -----
    The step is -learning_rate * g / sqrt(v + eps), and then momentum. As `optax.rmsprop`.

    Examples
    --------
    >>> import numpy as np
    >>> from funcad import optimize
    >>> optimizer = optimize.rmsprop(0.1, decay=0.75)
    >>> optimizer.update(np.array([3.0]), optimizer.init(np.zeros(1)))[0].round(6)
    array([-0.2])
    >>> optimizer = optimize.rmsprop(0.1, decay=0.75, centered=True, momentum=0.9)
    >>> optimizer.update(np.array([3.0]), optimizer.init(np.zeros(1)))[0].round(6)
    array([-0.23094])

    See also
    --------
    adam, sgd, adagrad
    """
    return chain(
        scale_by_rms(decay, eps, initial_scale, centered, eps_in_sqrt),
        scale_by_learning_rate(learning_rate),
        trace(momentum, nesterov) if momentum is not None else _identity(),
    )


@described
def adagrad(learning_rate: Any, initial_accumulator_value: Any = 0.1, eps: Any = 1e-7) -> GradientTransformation:
    """-learning_rate * g / sqrt(s + eps), s being the sum of the squares of all gradients so far.

    Duchi, Hazan and Singer, 2011. As optax.adagrad.

    >>> import numpy as np
    >>> optimizer = adagrad(0.1, initial_accumulator_value=0.0)
    >>> optimizer.update(np.array([3.0]), optimizer.init(np.zeros(1)))[0].round(6)
    array([-0.1])
    """
    return chain(scale_by_rss(initial_accumulator_value, eps), scale_by_learning_rate(learning_rate))


# -- curves of what an optimisation wrote down


def plot_loss(record: Any, ax: Any = None, *, log: bool = True, label: str | None = None) -> Any:
    """Draw losses by step, on matplotlib's axes `ax` or new ones, which are returned.

    record: a sequence of numbers, one a step, as a loop collects or `scan` stacks them; an array (steps, runs); or a dict of
        such records by name, a curve each.
    ax: matplotlib's axes; None: those of a new figure.
    log: a logarithmic scale, where all numbers that are finite are positive.
    label: the name of the curve, where the record is no dict.

    Raises ImportError where matplotlib is not installed, ValueError for what is no record. optax has no such function.

    >>> import funcad
    >>> axes = funcad.optimize.plot_loss({"sgd": [3.0, 2.0, 1.5], "adam": [3.0, 1.0, 0.4]})  # doctest: +SKIP
    """
    curves = dict(record) if isinstance(record, Mapping) else {label: record}
    found = {}
    for name, values in curves.items():
        losses = np.asarray(values, float)
        if losses.ndim not in (1, 2) or not losses.size:
            raise ValueError(
                f"plot_loss: a record is a sequence of numbers, one a step, or an array (steps, runs); got shape {losses.shape}"
                f"{f' for {name!r}' if name is not None else ''}.\nRemedy: collect float(value) at each step."
            )
        found[name] = losses
    ax = axes_of(ax, "plot_loss")
    for name, losses in found.items():
        ax.plot(np.arange(len(losses)), losses, linewidth=0.9, label=name)
    finite = np.concatenate([losses[np.isfinite(losses)] for losses in found.values()])
    if log and finite.size and finite.min() > 0:
        ax.set_yscale("log")
    ax.set(xlabel="step", ylabel="loss")
    if any([name is not None for name in found]):
        ax.legend()
    return ax
