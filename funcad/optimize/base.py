"""What an optimiser is: a pair of pure functions on pytrees, and how pairs are chained.

Invariant: a state is made of arrays only (counters too), so its structure, shapes and dtypes stay the same from step to step,
as `scan` and `while_loop` need it. Trap: a counter or a learning rate is float64 or int64 and strong; it is converted to a
leaf's dtype before it meets the leaf, or float32 parameters would become float64.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec
from weakref import WeakKeyDictionary

import numpy as np

import funcad.numpy as fnp
from funcad import tree
from funcad.ir.aval import aval_of
from funcad.primitives.conversion import conj, convert, real

__all__ = [
    "GradientTransformation",
    "EmptyState",
    "apply_updates",
    "chain",
    "described",
    "global_norm",
    "count_from",
    "next_count",
    "fitted",
    "zeros_like",
    "squared_size",
    "positive_sqrt",
    "where",
]

ZERO = np.int64(0)
P = ParamSpec("P")


class GradientTransformation(NamedTuple):
    """A pair `init(params) -> state`, `update(updates, state, params) -> (updates, state)`.

    What goes in are gradients, or what another transformation made of them; what comes out of the last one is added to the
    parameters by `apply_updates`. Any pair of functions with these signatures is one.

    >>> from funcad import optimize
    >>> halve = optimize.GradientTransformation(lambda params: (), lambda g, state, params=None: (0.5 * g, state))
    >>> optimize.chain(halve, optimize.sgd(1.0)).update(4.0, ((), (optimize.EmptyState(),) * 3))[0]
    -2.0
    """

    init: Callable[[Any], Any]
    update: Callable[..., tuple[Any, Any]]

    def __repr__(self) -> str:
        try:
            return _texts[self.update]
        except (KeyError, TypeError):  # made by hand
            return f"GradientTransformation(init={_text(self.init)}, update={_text(self.update)})"


_texts: WeakKeyDictionary[Callable[..., Any], str] = WeakKeyDictionary()  # by `update`: how the pair was made


def described(constructor: Callable[P, GradientTransformation]) -> Callable[P, GradientTransformation]:
    """Decorate what makes transformations: their text is the call that made them."""

    @functools.wraps(constructor)
    def make(*args: P.args, **kwargs: P.kwargs) -> GradientTransformation:
        made = constructor(*args, **kwargs)
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


def apply_updates(params: Any, updates: Any) -> Any:
    """params + updates, leaf by leaf, in the parameters' dtypes.

    >>> import numpy as np
    >>> apply_updates({"w": np.ones(2, np.float32)}, {"w": np.array([1.0, 2.0])})["w"]
    array([2., 3.], dtype=float32)
    """

    def added(p: Any, u: Any) -> Any:
        out = p + u
        dtype = aval_of(p).dtype
        return out if aval_of(out).dtype == dtype or dtype.kind not in "fc" else convert(out, dtype)

    return tree.map(added, params, updates)


@described
def chain(*transformations: Any) -> GradientTransformation:
    """One transformation after the other; the state is the tuple of theirs.

    Keyword arguments of `update` (as lbfgs takes them) are handed to each.

    >>> import numpy as np
    >>> from funcad import optimize
    >>> optimizer = optimize.chain(optimize.clip_by_global_norm(1.0), optimize.sgd(0.5))
    >>> g = np.array([3.0, 4.0])
    >>> optimizer.update(g, optimizer.init(g))[0]
    array([-0.3, -0.4])
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
