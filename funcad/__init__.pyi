# What type checkers and editors see of `funcad`: every public name, those that are loaded when they are first used among them,
# with signatures that say more than the implementations' own. tests/typing/test_stubs.py holds both together.
#
# Arrays are NumPy's. A gradient has the type of its argument, a jitted function the parameters and the result of the plain one;
# what depends on values (pytrees of unknown structure, which arguments `argnames` names) is Any.

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Protocol, Self, TypeVar, TypeVarTuple, overload

import numpy as np

from funcad import autograd as autograd
from funcad import debug as debug
from funcad import distributed as distributed
from funcad import errors as errors
from funcad import flatten_util as flatten_util
from funcad import image as image
from funcad import interop as interop
from funcad import jax as jax
from funcad import lax as lax
from funcad import nn as nn
from funcad import numpy as numpy
from funcad import ops as ops
from funcad import optimize as optimize
from funcad import random as random
from funcad import scipy as scipy
from funcad import sparse as sparse
from funcad import stats as stats
from funcad import testing as testing
from funcad import tree as tree
from funcad import tree_util as tree_util
from funcad.api.tools import ShapeDtypeStruct as ShapeDtypeStruct
from funcad.api.tools import named_scope as named_scope
from funcad.api.tools import rules as rules
from funcad.autograd.differential_operators import deriv as deriv
from funcad.autograd.differential_operators import elementwise_grad as elementwise_grad
from funcad.autograd.differential_operators import grad_and_aux as grad_and_aux
from funcad.autograd.differential_operators import grad_named as grad_named
from funcad.autograd.differential_operators import hessian_tensor_product as hessian_tensor_product
from funcad.autograd.differential_operators import hessian_vector_product as hessian_vector_product
from funcad.autograd.differential_operators import holomorphic_grad as holomorphic_grad
from funcad.autograd.differential_operators import make_ggnvp as make_ggnvp
from funcad.autograd.differential_operators import make_hvp as make_hvp
from funcad.autograd.differential_operators import make_jvp as make_jvp
from funcad.autograd.differential_operators import make_vjp as make_vjp
from funcad.autograd.differential_operators import multigrad_dict as multigrad_dict
from funcad.autograd.differential_operators import tensor_jacobian_product as tensor_jacobian_product
from funcad.autograd.differential_operators import vector_jacobian_product as vector_jacobian_product
from funcad.autograd.extend import def_linear as def_linear
from funcad.autograd.extend import defjvp as defjvp
from funcad.autograd.extend import defjvp_argnum as defjvp_argnum
from funcad.autograd.extend import defjvp_argnums as defjvp_argnums
from funcad.autograd.extend import defvjp as defvjp
from funcad.autograd.extend import defvjp_argnum as defvjp_argnum
from funcad.autograd.extend import defvjp_argnums as defvjp_argnums
from funcad.autograd.extend import primitive as primitive
from funcad.backends.explain import Explanation
from funcad.backends.export.loading import load_c as load_c
from funcad.backends.profile import RunProfile
from funcad.configuration import config as config
from funcad.configuration import show_config as show_config
from funcad.control import policies as _policies
from funcad.device import devices as devices
from funcad.errors import NotCompiledWarning as NotCompiledWarning
from funcad.errors import UncertifiedDerivativeWarning as UncertifiedDerivativeWarning
from funcad.jitted.account import Cost
from funcad.jitted.jit_cache import CacheInfo
from funcad.jitted.jit_cache import clear_caches as clear_caches
from funcad.jitted.jit_inspect import Lowered

__version__: str
checkpoint_policies = _policies
float0: np.dtype[Any]

_P = ParamSpec("_P")
_Q = ParamSpec("_Q")
_R = TypeVar("_R")
_R_co = TypeVar("_R_co", covariant=True)
_S = TypeVar("_S")
_T = TypeVar("_T")
_U = TypeVar("_U")
_A = TypeVar("_A")
_Ts = TypeVarTuple("_Ts")
_DType = TypeVar("_DType", bound=np.dtype[Any])
_Number = complex | np.number[Any] | np.bool_
_Array = np.ndarray[Any, Any]
_Names = str | Sequence[str]
_Numbers = int | Sequence[int]

# Jedi, which completes in IPython and many editors, does not know ParamSpec; it takes the first overload whose parameters fit,
# and any argument fits a TypeVar. So the first one says: the function itself, with its parameters. Type checkers never take
# it, as no function is a `_Nothing`; they take those that follow.
class _Nothing: ...

_F = TypeVar("_F", bound=_Nothing)

# ---- derivatives. Three kinds of result that stand for a function with the parameters _P of the plain one. That the gradient
# has the type of the first argument is said where it is called: said of the function, lambdas would have no parameters.

class _Gradient(Protocol[_P]):
    def __call__(self: _Gradient[Concatenate[_T, _Q]], x: _T, /, *args: _Q.args, **kwargs: _Q.kwargs) -> _T: ...
    @overload
    def __get__(self, instance: None, owner: Any = None) -> Self: ...
    @overload
    def __get__(self: _Gradient[Concatenate[_S, _Q]], instance: _S, owner: Any = None) -> _Gradient[_Q]: ...

class _ValueAndGradient(Protocol[_P, _R_co]):
    def __call__(
        self: _ValueAndGradient[Concatenate[_T, _Q], _R], x: _T, /, *args: _Q.args, **kwargs: _Q.kwargs
    ) -> tuple[_R, _T]: ...
    @overload
    def __get__(self, instance: None, owner: Any = None) -> Self: ...
    @overload
    def __get__(
        self: _ValueAndGradient[Concatenate[_S, _Q], _R], instance: _S, owner: Any = None
    ) -> _ValueAndGradient[_Q, _R]: ...

class _GradientOf1(Protocol[_P]):
    """With respect to the second argument."""
    def __call__(self: _GradientOf1[Concatenate[_S, _T, _Q]], a: _S, x: _T, /, *args: _Q.args, **kwargs: _Q.kwargs) -> _T: ...
    @overload
    def __get__(self, instance: None, owner: Any = None) -> Self: ...
    @overload
    def __get__(self: _GradientOf1[Concatenate[_S, _Q]], instance: _S, owner: Any = None) -> _Gradient[_Q]: ...

class _GradientOf2(Protocol[_P]):
    """With respect to the first two arguments."""
    def __call__(
        self: _GradientOf2[Concatenate[_S, _T, _Q]], a: _S, x: _T, /, *args: _Q.args, **kwargs: _Q.kwargs
    ) -> tuple[_S, _T]: ...

class _GradientAndAux(Protocol[_P, _R_co]):
    def __call__(
        self: _GradientAndAux[Concatenate[_T, _Q], _R], x: _T, /, *args: _Q.args, **kwargs: _Q.kwargs
    ) -> tuple[_T, _R]: ...

class _ValueAndGradientOf2(Protocol[_P, _R_co]):
    def __call__(
        self: _ValueAndGradientOf2[Concatenate[_S, _T, _Q], _R], a: _S, x: _T, /, *args: _Q.args, **kwargs: _Q.kwargs
    ) -> tuple[_R, tuple[_S, _T]]: ...

class _Jacobian(Protocol[_P]):
    """Of a function whose output is one array: an array in the place of each leaf of the argument."""
    @overload
    def __call__(self: _Jacobian[Concatenate[float, _Q]], x: float, /, *args: _Q.args, **kwargs: _Q.kwargs) -> _Array: ...
    @overload
    def __call__(self: _Jacobian[Concatenate[_T, _Q]], x: _T, /, *args: _Q.args, **kwargs: _Q.kwargs) -> _T: ...

@overload
def grad(
    f: _F, argnums: _T = ..., has_aux: _T = ..., *, holomorphic: _T = ..., allow_int: _T = ..., argnames: _T = ...
) -> _F: ...
@overload
def grad(f: np.ufunc, argnums: Literal[0] = 0) -> Callable[[Any], Any]: ...
@overload
def grad(  # type: ignore[overload-overlap]
    f: Callable[_P, Any],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: Literal[False] = False,
) -> _Gradient[_P]: ...
@overload
def grad(f: Callable[_P, Any], argnums: Literal[1], has_aux: Literal[False] = False) -> _GradientOf1[_P]: ...  # type: ignore[overload-overlap]
@overload
def grad(f: Callable[_P, Any], argnums: tuple[Literal[0], Literal[1]], has_aux: Literal[False] = False) -> _GradientOf2[_P]: ...  # type: ignore[overload-overlap]
@overload
def grad(f: Callable[_P, tuple[Any, _A]], argnums: Literal[0] = 0, *, has_aux: Literal[True]) -> _GradientAndAux[_P, _A]: ...
@overload
def grad(
    f: Callable[_P, tuple[Any, _A]],
    argnums: int | Sequence[int] | None = None,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
    allow_int: bool = False,
    argnames: str | Sequence[str] | None = None,
) -> Callable[_P, tuple[Any, _A]]: ...
@overload
def grad(
    f: Callable[_P, Any],
    argnums: Sequence[int],
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[_P, tuple[Any, ...]]: ...
@overload
def grad(
    f: Callable[_P, Any],
    argnums: int,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[_P, Any]: ...
@overload
def grad(
    f: Callable[_P, Any],
    argnums: int | Sequence[int] | None = None,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    argnames: str | Sequence[str],
) -> Callable[_P, Any]: ...
@overload
def grad(
    f: Callable[_P, Any],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    *,
    allow_int: bool,
) -> Callable[_P, Any]: ...
@overload
def grad(
    f: Callable[_P, Any],
    argnums: int | Sequence[int] | None = None,
    *,
    has_aux: bool,
    holomorphic: bool = False,
    allow_int: bool = False,
    argnames: str | Sequence[str] | None = None,
) -> Callable[_P, Any]: ...
@overload
def grad(
    f: Callable[_P, Any],
    argnums: int | Sequence[int] | None,
    has_aux: bool,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    argnames: str | Sequence[str] | None = None,
) -> Callable[_P, Any]: ...
@overload
def value_and_grad(
    f: _F, argnums: _T = ..., has_aux: _T = ..., *, holomorphic: _T = ..., allow_int: _T = ..., argnames: _T = ...
) -> _F: ...
@overload
def value_and_grad(f: np.ufunc, argnums: Literal[0] = 0) -> Callable[[Any], tuple[Any, Any]]: ...  # type: ignore[overload-overlap]
@overload
def value_and_grad(  # type: ignore[overload-overlap]
    f: Callable[_P, _R],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: Literal[False] = False,
) -> _ValueAndGradient[_P, _R]: ...
@overload
def value_and_grad(  # type: ignore[overload-overlap]
    f: Callable[_P, _R], argnums: tuple[Literal[0], Literal[1]], has_aux: Literal[False] = False
) -> _ValueAndGradientOf2[_P, _R]: ...
@overload
def value_and_grad(
    f: Callable[_P, tuple[_R, _A]], argnums: Literal[0] = 0, *, has_aux: Literal[True]
) -> _ValueAndGradient[_P, tuple[_R, _A]]: ...
@overload
def value_and_grad(
    f: Callable[_P, tuple[_R, _A]],
    argnums: int | Sequence[int] | None = None,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
    allow_int: bool = False,
    argnames: str | Sequence[str] | None = None,
) -> Callable[_P, tuple[tuple[_R, _A], Any]]: ...
@overload
def value_and_grad(
    f: Callable[_P, _R],
    argnums: Sequence[int],
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[_P, tuple[_R, tuple[Any, ...]]]: ...
@overload
def value_and_grad(
    f: Callable[_P, _R],
    argnums: int,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[_P, tuple[_R, Any]]: ...
@overload
def value_and_grad(
    f: Callable[_P, _R],
    argnums: int | Sequence[int] | None = None,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    argnames: str | Sequence[str],
) -> Callable[_P, tuple[_R, Any]]: ...
@overload
def value_and_grad(
    f: Callable[_P, _R],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    *,
    allow_int: bool,
) -> Callable[_P, tuple[_R, Any]]: ...
@overload
def value_and_grad(
    f: Callable[_P, Any],
    argnums: int | Sequence[int] | None = None,
    *,
    has_aux: bool,
    holomorphic: bool = False,
    allow_int: bool = False,
    argnames: str | Sequence[str] | None = None,
) -> Callable[_P, tuple[Any, Any]]: ...
@overload
def value_and_grad(
    f: Callable[_P, Any],
    argnums: int | Sequence[int] | None,
    has_aux: bool,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    argnames: str | Sequence[str] | None = None,
) -> Callable[_P, tuple[Any, Any]]: ...

# a matrix for each pair of leaves of the output and of the argument
@overload
def jacfwd(f: _F, argnums: _T = ..., has_aux: _T = ..., *, chunk_size: _T = ...) -> _F: ...
@overload
def jacfwd(f: np.ufunc, *, chunk_size: int | None = None) -> Callable[[Any], _Array]: ...
@overload
def jacfwd(f: Callable[_P, _Array], *, chunk_size: int | None = None) -> _Jacobian[_P]: ...
@overload
def jacfwd(f: Callable[_P, _Number], *, chunk_size: int | None = None) -> _Gradient[_P]: ...
@overload
def jacfwd(
    f: Callable[_P, Any],
    argnums: int | Sequence[int] | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    chunk_size: int | None = None,
) -> Callable[_P, Any]: ...
@overload
def jacrev(f: _F, argnums: _T = ..., has_aux: _T = ..., *, chunk_size: _T = ...) -> _F: ...
@overload
def jacrev(f: np.ufunc, *, chunk_size: int | None = None) -> Callable[[Any], _Array]: ...
@overload
def jacrev(f: Callable[_P, _Array], *, chunk_size: int | None = None) -> _Jacobian[_P]: ...
@overload
def jacrev(f: Callable[_P, _Number], *, chunk_size: int | None = None) -> _Gradient[_P]: ...
@overload
def jacrev(
    f: Callable[_P, Any],
    argnums: int | Sequence[int] | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    chunk_size: int | None = None,
) -> Callable[_P, Any]: ...
@overload
def jacobian(f: _F, argnums: _T = ..., has_aux: _T = ..., *, chunk_size: _T = ...) -> _F: ...
@overload
def jacobian(f: np.ufunc, *, chunk_size: int | None = None) -> Callable[[Any], _Array]: ...
@overload
def jacobian(f: Callable[_P, _Array], *, chunk_size: int | None = None) -> _Jacobian[_P]: ...
@overload
def jacobian(f: Callable[_P, _Number], *, chunk_size: int | None = None) -> _Gradient[_P]: ...
@overload
def jacobian(
    f: Callable[_P, Any],
    argnums: int | Sequence[int] | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    chunk_size: int | None = None,
) -> Callable[_P, Any]: ...
@overload
def hessian(f: _F, argnums: _T = ..., has_aux: _T = ..., *, chunk_size: _T = ...) -> _F: ...
@overload
def hessian(f: np.ufunc, *, chunk_size: int | None = None) -> Callable[[Any], _Array]: ...
@overload
def hessian(
    f: Callable[Concatenate[_Array, _Q], _Number], *, chunk_size: int | None = None
) -> Callable[Concatenate[_Array, _Q], _Array]: ...
@overload
def hessian(
    f: Callable[_P, Any],
    argnums: int | Sequence[int] | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    chunk_size: int | None = None,
) -> Callable[_P, Any]: ...
@overload
def jvp(
    f: Callable[..., _R], primals: Sequence[Any], tangents: Sequence[Any], has_aux: Literal[False] = False
) -> tuple[_R, _R]: ...
@overload
def jvp(
    f: Callable[..., tuple[_R, _A]], primals: Sequence[Any], tangents: Sequence[Any], has_aux: Literal[True]
) -> tuple[_R, _R, _A]: ...
@overload
def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any: ...
@overload
def vjp(
    f: Callable[[*_Ts], _R], *primals: *_Ts, has_aux: Literal[False] = False
) -> tuple[_R, Callable[[_R], tuple[*_Ts]]]: ...
@overload
def vjp(
    f: Callable[..., _R], *primals: Any, has_aux: Literal[False] = False
) -> tuple[_R, Callable[[Any], tuple[Any, ...]]]: ...
@overload
def vjp(
    f: Callable[..., tuple[_R, _A]], *primals: Any, has_aux: Literal[True]
) -> tuple[_R, Callable[[Any], tuple[Any, ...]], _A]: ...
@overload
def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any: ...
@overload
def linearize(f: Callable[..., _R], *primals: Any, has_aux: Literal[False] = False) -> tuple[_R, Callable[..., _R]]: ...
@overload
def linearize(
    f: Callable[..., tuple[_R, _A]], *primals: Any, has_aux: Literal[True]
) -> tuple[_R, Callable[..., _R], _A]: ...
@overload
def linearize(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any: ...
def linear_transpose(f: Callable[..., Any], *primals: Any) -> Callable[[Any], tuple[Any, ...]]: ...
@overload
def hvp(f: Callable[[_T], Any], primals: tuple[_T], tangents: tuple[_T]) -> _T: ...
@overload
def hvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any: ...
def gnvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], outer: Callable[..., Any] | None = None
) -> Any: ...

# ---- second and higher derivatives in one pass

def jet(f: Callable[..., Any], primals: Sequence[Any], series: Sequence[Sequence[Any]]) -> tuple[Any, list[Any]]: ...
def laplacian(f: Callable[..., Any], argnums: int | Sequence[int] | None = None) -> Callable[..., Any]: ...
def hessian_diagonal(
    f: Callable[..., Any], argnums: int | Sequence[int] | None = None, *, method: str = "jet", key: Any = None, samples: int = 1
) -> Callable[..., Any]: ...

# ---- batches: the parameters become arrays, what they are called and how many there are stays

@overload
def vmap(
    f: _F, in_axes: _T = ..., out_axes: _T = ..., *, axis_name: _T = ..., axis_size: _T = ..., chunk_size: _T = ...
) -> _F: ...
@overload
def vmap(
    f: Callable[..., np.ndarray[Any, _DType]],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    chunk_size: int | None = None,
) -> Callable[..., np.ndarray[Any, _DType]]: ...
@overload
def vmap(
    f: Callable[..., _Number],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    chunk_size: int | None = None,
) -> Callable[..., _Array]: ...
@overload
def vmap(
    f: Callable[..., _R],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    chunk_size: int | None = None,
) -> Callable[..., _R]: ...
def all_gather(x: Any, axis_name: Any, *, axis_index_groups: Any = None, axis: int = 0, tiled: bool = False) -> Any: ...
def all_to_all(
    x: Any, axis_name: Any, split_axis: int, concat_axis: int, *, axis_index_groups: Any = None, tiled: bool = False
) -> Any: ...
def axis_index(axis_name: Any) -> Any: ...
def axis_size(axis_name: Any) -> int: ...
def pmax(x: _T, axis_name: Any, *, axis_index_groups: Any = None) -> _T: ...
def pmean(x: _T, axis_name: Any, *, axis_index_groups: Any = None) -> _T: ...
def pmin(x: _T, axis_name: Any, *, axis_index_groups: Any = None) -> _T: ...
def psum(x: _T, axis_name: Any, *, axis_index_groups: Any = None) -> _T: ...
def ppermute(x: _T, axis_name: Any, perm: Any) -> _T: ...
def pshuffle(x: _T, axis_name: Any, perm: Sequence[int]) -> _T: ...
def psum_scatter(
    x: Any, axis_name: Any, *, scatter_dimension: int = 0, axis_index_groups: Any = None, tiled: bool = False
) -> Any: ...

# ---- compiled functions

class _Compiled(Protocol):
    """What a jitted function has besides its call."""
    @property
    def __name__(self) -> str: ...
    def lower(self, *args: Any, **kwargs: Any) -> Lowered: ...
    def source(self, *args: Any, **kwargs: Any) -> str: ...
    def cuda(self, *args: Any, **kwargs: Any) -> str: ...
    def export(self, path: Any, *args: Any, **kwargs: Any) -> list[str]: ...
    def export_c(
        self,
        path: Any,
        *args: Any,
        overwrite: bool = False,
        constants: str = "frozen",
        also: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> list[str]: ...
    def explain(self, *args: Any, **kwargs: Any) -> Explanation | Any: ...
    def profile(self, *args: Any, **kwargs: Any) -> RunProfile: ...
    def cache_info(self) -> CacheInfo: ...
    def cost(self) -> Cost: ...
    def clear_cache(self) -> None: ...

class _Jitted(_Compiled, Protocol[_P, _R_co]):
    @property
    def __wrapped__(self) -> Callable[_P, _R_co]: ...
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R_co: ...
    @overload
    def __get__(self, instance: None, owner: Any = None) -> Self: ...
    @overload
    def __get__(self: _Jitted[Concatenate[_S, _Q], _R], instance: _S, owner: Any = None) -> Callable[_Q, _R]: ...

class _Itself(_Compiled, Protocol):
    """For Jedi, beside the function itself; bound or not, it has the same."""
    def __get__(self, instance: Any, owner: Any = None) -> Self: ...

class _Jit(Protocol):
    @overload
    def __call__(self, f: _F, /) -> _F | _Itself: ...
    @overload
    def __call__(self, f: Callable[_P, _R], /) -> _Jitted[_P, _R]: ...

@overload
def jit(
    f: _F,
    *,
    static_argnums: _T = ...,
    static_argnames: _T = ...,
    donate_argnums: _T = ...,
    donate_argnames: _T = ...,
    inline: _T = ...,
    fast_math: _T = ...,
    guards: _T = ...,
    not_compiled: _T = ...,
) -> _F | _Itself: ...
@overload
def jit(
    f: Callable[_P, _R],
    *,
    static_argnums: _Numbers | None = None,
    static_argnames: _Names | None = None,
    donate_argnums: _Numbers | None = None,
    donate_argnames: _Names | None = None,
    inline: bool = False,
    fast_math: bool = False,
    guards: bool = True,
    not_compiled: Literal["warn", "ignore", "raise"] | None = None,
) -> _Jitted[_P, _R]: ...
@overload
def jit(
    f: None = None,
    *,
    static_argnums: _Numbers | None = None,
    static_argnames: _Names | None = None,
    donate_argnums: _Numbers | None = None,
    donate_argnames: _Names | None = None,
    inline: bool = False,
    fast_math: bool = False,
    guards: bool = True,
    not_compiled: Literal["warn", "ignore", "raise"] | None = None,
) -> _Jit: ...
def disable_jit() -> AbstractContextManager[None]: ...
def explain_cache_misses(report: Callable[[str], Any] | None = None) -> AbstractContextManager[None]: ...

# ---- rules of one's own

class custom_jvp(Generic[_P, _R]):
    __name__: str
    __wrapped__: Callable[_P, _R]
    def __init__(
        self, fun: Callable[_P, _R], nondiff_argnums: _Numbers = (), nondiff_argnames: _Names = ()
    ) -> None: ...
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    @overload
    def __get__(self, instance: None, owner: Any = None) -> Self: ...
    @overload
    def __get__(self: custom_jvp[Concatenate[_S, _Q], _T], instance: _S, owner: Any = None) -> Callable[_Q, _T]: ...
    def defjvp(self, jvp: Callable[..., _T], symbolic_zeros: bool = False) -> Callable[..., _T]: ...
    def defjvps(self, *jvps: Callable[..., Any] | None) -> None: ...

class custom_vjp(Generic[_P, _R]):
    __name__: str
    __wrapped__: Callable[_P, _R]
    def __init__(
        self, fun: Callable[_P, _R], nondiff_argnums: _Numbers = (), nondiff_argnames: _Names = ()
    ) -> None: ...
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    @overload
    def __get__(self, instance: None, owner: Any = None) -> Self: ...
    @overload
    def __get__(self: custom_vjp[Concatenate[_S, _Q], _T], instance: _S, owner: Any = None) -> Callable[_Q, _T]: ...
    def defvjp(
        self,
        fwd: Callable[..., tuple[Any, Any]],
        bwd: Callable[..., Sequence[Any]],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None: ...
    def defjvp(self, jvp: Callable[..., _T], symbolic_zeros: bool = False) -> Callable[..., _T]: ...

class custom_vmap(Generic[_P, _R]):
    __name__: str
    __wrapped__: Callable[_P, _R]
    def __init__(self, fun: Callable[_P, _R]) -> None: ...
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    @overload
    def __get__(self, instance: None, owner: Any = None) -> Self: ...
    @overload
    def __get__(self: custom_vmap[Concatenate[_S, _Q], _T], instance: _S, owner: Any = None) -> Callable[_Q, _T]: ...
    def def_vmap(self, rule: Callable[..., _T]) -> Callable[..., _T]: ...

def custom_gradient(fun: Callable[_P, tuple[_R, Any]]) -> custom_vjp[_P, _R]: ...
def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[..., Any],
    tangent_solve: Callable[..., Any],
    has_aux: bool = False,
) -> Any: ...
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[..., Any],
    transpose_solve: Callable[..., Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any: ...
def closure_convert(fun: Callable[..., _R], *example_args: Any) -> tuple[Callable[..., _R], list[Any]]: ...
def constant(x: _T) -> _T: ...
def stop_gradient(x: _T) -> _T: ...

class _Checkpoint(Protocol):
    @overload
    def __call__(self, fun: _F, /) -> _F: ...
    @overload
    def __call__(self, fun: Callable[_P, _R], /) -> Callable[_P, _R]: ...

@overload
def checkpoint(fun: _F, *, policy: _T = ..., static_argnums: _T = ..., static_argnames: _T = ...) -> _F: ...
@overload
def checkpoint(
    fun: Callable[_P, _R],
    *,
    prevent_cse: bool = True,
    policy: Callable[..., bool] | None = None,
    static_argnums: _Numbers = (),
    static_argnames: _Names = (),
) -> Callable[_P, _R]: ...
@overload
def checkpoint(
    fun: None = None,
    *,
    prevent_cse: bool = True,
    policy: Callable[..., bool] | None = None,
    static_argnums: _Numbers = (),
    static_argnames: _Names = (),
) -> _Checkpoint: ...

remat = checkpoint

def checkpoint_name(x: _T, name: str) -> _T: ...
def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None: ...

# ---- control flow: what comes out has the type that the body gives

def scan(
    f: Callable[[_T, Any], tuple[_U, Any]],
    init: _T,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    *,
    policy: Any = None,
) -> tuple[_U, Any]: ...
@overload
def cond(
    pred: Any, true_fun: Callable[[*_Ts], _T], false_fun: Callable[[*_Ts], _U], *operands: *_Ts
) -> _T | _U: ...
@overload
def cond(
    pred: Any, true_fun: Callable[..., _T], false_fun: Callable[..., _U], *operands: Any
) -> _T | _U: ...
def switch(index: Any, branches: Sequence[Callable[..., _R]], *operands: Any) -> _R: ...
def while_loop(cond_fun: Callable[[_T], Any], body_fun: Callable[[_T], _U], init_val: _T, *, policy: Any = None) -> _U: ...
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, _T], _U],
    init_val: _T,
    *,
    unroll: int | bool | None = None,
    policy: Any = None,
) -> _U: ...
@overload
def map(
    f: Callable[[Any], np.ndarray[Any, _DType]], xs: Any, *, batch_size: int | None = None
) -> np.ndarray[Any, _DType]: ...
@overload
def map(f: Callable[[Any], _Number], xs: Any, *, batch_size: int | None = None) -> _Array: ...
@overload
def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any: ...
def associative_scan(fn: Callable[[Any, Any], Any], elems: _T, reverse: bool = False, axis: int = 0) -> _T: ...

# ---- programs, callbacks, devices, checks

def make_jaxpr(
    f: Callable[_P, Any], static_argnums: int | Sequence[int] = (), return_shape: bool = False
) -> Callable[_P, Any]: ...
def eval_shape(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any: ...
def io_callback(
    callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any, ordered: bool = False, **kwargs: Any
) -> Any: ...
def pure_callback(
    callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any, vmap_method: str | None = None, **kwargs: Any
) -> Any: ...
def block_until_ready(x: _T) -> _T: ...
def device_get(x: Any) -> Any: ...
def device_put(x: Any, device: Any = None) -> Any: ...
def default_device(device: Any) -> AbstractContextManager[None]: ...
def debug_checks(enabled: bool = True) -> AbstractContextManager[None]: ...
def debug_infs(enabled: bool = True) -> AbstractContextManager[None]: ...
def debug_nans(enabled: bool = True) -> AbstractContextManager[None]: ...
