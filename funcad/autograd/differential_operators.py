"""autograd's differential operators: `operator(fun, argnum=0)(*args, **kwargs)`.

`argnum` is the position of the argument, or a tuple or list of positions, for which the result is a tuple. Derivatives have
their argument's structure, shapes and dtypes; those of complex arguments follow the one convention that autograd, JAX and
funcad share (df/dx - i df/dy). Integers raise, as autograd's do; arrays of integers are differentiated as arrays of floats.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad.api.border import Transformed, check_leaves, flat_values, name_of, runs, zeros_for
from funcad.api.grad import Gradient
from funcad.api.grad import value_and_grad as _value_and_grad
from funcad.configuration import OnDemand
from funcad.errors import NonDifferentiableInputError, NonScalarOutputError
from funcad.host.conversions import begins_plainly
from funcad.host.real_types import is_a
from funcad.host.where import for_user, interrupted
from funcad.ir.aval import aval_of, said
from funcad.ir.trace import plain_values
from funcad.ir.tracer import Tracer
from funcad.primitives.shape import reshape

pullbacks = OnDemand("funcad.api.vjp")
tree = OnDemand("funcad.tree")

__all__ = [
    "grad", "elementwise_grad", "deriv", "jacobian", "hessian", "holomorphic_grad", "grad_named", "make_vjp", "make_jvp",
    "make_hvp", "make_jvp_reversemode", "make_ggnvp", "hessian_tensor_product", "hessian_vector_product",
    "tensor_jacobian_product", "vector_jacobian_product", "value_and_grad", "grad_and_aux", "multigrad_dict", "checkpoint",
]  # fmt: skip

Function = Callable[..., Any]


class _OfOneElement(Gradient):
    """The gradient of a function whose output has one element and any shape; the value is the output as it is."""

    def __init__(self, fun: Function, argnum: int, with_value: bool):
        super().__init__(fun, argnum, None, False, False, False, with_value)
        self.compiled = None  # where jitted functions go, which have one number alone

    def _number(self, out: Any) -> Any:
        return super()._number(_scalar(out, name_of(self.f)))


class _OfAllElements(Gradient):
    """The gradient of the sum of all elements of a function's output, which must be real; zero where there are none."""

    def __init__(self, fun: Function, argnum: int):
        super().__init__(fun, argnum, None, False, False, False, False)
        self.compiled = None

    def _number(self, out: Any) -> Any:
        leaves = plain_values([out]) if type(out) is Tracer else flat_values(out)[0]
        check_leaves(leaves, f"elementwise_grad: output of {name_of(self.f)}")
        if any([aval_of(leaf).dtype.kind == "c" for leaf in leaves]):
            raise NonDifferentiableInputError(
                f"elementwise_grad is for functions with real output, {name_of(self.f)} returned complex numbers.\n"
                "Remedy: take np.real or np.imag of the output, or use funcad.jacrev(holomorphic=True)."
            )
        return leaves[0] if len(leaves) == 1 else sum(map(fnp.sum, leaves), 0.0)  # each element's cotangent is 1

    def _warn_if_independent(self, *_: Any) -> None:
        """Elements that depend on nothing are no surprise."""


def on_argument(
    operator: Function, fun: Function, argnum: Any, public: Function, quick: Gradient | None = None, **options: Any
) -> Function:
    """`operator(unary, x)` of fun as a function of the chosen argument, or of the tuple of the chosen ones.

    Arrays of integers or bools in it are taken as floats, as autograd does. `public(fun, **options)` makes the result again
    when it is pickled; the options are argnum if none are given. `quick` is the same for one float or array of floats.
    """
    if not callable(fun):
        raise TypeError(f"the first argument must be a function, got {type(fun).__name__}: write grad(f)(x), not grad(f(x))")
    if not is_a(argnum, (int, tuple, list)):
        raise TypeError(f"argnum must be an int, or a tuple or list of ints, got {argnum!r}; names are for grad_named")

    def quickly(*args: Any, **kwargs: Any) -> Any:
        if argnum < len(args):
            x = args[argnum]
            kind = type(x)
            if kind is float or kind is np.float64 or kind is np.ndarray and x.dtype.kind == "f":
                return quick(*args, **kwargs)  # type: ignore[misc]
            if kind is Tracer and x.dtype.kind == "f" and _boxes() is None:
                return quick(*args, **kwargs)  # type: ignore[misc]
        return at(operator, fun, argnum, *args, **kwargs)

    nary = functools.partial(at, operator, fun, argnum) if quick is None else quickly
    return Transformed(nary, fun, functools.partial(public, **(options or {"argnum": argnum})))


def at(operator: Function, fun: Function, argnum: Any, /, *args: Any, **kwargs: Any) -> Any:
    """`operator(f, x)` of fun as a function f of the chosen argument; all others are these."""
    boxes = _boxes()
    single = is_a(argnum, int)
    chosen = (argnum,) if single else argnum
    try:
        given = [args[i] for i in chosen]
    except IndexError:
        known = f"argnum={argnum!r}, but {name_of(fun)} was called with {len(args)} positional argument(s)"
        raise TypeError(known) from None

    def unary(x: Any) -> Any:
        full = list(args)
        for i, value in zip(chosen, (x,) if single else x):
            full[i] = value if boxes is None else boxes.boxed(value)
        out = runs(fun)(*full, **kwargs)
        return out if boxes is None else boxes.unboxed(out)

    unary.__name__ = unary.__qualname__ = name_of(fun)
    alone = single and len(args) == 1 and not kwargs and boxes is None
    if alone and type(fun) is FunctionType and begins_plainly(fun):  # such as this function's own
        unary = fun
    try:
        x = given[0] if single else tuple(given)
        if not _are_floats(x):
            if spaces := sys.modules.get("funcad.autograd.vspaces"):
                spaces.check_held(x)
            x = tree.map(_as_floats, x)
        return operator(unary, x)
    except Exception as error:
        raise for_user(error)  # noqa: B904 the same error
    except BaseException as stop:
        raise interrupted(stop)  # noqa: B904 the same error


def _boxes() -> Any:
    """user_boxes.py, if somebody has boxes of classes of their own."""
    boxes = sys.modules.get("funcad.autograd.user_boxes")
    return boxes if boxes is not None and len(boxes.Box.types) > 1 else None


def _as_floats(leaf: Any) -> Any:
    return leaf.astype(float) if is_a(leaf, np.ndarray) and leaf.ndim and leaf.dtype.kind in "iub" else leaf


def _are_floats(x: Any) -> bool:
    """Is it a float or complex array, or a tuple or list of such ones, at a glance?"""
    kind = type(x)
    if kind is np.ndarray or kind is Tracer:
        return x.dtype.kind in "fc"
    return kind is float or (kind is tuple or kind is list) and all(map(_are_floats, x))


def _named(f: Function, like: Function) -> Function:
    """f under the name of another function, for messages; unlike functools.wraps it keeps its own signature."""
    f.__name__ = f.__qualname__ = name_of(like)
    return f


def _scalar(out: Any, name: str) -> Any:
    """An output with one element, which autograd lets have any shape, with shape ()."""
    aval = aval_of(out)
    if aval.size != 1 or aval.dtype.kind == "c":
        raise NonScalarOutputError(
            f"grad needs a function whose output is one real number, but {name} returned {aval:a}.\n"
            "Remedy: return a sum, or use jacobian, elementwise_grad or holomorphic_grad."
        )
    return reshape(out, shape=()) if aval.shape else out


def _with_grad(unary: Function, x: Any) -> tuple[Any, Any]:
    """The output as it is, and the gradient."""

    def scalar(x: Any) -> tuple[Any, Any]:
        out = runs(unary)(x)
        return _scalar(out, name_of(unary)), out

    (_, out), gradient = _value_and_grad(_named(scalar, unary), has_aux=True)(x)
    return out, gradient


def _is_position(fun: Function, argnum: Any) -> bool:
    return callable(fun) and type(argnum) is int and argnum >= 0


def _quick(fun: Function, argnum: Any, with_value: bool) -> Gradient | None:
    return _OfOneElement(fun, argnum, with_value) if _is_position(fun, argnum) else None


def grad(fun: Function, argnum: Any = 0) -> Function:
    """The gradient of a function whose output is one real number, which may have any shape of one element.

    >>> from funcad.autograd import grad
    >>> float(grad(lambda x, y: x * y, argnum=1)(2.0, 3.0))
    2.0
    """
    return on_argument(lambda f, x: _with_grad(f, x)[1], fun, argnum, grad, _quick(fun, argnum, False))


def value_and_grad(fun: Function, argnum: Any = 0) -> Function:
    """A function that returns the pair of value and gradient.

    >>> from funcad.autograd import value_and_grad
    >>> [float(v) for v in value_and_grad(lambda x: x**2)(3.0)]
    [9.0, 6.0]
    """
    return on_argument(_with_grad, fun, argnum, value_and_grad, _quick(fun, argnum, True))


def grad_and_aux(fun: Function, argnum: Any = 0) -> Function:
    """The gradient of the first output of a function with two outputs, and the second output as it is.

    `fun` is a function; `argnum` is the position of an argument (default 0), or a tuple of positions, which gives a tuple.
    Returns the pair; NonScalarOutputError where the first output is no number. autograd's.

    >>> from funcad.autograd import grad_and_aux
    >>> grad_and_aux(lambda x: (x**2, "aux"))(3.0)
    (np.float64(6.0), 'aux')
    """

    def operator(f: Function, x: Any) -> tuple[Any, Any]:
        box = []

        def scalar(x: Any) -> tuple[Any, Any]:
            out, aux = f(x)
            leaves, structure = tree.flatten(aux)
            box[:] = [structure, [leaf if _is_static(leaf) else None for leaf in leaves]]
            return _scalar(out, name_of(f)), [leaf for leaf in leaves if not _is_static(leaf)]

        (_, arrays), gradient = _value_and_grad(_named(scalar, f), has_aux=True)(x)
        found = iter(arrays)
        return gradient, box[0].unflatten([next(found) if leaf is None else leaf for leaf in box[1]])

    return on_argument(operator, fun, argnum, grad_and_aux)


def _is_static(leaf: Any) -> bool:
    return not (hasattr(leaf, "dtype") or is_a(leaf, (int, float, complex)))


def elementwise_grad(fun: Function, argnum: Any = 0) -> Function:
    """The sum over each column of the Jacobian: for a function that acts on each element, its derivative at each.

    `fun` is a function; `argnum` is the position of an argument (default 0), or a tuple of positions, which gives a tuple.
    Returns a function of fun's arguments, which raises as `funcad.vjp`. autograd's.

    >>> import numpy as np
    >>> from funcad.autograd import elementwise_grad
    >>> elementwise_grad(np.tanh)(np.zeros(3))
    array([1., 1., 1.])
    """

    def operator(f: Function, x: Any) -> Any:
        _check_floats(f, x, "elementwise_grad")
        return _OfAllElements(f, 0)(x)

    quick = _OfAllElements(fun, argnum) if _is_position(fun, argnum) else None
    return on_argument(operator, fun, argnum, elementwise_grad, quick)


def deriv(fun: Function, argnum: Any = 0) -> Function:
    """The derivative along ones, by forward mode: for a function of one number, its derivative.

    `fun` is a function; `argnum` is the position of an argument (default 0), or a tuple of positions, which gives a tuple.
    Returns a function of fun's arguments, which raises as `funcad.jvp`. autograd's.

    >>> import numpy as np
    >>> from funcad.autograd import deriv
    >>> float(deriv(np.sin)(0.0))
    1.0
    """

    def operator(f: Function, x: Any) -> Any:
        _check_floats(f, x, "deriv")
        return pullbacks.pushed(f, (x,), (tree.map(np.ones_like, x),))[1]

    return on_argument(operator, fun, argnum, deriv)


def _check_floats(f: Function, x: Any, what: str) -> None:
    """An error for integers that are no arrays: autograd's arguments are floats."""
    for leaf in () if _are_floats(x) else tree.leaves(x):
        if aval_of(leaf).dtype.kind not in "fc":
            raise NonDifferentiableInputError(
                f"{what} of {name_of(f)}: the argument is {said(leaf)}, and integers and bools have no derivative.\n"
                "Remedy: convert it with float(x) or x.astype(float)."
            )


def jacobian(fun: Function, argnum: Any = 0) -> Function:
    """The Jacobian, of shape `output shape + argument shape`, by reverse mode; of a tuple of arguments a tuple.

    Real numbers only; `funcad.jacrev(holomorphic=True)` is for complex ones.

    >>> import numpy as np
    >>> from funcad.autograd import jacobian
    >>> jacobian(lambda x: x**2)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    return on_argument(lambda f, x: importlib.import_module("funcad.api.jacobian").jacrev(f)(x), fun, argnum, jacobian)


def hessian(fun: Function, argnum: Any = 0) -> Function:
    """The Jacobian of the Jacobian: shape `output shape + argument shape + argument shape`.

    >>> from funcad.autograd import hessian
    >>> float(hessian(lambda x: x**3)(2.0))
    12.0
    """
    return on_argument(lambda f, x: jacobian(jacobian(f))(x), fun, argnum, hessian)


def holomorphic_grad(fun: Function, argnum: Any = 0) -> Function:
    """The derivative of a complex-differentiable function of a complex number.

    `fun` is a function; `argnum` is the position of an argument (default 0), or a tuple of positions, which gives a tuple.
    Returns a complex number; TypeError as `grad`. Whether fun is complex-differentiable is not checked. autograd's.

    >>> from funcad.autograd import holomorphic_grad
    >>> holomorphic_grad(lambda z: z**2)(1.0 + 2.0j)
    np.complex128(2+4j)
    """

    def operator(f: Function, x: Any) -> Any:
        if not all(aval_of(leaf).dtype.kind == "c" for leaf in tree.leaves(x)):
            warnings.warn("Input to holomorphic_grad is not complex", stacklevel=3)
        return _with_grad(_named(lambda x: fnp.real(f(x)), f), x)[1]

    return on_argument(operator, fun, argnum, holomorphic_grad)


def grad_named(fun: Function, argname: str) -> Function:
    """The gradient with respect to the (positional) argument of that name.

    `fun` is a function, `argname` a name among its parameters, else ValueError. Returns a function of fun's arguments.
    autograd's.

    >>> from funcad.autograd import grad_named
    >>> float(grad_named(lambda x, y: x * y, "y")(2.0, 3.0))
    2.0
    """
    return grad(fun, list(inspect.signature(fun).parameters).index(argname))


def make_vjp(fun: Function, argnum: Any = 0) -> Function:
    """A function that returns the pair (vjp, value): `vjp(g)` is g times the Jacobian.

    Mind the order: `funcad.vjp` returns (value, vjp), and its vjp gives a tuple.
    `fun` is a function; `argnum` is the position of an argument (default 0), or a tuple of positions, which gives a tuple.
    Raises TangentMismatchError as `funcad.vjp`. autograd's.

    >>> import numpy as np
    >>> from funcad.autograd import make_vjp
    >>> pullback, value = make_vjp(np.square)(3.0)
    >>> float(pullback(1.0))
    6.0
    """

    return on_argument(with_pullback, fun, argnum, make_vjp)


def with_pullback(f: Function, x: Any) -> tuple[Function, Any]:
    """What `make_vjp` of a function of one argument gives at x."""
    _check_floats(f, x, "make_vjp")
    found = pullbacks.linearized(f, (x,), False, "vjp", True)
    out, pullback = found.out, pullbacks.pullback_of(f, found)
    return lambda g: pullback(fitting(g, out))[0], out


def make_jvp(fun: Function, argnum: Any = 0) -> Function:
    """A function that returns jvp: `jvp(v)` is the pair (value, Jacobian times v).

    `fun` is a function; `argnum` is the position of an argument (default 0), or a tuple of positions, which gives a tuple.
    Raises TangentMismatchError as `funcad.jvp`. autograd's.

    >>> import numpy as np
    >>> from funcad.autograd import make_jvp
    >>> [float(v) for v in make_jvp(np.square)(3.0)(1.0)]
    [9.0, 6.0]
    """
    return on_argument(with_push, fun, argnum, make_jvp)


def with_push(f: Function, x: Any) -> Function:
    """What `make_jvp` of a function of one argument gives at x."""
    _check_floats(f, x, "make_jvp")

    def push(v: Any) -> Any:
        try:
            return pullbacks.pushed(f, (x,), (fitting(v, x),))
        except Exception as error:
            raise for_user(error)  # noqa: B904 the same error
        except BaseException as stop:
            raise interrupted(stop)  # noqa: B904 the same error

    return push


def fitting(given: Any, like: Any) -> Any:
    """Tangents and cotangents in the dtypes and shapes of what they belong to: autograd takes what broadcasts."""

    def fit(x: Any, y: Any) -> Any:
        if _fits(x, y):
            return x
        aval = aval_of(y)
        if aval.dtype.kind not in "fc":  # integers and bools: their tangents are zeros
            return zeros_for(y)
        x = fnp.asarray(x, dtype=aval.dtype)
        return x if aval_of(x).shape == aval.shape else fnp.broadcast_to(x, aval.shape)

    return given if _fits(given, like) else tree.map(fit, given, like)


def _fits(x: Any, y: Any) -> bool:
    """Have both the same structure, shapes and float dtypes, at a glance?"""
    kind = type(x)
    if kind is np.ndarray:
        return type(y) is kind and x.dtype is y.dtype and x.shape == y.shape and x.dtype.kind in "fc"
    return (kind is tuple or kind is list) and type(y) is kind and len(x) == len(y) and all(map(_fits, x, y))


def make_jvp_reversemode(fun: Function, argnum: Any = 0) -> Function:
    """A function that returns `v -> Jacobian times v`: in autograd the transpose of the vjp, here linearized forward mode.

    >>> import numpy as np
    >>> from funcad.autograd import make_jvp_reversemode
    >>> float(make_jvp_reversemode(np.square)(3.0)(1.0))
    6.0
    """

    def operator(f: Function, x: Any) -> Function:
        _check_floats(f, x, "make_jvp_reversemode")
        push = pullbacks.linearize(f, x)[1]
        return lambda v: push(fitting(v, x))

    return on_argument(operator, fun, argnum, make_jvp_reversemode)


def make_hvp(fun: Function, argnum: Any = 0) -> Function:
    """A function that returns the pair (hvp, gradient): `hvp(v)` is the Hessian times v.

    `fun` is a function; `argnum` is the position of an argument (default 0), or a tuple of positions, which gives a tuple.
    Raises NonScalarOutputError as `funcad.grad`. autograd's.

    >>> import numpy as np
    >>> from funcad.autograd import make_hvp
    >>> hvp, gradient = make_hvp(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    >>> hvp(np.array([1.0, 0.0])), gradient
    (array([6., 0.]), array([ 3., 12.]))
    """
    return on_argument(lambda f, x: make_vjp(grad(f))(x), fun, argnum, make_hvp)


def hessian_tensor_product(fun: Function, argnum: int = 0) -> Function:
    """A function of (*args, tensor): the Hessian times the tensor, summed over all axes of the argument.

    `fun` is a function; `argnum` is the position of an argument (default 0), or a tuple of positions, which gives a tuple.
    Returns an array like the argument; raises as `funcad.hvp`. autograd's.

    >>> import numpy as np
    >>> from funcad.autograd import hessian_tensor_product
    >>> hessian_tensor_product(lambda x: np.sum(x**3))(np.array([1.0, 2.0]), np.ones(2))
    array([ 6., 12.])
    """
    gradient = grad(fun, argnum)

    def product(*args: Any, **kwargs: Any) -> Any:
        *rest, tensor = args
        return fnp.tensordot(gradient(*rest, **kwargs), tensor, np.ndim(tensor))

    whole = grad(_named(product, fun), argnum)
    return Transformed(whole, fun, functools.partial(hessian_tensor_product, argnum=argnum), like=product)


def hessian_vector_product(fun: Function, argnum: int = 0) -> Function:
    """A function of (*args, vector): the Hessian times the vector. Another name of hessian_tensor_product.

    `fun` is a function; `argnum` is the position of an argument (default 0), or a tuple of positions, which gives a tuple.
    Returns and raises as that. autograd's.

    >>> import numpy as np
    >>> from funcad.autograd import hessian_vector_product
    >>> hessian_vector_product(lambda x: np.sum(x**3))(np.array([1.0, 2.0]), np.array([1.0, 0.0]))
    array([6., 0.])
    """
    return hessian_tensor_product(fun, argnum)


def tensor_jacobian_product(fun: Function, argnum: int = 0) -> Function:
    """A function of (*args, tensor): the tensor times the Jacobian, summed over all axes of the tensor.

    `fun` is a function; `argnum` is the position of an argument (default 0), or a tuple of positions, which gives a tuple.
    Returns an array like the argument; raises as `funcad.vjp`. autograd's.

    >>> import numpy as np
    >>> from funcad.autograd import tensor_jacobian_product
    >>> tensor_jacobian_product(lambda x: x**2)(np.array([1.0, 2.0]), np.ones(2))
    array([2., 4.])
    """

    def product(*args: Any, **kwargs: Any) -> Any:
        *rest, tensor = args
        return fnp.tensordot(tensor, runs(fun)(*rest, **kwargs), np.ndim(tensor))

    whole = jacobian(_named(product, fun), argnum)
    return Transformed(whole, fun, functools.partial(tensor_jacobian_product, argnum=argnum), like=product)


def vector_jacobian_product(fun: Function, argnum: int = 0) -> Function:
    """A function of (*args, vector): the vector times the Jacobian. Another name of tensor_jacobian_product.

    `fun` is a function; `argnum` is the position of an argument (default 0), or a tuple of positions, which gives a tuple.
    Returns and raises as that. autograd's.

    >>> import numpy as np
    >>> from funcad.autograd import vector_jacobian_product
    >>> vector_jacobian_product(lambda x: x**2)(np.array([1.0, 2.0]), np.array([1.0, 0.0]))
    array([2., 0.])
    """
    return tensor_jacobian_product(fun, argnum)


def _half_square(x: Any) -> Any:
    return 0.5 * fnp.sum(x**2, axis=-1)


def make_ggnvp(f: Function, g: Function = _half_square, f_argnum: Any = 0) -> Function:
    """A function that returns `v -> J^T H J v`, J being the Jacobian of f and H the Hessian of g at f's output.

    `f_argnum` is the position of the argument of `f`. Raises as `funcad.gnvp`. autograd's.

    >>> import numpy as np
    >>> from funcad.autograd import make_ggnvp
    >>> make_ggnvp(lambda x: x**2)(np.array([1.0, 2.0]))(np.ones(2))
    array([ 4., 16.])
    """

    def operator(f: Function, x: Any) -> Function:
        _check_floats(f, x, "make_ggnvp")
        out, push = pullbacks.linearize(f, x)
        _, pullback = pullbacks.vjp(f, x)
        curve, _ = make_hvp(g)(out)
        return lambda v: pullback(curve(push(fitting(v, x))))[0]

    return on_argument(operator, f, f_argnum, make_ggnvp, f_argnum=f_argnum, g=g)


def multigrad_dict(fun: Function) -> Function:
    """The gradients with respect to all arguments, as an OrderedDict {name: gradient}; defaults count as arguments.

    All arguments must be floats or containers of them.
    `fun` is a function with a signature, else ValueError. Returns a function of fun's arguments. autograd's.

    >>> from funcad.autograd import multigrad_dict
    >>> {name: float(g) for name, g in multigrad_dict(lambda x, y=3.0: x * y)(2.0).items()}
    {'x': 3.0, 'y': 2.0}
    """
    signature = inspect.signature(fun)
    kinds = {name: parameter.kind for name, parameter in signature.parameters.items()}

    def called_with(values: dict[str, Any]) -> Any:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for name, value in values.items():
            if kinds[name] == inspect.Parameter.VAR_POSITIONAL:
                args += value
            elif kinds[name] == inspect.Parameter.VAR_KEYWORD:
                kwargs |= value
            elif kinds[name] == inspect.Parameter.KEYWORD_ONLY:
                kwargs[name] = value
            else:
                args.append(value)
        return runs(fun)(*args, **kwargs)

    def gradients(*args: Any, **kwargs: Any) -> OrderedDict[str, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        found = grad(_named(called_with, fun))(dict(bound.arguments))
        return OrderedDict((name, found[name]) for name in bound.arguments)

    return Transformed(gradients, fun, functools.partial(multigrad_dict))


def checkpoint(fun: Function) -> Function:
    """fun, whose intermediate values are computed again in the backward pass instead of being kept.

    >>> import numpy as np
    >>> from funcad.autograd import checkpoint, grad
    >>> float(grad(checkpoint(np.sin))(0.0))
    1.0
    """
    return importlib.import_module("funcad.control.checkpoint").checkpoint(fun)  # type: ignore[no-any-return]
