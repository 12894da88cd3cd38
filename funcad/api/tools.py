"""Small tools: make_jaxpr, eval_shape, named_scope, stop_gradient; and which rules a primitive has."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import ContextDecorator
from typing import Any

import numpy as np

from funcad import tree
from funcad.api.border import OutTree, Transformed, api, binds, check_leaves, flat_function, flat_values, name_of, runs
from funcad.host.real_types import is_a, native_dtype
from funcad.host.where import state
from funcad.ir.aval import KINDS, Aval, aval_of
from funcad.ir.jaxpr import Jaxpr
from funcad.ir.primitive import Primitive
from funcad.ir.trace import trace_function
from funcad.ir.tracer import Tracer
from funcad.primitives.conversion import stop_gradient as stop_gradient_p
from funcad.unjitted.strides import Given


class ShapeDtypeStruct:
    """Shape and dtype of an array that need not exist: for `eval_shape`, `make_jaxpr`, `jit(f).lower`, callbacks.

    `shape` is a tuple of ints, `dtype` what `np.dtype` takes; with `weak_type` it stands for a Python number, which adapts
    to what it meets. A value that tells `shape`, `dtype`, `ndim` and `size`; TypeError for a dtype that funcad does not
    compute with. As JAX's, without sharding.

    >>> import numpy as np, funcad
    >>> funcad.ShapeDtypeStruct((2, 3), np.float32)
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    __slots__ = ("aval",)

    def __init__(self, shape: Sequence[int], dtype: Any, weak_type: bool = False):
        dtype = native_dtype(dtype)
        if dtype.kind not in KINDS:
            raise TypeError(f"funcad computes with bool, int, float and complex arrays; got dtype {dtype}")
        if hasattr(shape, "__index__"):
            raise TypeError(f"ShapeDtypeStruct: shape must be a tuple, got {shape!r}; write ({shape!r},)")
        self.aval = Aval(tuple([n.__index__() for n in shape]), dtype, bool(weak_type))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype:
        return self.aval.dtype

    @property
    def weak_type(self) -> bool:
        return self.aval.weak

    @property
    def ndim(self) -> int:
        return self.aval.ndim

    @property
    def size(self) -> int:
        return self.aval.size

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self.aval == other.aval

    def __hash__(self) -> int:
        return hash(self.aval)

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype}{weak})"


def _struct(aval: Any) -> ShapeDtypeStruct:
    return ShapeDtypeStruct(aval.shape, aval.dtype, aval.weak)


class ClosedJaxpr:
    """A program and the values that it captured: `.jaxpr` takes (consts, inputs). Printing shows the program."""

    __slots__ = ("jaxpr", "consts")

    def __init__(self, jaxpr: Jaxpr, consts: list[Any]):
        self.jaxpr = jaxpr
        self.consts = consts

    @property
    def in_avals(self) -> list[Any]:
        """Avals of the arguments, without the captured values."""
        return self.jaxpr.in_avals[len(self.consts) :]

    @property
    def out_avals(self) -> list[Any]:
        return self.jaxpr.out_avals

    @property
    def eqns(self) -> tuple:
        """The equations, under JAX's name."""
        return self.jaxpr.equations

    equations = eqns

    def __str__(self) -> str:
        return str(self.jaxpr)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.jaxpr._repr_html_()

    def graph(self) -> Any:
        """The program as a picture, see `Jaxpr.graph`."""
        return self.jaxpr.graph()


def _traced(f: Callable[..., Any], what: str, statics: Sequence[int], args: tuple, kwargs: dict) -> tuple[Jaxpr, list, Any]:
    fixed = {i % len(args) for i in statics if -len(args) <= i < len(args)}
    dynamic = tuple([a for i, a in enumerate(args) if i not in fixed])
    leaves, in_tree = flat_values((dynamic, kwargs))
    check_leaves(leaves, f"{what} of {name_of(f)}: argument", (dynamic, kwargs))

    def merged(*values: Any, **named: Any) -> Any:
        it = iter(values)
        return runs(f)(*[a if i in fixed else next(it) for i, a in enumerate(args)], **named)

    store = OutTree()
    name = f"{what}({name_of(f)})"
    flat, avals = flat_function(merged, in_tree, store), [aval_of(x) for x in leaves]
    jaxpr, consts = trace_function(flat, avals, name=name, given=Given(leaves))
    return jaxpr, consts, store.tree


@api
@binds
def make_jaxpr(
    f: Callable[..., Any], static_argnums: int | Sequence[int] = (), return_shape: bool = False
) -> Callable[..., Any]:
    """A function of f's arguments that returns the program to which f is traced, for reading.

    Only the shapes and dtypes of the arguments matter (ShapeDtypeStructs will do). The result has `.jaxpr`, `.consts`,
    `.in_avals`, `.out_avals`, `.eqns`; captured arrays are the program's leading inputs. Notebooks show it as HTML that folds
    and tells shapes and source lines; `.graph()` is a picture of it. With `return_shape`, also a pytree of ShapeDtypeStructs
    like f's output. As JAX's.
    `static_argnums` are positions of arguments that are plain Python values. Raises what tracing raises: TypeError for what
    is no array, TracerBoolConversionError for `if` on values.

    >>> import numpy as np, funcad
    >>> print(funcad.make_jaxpr(np.sin)(np.ones(2)))
    { lambda a:f64[2] . let
        b:f64[2] = sin a
      in (b,) }
    """
    statics = (static_argnums,) if is_a(static_argnums, int) else tuple(static_argnums)

    @api
    def maker(*args: Any, **kwargs: Any) -> Any:
        jaxpr, consts, out_tree = _traced(f, "make_jaxpr", statics, args, kwargs)
        closed = ClosedJaxpr(jaxpr, consts)
        return (closed, out_tree.unflatten([_struct(a) for a in jaxpr.out_avals])) if return_shape else closed

    return Transformed(maker, f, functools.partial(make_jaxpr, static_argnums=static_argnums, return_shape=return_shape))


@api
def eval_shape(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The shapes and dtypes of f's output, as a pytree of ShapeDtypeStructs, without computing anything. As JAX's.

    Returns what f would return, with a ShapeDtypeStruct for each array; raises what tracing f raises, shape errors as
    NumPy.

    >>> import numpy as np, funcad
    >>> funcad.eval_shape(lambda x: x @ x.T, funcad.ShapeDtypeStruct((2, 3), float))
    ShapeDtypeStruct(shape=(2, 2), dtype=float64)
    """
    jaxpr, _, out_tree = _traced(f, "eval_shape", (), args, kwargs)
    return out_tree.unflatten([_struct(a) for a in jaxpr.out_avals])


class named_scope(ContextDecorator):
    """A name that operations recorded inside carry in printed source locations; a context manager and a decorator.

    TypeError if `name` is no string. As jax.named_scope.

    >>> import numpy as np, funcad
    >>> def f(x):
    ...     with funcad.named_scope("encoder"):
    ...         return np.sin(x)
    >>> funcad.make_jaxpr(f)(1.0).eqns[0].source.scope
    ('encoder',)
    """

    def __init__(self, name: str):
        if not isinstance(name, str):
            raise TypeError(f"named_scope takes a string, got {type(name).__name__}")
        self.name = name
        self.saved: list[tuple] = []

    def _recreate_cm(self) -> named_scope:
        return named_scope(self.name)

    def __enter__(self) -> named_scope:
        self.saved.append(state.scope)
        state.scope = (*state.scope, self.name)
        return self

    def __exit__(self, *exc: Any) -> None:
        state.scope = self.saved.pop()


@api
def stop_gradient(x: Any) -> Any:
    """x, whose derivative is zero from here on; x may be a pytree, whose other leaves pass unchanged.

    Outside jit and vmap the result is no longer traced, so `float(stop_gradient(x))` works. Arrays are copies, so what is
    written into the one is not in the other. As jax.lax.stop_gradient.
    Raises nothing; leaves that are no arrays are allowed, as in JAX.

    >>> import numpy as np, funcad
    >>> float(funcad.grad(lambda x: x * funcad.stop_gradient(x))(3.0))
    3.0
    """
    return tree.map(_stopped, x)


def _stopped(x: Any) -> Any:
    if type(x) is np.ndarray:  # so that what is written into the one is not in the other, as it is where x is traced
        return x.copy(order="K")
    return stop_gradient_p(x) if type(x) is Tracer else x


def rules(primitive: Primitive) -> dict[str, bool]:
    """Which rules a primitive has: what of jvp, vjp, vmap and code generation will work before anything runs.

    Takes a primitive, as found in `jaxpr.equations[i].primitive`. Reverse mode needs a jvp, and a transpose of the primitives
    that the jvp is made of; the primitive's own `transpose` is there if it is linear.
    Returns a dict of bools; AttributeError for what is no primitive. JAX has registries instead.

    >>> import numpy as np, funcad
    >>> equation = funcad.jit(np.sin).lower(1.0).jaxpr.equations[-1]
    >>> funcad.rules(equation.primitive)
    {'jvp': True, 'transpose': False, 'batch': True, 'emit': True, 'effect': False}
    """
    return {
        "jvp": any(r is not None for r in (primitive.jvp, primitive.primal_and_jvp, primitive.linearize)),
        "transpose": primitive.transpose is not None,
        "batch": primitive.batch is not None,
        "emit": primitive.emit is not None,
        "effect": primitive.effect,
    }
