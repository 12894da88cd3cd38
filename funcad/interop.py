"""Functions made with funcad inside other libraries' graphs: one node whose derivative is funcad's own. And JAX's in funcad.

Nothing of the other library is imported before it is asked for. Values cross as NumPy arrays, on the CPU, and the function is
compiled by `jit`, once for each combination of shapes and dtypes. A derivative is a node of the same kind, made of the function
that computes the cotangents of all operands that ask for one, so that a second derivative is a node too. Between passes only
the operands are kept: the node of a derivative computes f once more.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad import tree
from funcad.api.border import name_of
from funcad.api.tools import ShapeDtypeStruct, eval_shape
from funcad.api.vjp import vjp
from funcad.host.real_types import dtype_kind, is_a
from funcad.jitted.jit import Jitted, jit
from funcad.memo import remembers

__all__ = ["from_jax", "to_jax", "to_pytensor", "to_torch"]


def __dir__() -> list[str]:
    return sorted(__all__)


def to_torch(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of PyTorch tensors that computes f with funcad and is differentiated by it, any number of times.

    Parameters
    ----------
    f : callable
        Takes arrays, by position, and returns one array or number. It is compiled by `funcad.jit`.

    Returns
    -------
    callable
        Takes tensors of the CPU, and Python's numbers, which count as constants; returns a new tensor. Only the derivatives of
        tensors with `requires_grad` are computed; `torch.autograd.grad(..., create_graph=True)` can be differentiated again.

    Raises
    ------
    ImportError
        PyTorch is not installed.
    TypeError
        An argument is no tensor of the CPU and no number, or f returns something else than one array.

    Notes
    -----
    `torch.func`'s transformations do not look into the function and raise; `torch.autograd` differentiates it. JAX has nothing
    of this kind.

    Examples
    --------
    >>> import numpy as np, torch, funcad.interop  # doctest: +SKIP
    >>> f = funcad.interop.to_torch(lambda x: np.sum(np.sin(x) ** 2))  # doctest: +SKIP
    >>> f(torch.ones(3, requires_grad=True)).backward()  # doctest: +SKIP

    See also
    --------
    to_pytensor, funcad.vjp
    """
    torch = importlib.import_module("torch")
    node = _torch_node(torch, _listed(f, "to_torch"))
    return functools.wraps(f)(lambda *operands: node(*operands)[0])


def to_pytensor(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of PyTensor variables, as PyMC's models are made of, that computes f with funcad and is differentiated by it.

    Parameters
    ----------
    f : callable
        Takes arrays, by position, and returns one array or number. It is compiled by `funcad.jit`.

    Returns
    -------
    callable
        Takes PyTensor's variables, arrays and numbers; returns a variable. `pytensor.grad` of it can be differentiated again.
        Where the shapes of the arguments are known, f is traced at once and the result's shape and dtype are its own.

    Raises
    ------
    ImportError
        PyTensor is not installed.
    TypeError
        A shape is not known while the graph is built, or f returns something else than one array.

    Notes
    -----
    The graph runs in PyTensor's Python and C modes and, by an object mode of which PyTensor warns, under Numba; not in its JAX
    mode. JAX has nothing of this kind.

    Examples
    --------
    >>> import numpy as np, pytensor, pytensor.tensor as pt, funcad.interop  # doctest: +SKIP
    >>> x = pt.vector("x", shape=(3,))  # doctest: +SKIP
    >>> y = funcad.interop.to_pytensor(lambda x: np.sum(np.sin(x) ** 2))(x)  # doctest: +SKIP
    >>> slope = pytensor.function([x], pytensor.grad(y, x))  # doctest: +SKIP

    See also
    --------
    to_torch, funcad.vjp
    """
    pytensor = importlib.import_module("pytensor")
    op = _pytensor_op(pytensor)(_listed(f, "to_pytensor"))
    return functools.wraps(f)(lambda *operands: op(*operands))


def to_jax(f: Callable[..., Any]) -> Callable[..., Any]:
    """f as a function of JAX's arrays, which `jax.jit` compiles with XLA and JAX differentiates by funcad's rules.

    Parameters
    ----------
    f : callable
        Takes arrays, numbers and containers of them, and returns such. NumPy code, with funcad's transformations in it.

    Returns
    -------
    callable
        Takes and returns JAX's arrays, in the same containers. `jax.jit`, `vmap`, `jvp`, `grad`, `checkpoint`, `shard_map` and
        `jax.export` take it, in any order, and so do the bodies of `jax.lax.scan`, `cond` and `while_loop`.

    Raises
    ------
    ImportError
        JAX is not installed.
    TypeError
        An argument is no array that NumPy knows: a new-style random key, or bfloat16.
    NotImplementedError
        The program holds what XLA cannot run: calls of Python, sizes that depend on values, some special functions. The
        message names the operation and the line.

    Notes
    -----
    f is traced once for each combination of shapes and dtypes, as by `funcad.jit`; in what `jax.jit` has compiled, captured
    arrays and numbers are as they were. No callback is left in it. XLA raises nothing: a computed index out of bounds reads
    NaN, a singular matrix gives NaN or infinity. Without `jax_enable_x64` all is computed with 32 bits, as in JAX.

    Examples
    --------
    >>> import jax, numpy as np, funcad.interop  # doctest: +SKIP
    >>> f = funcad.interop.to_jax(lambda x: np.sum(np.sin(x) ** 2))  # doctest: +SKIP
    >>> jax.jit(jax.grad(f))(jax.numpy.ones(3))  # doctest: +SKIP

    See also
    --------
    from_jax, to_torch, funcad.jit
    """
    jax = importlib.import_module("jax")
    xla = importlib.import_module("funcad.backends.export.xla_function")
    core = (f if isinstance(f, Jitted) else jit(f))._core

    @functools.wraps(f)
    def function(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten((args, kwargs))
        values = [_of_jax(jax, x) for x in leaves]
        examples = structure.unflatten([_example(jax, x) for x in values])
        entry = core.program("to_jax", *examples)
        refused = "writes into its arguments" if entry.written else "stores what it computed" if entry.stores else ""
        if refused:
            raise NotImplementedError(
                f"to_jax of {name_of(core.f)}: the function {refused}, one of JAX's gives results.\n"
                "Remedy: return the new value."
            )
        return entry.out_tree.unflatten(xla.call(entry.jaxpr, [*entry.consts, *values]))

    return function


def _of_jax(jax: Any, x: Any) -> Any:
    """An argument as JAX's array."""
    if not isinstance(x, (jax.Array, np.ndarray, np.generic, bool, int, float, complex)):
        raise TypeError(f"to_jax: an argument is a {type(x).__name__}, no array.\nRemedy: jax.numpy.asarray(x).")
    x = jax.numpy.asarray(x)
    if not isinstance(x.dtype, np.dtype) or dtype_kind(x.dtype) not in "biufc":
        raise TypeError(
            f"to_jax: an argument is an array of {x.dtype}, which NumPy does not know.\n"
            "Remedy: x.astype(jax.numpy.float32), or jax.random.key_data(key)."
        )
    return x


def _example(jax: Any, x: Any) -> Any:
    """What it is traced with: a Python number where JAX would follow the other operand's dtype."""
    if x.ndim == 0 and jax.typeof(x).weak_type:
        return {"b": True, "i": 1, "u": 1, "f": 1.0, "c": 1j}[x.dtype.kind]
    return ShapeDtypeStruct(x.shape, x.dtype)


def from_jax(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of JAX's as an operation of funcad, with all derivatives, for NumPy's arrays.

    Parameters
    ----------
    f : callable
        Takes JAX's arrays and containers of them, and returns such. It must be one that `jax.jit` takes.

    Returns
    -------
    callable
        Takes and returns NumPy's arrays, in the same containers. `funcad.grad`, `jvp`, `vmap`, `jit` and all that is made of
        them take it, nested, too; JAX differentiates and vectorizes it. `to_jax` gives f itself again.

    Raises
    ------
    ImportError
        JAX is not installed.

    Notes
    -----
    Each derivative is a function that JAX compiles once for each combination of shapes; it computes f once more. Values cross
    as NumPy arrays. Without `jax_enable_x64` JAX computes with 32 bits, and so are the results.

    Examples
    --------
    >>> import jax, numpy as np, funcad  # doctest: +SKIP
    >>> f = funcad.interop.from_jax(lambda x: jax.numpy.sum(jax.numpy.tanh(x)))  # doctest: +SKIP
    >>> funcad.hessian(lambda x: f(np.sin(x)))(np.ones(3))  # doctest: +SKIP

    See also
    --------
    to_jax, funcad.pure_callback
    """
    jax = importlib.import_module("jax")
    nodes = importlib.import_module("funcad.custom.jax_nodes")
    made = remembers(same=None)(lambda structure: nodes.JaxNode(jax, _flat(f, structure)))

    @functools.wraps(f)
    def function(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten((args, kwargs))
        node = made(structure)
        outs = nodes.jax_call_p(*leaves, node=node)
        return node.out_tree.unflatten(outs)

    return function


def _flat(f: Callable[..., Any], structure: Any) -> Callable[..., tuple[list[Any], Any]]:
    def flat(*leaves: Any) -> tuple[list[Any], Any]:
        args, kwargs = structure.unflatten(leaves)
        return tree.flatten(f(*args, **kwargs))  # type: ignore[return-value]

    return flat


def _listed(f: Callable[..., Any], maker: str) -> Callable[..., list[Any]]:
    """f, compiled, with its one array in a list: the node of a derivative has several results."""

    def listed(*operands: Any) -> list[Any]:
        out = f(*operands)
        leaves, _ = tree.flatten(out)
        if len(leaves) != 1 or leaves[0] is not out:
            raise TypeError(
                f"{maker}: the function returned a {type(out).__name__}, and a node has one array.\n"
                "Remedy: make one function for each result, or return np.concatenate([...]) and split it outside."
            )
        return leaves

    return jit(listed)


def _cotangents(f: Callable[..., list[Any]], places: tuple[int, ...], count: int) -> Callable[..., list[Any]]:
    """`pulled(*cotangents, *operands)`: the cotangents of the operands at `places` of f, which has `count` results."""

    def pulled(*values: Any) -> list[Any]:
        cotangents, operands = list(values[:count]), list(values[count:])

        def of_some(*some: Any) -> list[Any]:
            given = dict(zip(places, some))
            return f(*[given.get(i, x) for i, x in enumerate(operands)])

        return list(vjp(of_some, *[operands[i] for i in places])[1](cotangents))

    return jit(pulled)


def _torch_node(torch: Any, f: Callable[..., list[Any]]) -> Callable[..., Any]:
    once = remembers(same=None)
    derivative = once(lambda *signature: _torch_node(torch, _cotangents(f, *signature)))

    class FuncadFunction(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(context: Any, *operands: Any) -> Any:
            context.save_for_backward(*[x if isinstance(x, torch.Tensor) else None for x in operands])
            context.numbers = [None if isinstance(x, torch.Tensor) else x for x in operands]
            # copies: a function may return its operand, or a view of it, and to torch the memory is the result's own
            results = [torch.from_numpy(np.array(x, order="C")) for x in f(*[_of_torch(torch, x) for x in operands])]
            context.mark_non_differentiable(*[x for x in results if not (x.is_floating_point() or x.is_complex())])
            return tuple(results)

        @staticmethod
        def backward(context: Any, *cotangents: Any) -> Any:
            operands = [number if x is None else x for x, number in zip(context.saved_tensors, context.numbers)]
            places = tuple(i for i, wanted in enumerate(context.needs_input_grad) if wanted)
            # torch's gradient of a complex tensor is the conjugate of funcad's, which is JAX's
            found = derivative(places, len(cotangents))(*[x.conj() for x in cotangents], *operands)
            given = dict(zip(places, found))
            return tuple(given[i].conj() if i in given else None for i in range(len(operands)))

    return FuncadFunction.apply  # type: ignore[no-any-return]


def _of_torch(torch: Any, x: Any) -> Any:
    """A tensor's memory, as an array that cannot be written: torch would not know of it."""
    if is_a(x, (bool, int, float, complex)):
        return x
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"to_torch: an argument is a {type(x).__name__}, no tensor.\nRemedy: torch.as_tensor(x).")
    if x.device.type != "cpu" or x.layout is not torch.strided:
        raise TypeError(
            f"to_torch: an argument is a tensor on {x.device} of layout {x.layout}; the node takes dense ones of the CPU.\n"
            "Remedy: x.cpu() or x.to_dense(), which torch differentiates too."
        )
    return _read_only(x.detach().resolve_conj().resolve_neg().numpy())


def _read_only(x: np.ndarray) -> np.ndarray:
    x = x.view()
    x.flags.writeable = False
    return x


@remembers(same=None)
def _pytensor_op(pytensor: Any) -> Any:
    as_tensor, disconnected = pytensor.tensor.as_tensor_variable, pytensor.gradient.DisconnectedType

    class FuncadOp(pytensor.graph.op.Op):  # type: ignore[misc]
        __props__ = ("function",)

        def __init__(self, function: Any) -> None:
            self.function = function
            once = remembers(same=None)
            self.derivative = once(lambda *signature: FuncadOp(_cotangents(function, *signature)))

        def make_node(self, *operands: Any) -> Any:
            operands = tuple(map(as_tensor, operands))
            for i, x in enumerate(operands):
                if None in x.type.shape:
                    raise TypeError(
                        f"to_pytensor: the shape of argument {i}, {x}, is {x.type.shape} while the graph is built, so that of "
                        "the result cannot be found.\nRemedy: pytensor.tensor.specify_shape(x, shape), or give the variable "
                        "its shape when it is made."
                    )
            found = eval_shape(self.function, *[ShapeDtypeStruct(x.type.shape, x.type.dtype) for x in operands])
            outputs = [pytensor.tensor.tensor(dtype=str(x.dtype), shape=x.shape) for x in found]
            return pytensor.graph.basic.Apply(self, list(operands), outputs)

        def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
            for cell, out, variable in zip(outputs, self.function(*map(_read_only, inputs)), node.outputs):
                cell[0] = np.array(out, dtype=variable.type.dtype)  # the graph's own memory: f may return its operand

        def connection_pattern(self, node: Any) -> list[list[bool]]:
            carries = [x.type.dtype in pytensor.tensor.type.continuous_dtypes for x in [*node.inputs, *node.outputs]]
            count = len(node.inputs)
            return [[x and y for y in carries[count:]] for x in carries[:count]]

        def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
            connected = self.connection_pattern(outputs[0].owner)
            places = tuple(i for i, row in enumerate(connected) if any(row))
            given = [y.zeros_like() if isinstance(g.type, disconnected) else g for g, y in zip(cotangents, outputs)]
            found = self.derivative(places, len(given))(*given, *inputs, return_list=True) if places else []
            slopes = dict(zip(places, found))
            return [slopes[i] if i in slopes else disconnected()() for i in range(len(inputs))]

        L_op = pullback  # its name before PyTensor 3

    return FuncadOp
