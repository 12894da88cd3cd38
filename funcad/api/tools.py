"""Small tools: make_jaxpr, eval_shape, named_scope, stop_gradient; and which rules a primitive has."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import ContextDecorator
from typing import Any

import numpy as np

from funcad import tree
from funcad.api.border import OutTree, Transformed, api, binds, check_leaves, flat_function, flat_values, name_of, runs
from funcad.host.real_types import KINDS, dtype_kind, is_a, native_dtype
from funcad.host.where import state
from funcad.ir.aval import Aval, aval_of
from funcad.ir.jaxpr import Jaxpr
from funcad.ir.primitive import Primitive
from funcad.ir.trace import trace_function
from funcad.ir.tracer import Tracer
from funcad.primitives.conversion import stop_gradient as stop_gradient_p
from funcad.unjitted.strides import Given


class ShapeDtypeStruct:
    """Shape and dtype of an array that need not exist.

    It stands for an array in `eval_shape`, `make_jaxpr`, `linear_transpose`, `jit(f).lower` and the results of
    callbacks.

    Parameters
    ----------
    shape : sequence of ints
        The shape; () for a number.
    dtype : dtype
        What `np.dtype` takes.
    weak_type : bool
        It stands for a Python number, which adapts to the dtype that it meets.

    Returns
    -------
    ShapeDtypeStruct
        A hashable value with `shape`, `dtype`, `ndim` and `size`.

    Raises
    ------
    TypeError
        funcad does not compute with such a dtype.

    Notes
    -----
    As `jax.ShapeDtypeStruct`, without sharding.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.ShapeDtypeStruct((2, 3), np.float32)
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    >>> number = funcad.ShapeDtypeStruct((), float, weak_type=True)
    >>> number.ndim, number.size
    (0, 1)

    See also
    --------
    eval_shape, pure_callback
    """

    __slots__ = ("aval",)

    def __init__(self, shape: Sequence[int], dtype: Any, weak_type: bool = False):
        dtype = native_dtype(dtype)
        if dtype_kind(dtype) not in KINDS:
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
    n = f.__code__.co_argcount if hasattr(f, "__code__") else 0
    n = max(len(args), n)
    for i in statics:
        if not -n <= i < n:
            raise ValueError(f"{what} of {name_of(f)}: static_argnums names {i}, but it has {n} positional ones.")
    fixed = {i % len(args) for i in statics if -len(args) <= i < len(args)}
    dynamic = tuple([a for i, a in enumerate(args) if i not in fixed])
    leaves, in_tree = flat_values((dynamic, kwargs))
    check_leaves(leaves, f"{what} of {name_of(f)}: argument", (dynamic, kwargs), given=True)

    def merged(*values: Any, **named: Any) -> Any:
        it = iter(values)
        return runs(f)(*[a if i in fixed else next(it) for i, a in enumerate(args)], **named)

    store = OutTree()
    name = f"{what}({name_of(f)})"
    flat, avals = flat_function(merged, in_tree, store, f"{what} of {name_of(f)}"), [aval_of(x) for x in leaves]
    jaxpr, consts = trace_function(flat, avals, name=name, given=Given(leaves))
    return jaxpr, consts, store.tree


@api
@binds
def make_jaxpr(
    f: Callable[..., Any], static_argnums: int | Sequence[int] = (), return_shape: bool = False
) -> Callable[..., Any]:
    """A function that returns the program to which f is traced, for reading.

    Parameters
    ----------
    f : callable
        A function of arrays, numbers and containers of them.
    static_argnums : int or sequence of ints
        Positions of arguments that are ordinary Python values.
    return_shape : bool
        Also return the shapes and dtypes of the output, as a container of `ShapeDtypeStruct` like it.

    Returns
    -------
    callable
        It takes the arguments of f, of which only shapes and dtypes matter (a `ShapeDtypeStruct` will do). The program
        has `.jaxpr`, `.consts`, `.in_avals`, `.out_avals` and `.eqns`; notebooks show it as HTML; `.graph()` is a
        picture of it.

    Raises
    ------
    TypeError
        When it is called with what is no array or number.
    TracerBoolConversionError
        When it is called, and f asks for a value: `if x > 0`.

    Notes
    -----
    Captured arrays are the first inputs of the program. The notation is JAX's: `f64[3]` is a float64 array of shape
    (3,). As `jax.make_jaxpr`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> print(funcad.make_jaxpr(np.sin)(np.ones(2)))
    { lambda a:f64[2] . let
        b:f64[2] = sin a
      in (b,) }
    >>> program, shape = funcad.make_jaxpr(lambda x, n: x[:n], static_argnums=1, return_shape=True)(np.ones(5), 2)
    >>> shape
    ShapeDtypeStruct(shape=(2,), dtype=float64)

    See also
    --------
    eval_shape, jit, named_scope
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
    """The shapes and dtypes of the output of f, without computing anything.

    Parameters
    ----------
    f : callable
        A function of arrays, numbers and containers of them.
    *args, **kwargs : array, number or ShapeDtypeStruct
        Its arguments, of which only shapes and dtypes matter.

    Returns
    -------
    ShapeDtypeStruct or container of them
        What f would return, with a `ShapeDtypeStruct` for each array.

    Raises
    ------
    ValueError, TypeError
        Shapes that do not fit raise what NumPy raises.
    TracerBoolConversionError
        f asks for a value: `if x > 0`.

    Notes
    -----
    Nothing of the arguments' size is made, so it is quick for arrays that would not fit the memory. As
    `jax.eval_shape`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.eval_shape(lambda x: x @ x.T, funcad.ShapeDtypeStruct((2, 3), float))
    ShapeDtypeStruct(shape=(2, 2), dtype=float64)
    >>> funcad.eval_shape(lambda x: {"mean": np.mean(x), "first": x[0]}, np.ones((4, 3), np.float32))["first"]
    ShapeDtypeStruct(shape=(3,), dtype=float32)

    See also
    --------
    ShapeDtypeStruct, make_jaxpr
    """
    jaxpr, _, out_tree = _traced(f, "eval_shape", (), args, kwargs)
    return out_tree.unflatten([_struct(a) for a in jaxpr.out_avals])


class named_scope(ContextDecorator):
    """A name for the operations that are recorded inside, in printed source locations.

    Parameters
    ----------
    name : str
        The name. Scopes inside each other are joined.

    Returns
    -------
    context manager and decorator

    Raises
    ------
    TypeError
        The name is no string.

    Notes
    -----
    It changes no result and costs nothing when a jitted program runs. As `jax.named_scope`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> def f(x):
    ...     with funcad.named_scope("encoder"):
    ...         return np.sin(x)
    >>> funcad.make_jaxpr(f)(1.0).eqns[0].source.scope
    ('encoder',)

    See also
    --------
    make_jaxpr
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
    """x, whose derivative is zero from here on.

    Parameters
    ----------
    x : array, number or container of them
        Leaves that are no arrays or numbers pass unchanged.

    Returns
    -------
    like x
        Equal values, with the same structure, shapes and dtypes.

    Notes
    -----
    Outside `jit` and `vmap` the result is no longer traced, so `float(stop_gradient(x))` works. Arrays are copied, so
    that writing into one does not change the other. As `jax.lax.stop_gradient`, and as `detach` of torch. It raises
    nothing.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> float(funcad.grad(lambda x: x * funcad.stop_gradient(x))(3.0))
    3.0
    >>> straight_through = lambda x: x + funcad.stop_gradient(np.round(x) - x)  # rounds, with slope 1
    >>> value, slope = funcad.value_and_grad(straight_through)(1.2)
    >>> float(value), float(slope)
    (1.0, 1.0)

    See also
    --------
    grad, custom_jvp, funcad.debug.doctor
    """
    return tree.map(_stopped, x)


def _stopped(x: Any) -> Any:
    if type(x) is np.ndarray:  # so that what is written into the one is not in the other, as it is where x is traced
        return x.copy(order="K")
    return stop_gradient_p(x) if type(x) is Tracer else x


def rules(primitive: Primitive) -> dict[str, bool]:
    """Which rules a primitive has: what of jvp, vjp, vmap and code generation will work before anything runs.

    Parameters
    ----------
    primitive : Primitive
        One that a program has: `equation.primitive`.

    Returns
    -------
    dict of bools
        By the names "jvp", "transpose", "batch", "emit" and "effect".

    Raises
    ------
    AttributeError
        It is no primitive.

    Notes
    -----
    Reverse mode needs a jvp, and a transpose of the primitives of which the jvp is made; the primitive's own
    `transpose` is there if it is linear. JAX has registries instead.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> equation = funcad.jit(np.sin).lower(1.0).jaxpr.equations[-1]
    >>> funcad.rules(equation.primitive)
    {'jvp': True, 'transpose': False, 'batch': True, 'emit': True, 'effect': False}

    See also
    --------
    make_jaxpr, custom_jvp
    """
    return {
        "jvp": any(r is not None for r in (primitive.jvp, primitive.primal_and_jvp, primitive.linearize)),
        "transpose": primitive.transpose is not None,
        "batch": primitive.batch is not None,
        "emit": primitive.emit is not None,
        "effect": primitive.effect,
    }
