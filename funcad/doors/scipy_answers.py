"""Who answers at the doors of SciPy's methods: interpolators, sparse matrices, FFTs; distributions: distribution_answers.py.

The objects are SciPy's own. One made from traced values keeps funcad's counterpart in its `__dict__`; of one made from known
values the counterpart is made when it meets a traced value.
"""

from __future__ import annotations

import weakref
from _thread import get_ident
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.configuration import OnDemand
from funcad.doors.answers import calling, ours, own_code, own_method
from funcad.doors.asking import any_traced, holds_traced, is_tracing, keeps_traced, users_call
from funcad.doors.codes import Answer
from funcad.errors import BufferNeeded
from funcad.host.where import tracing, user_source
from funcad.ir.trace import plain_values
from funcad.ir.tracer import Tracer
from funcad.memo import remembers
from funcad.scipy.door import scipy_function

summary = OnDemand("funcad.scipy.stats.summary")

_FORM = "_funcad"  # in the `__dict__` of an object of SciPy's: its counterpart


# -- interpolators


def _piecewise(self: Any) -> Any:
    return _part("splines.Piecewise")(self.x, self.c, self.axis, self.extrapolate)


def _b_spline(self: Any) -> Any:
    return _part("splines.pieces_of")(self.t, self.c, self.k, self.axis, self.extrapolate)


def _interp1d(self: Any) -> Any:
    kind = self._spline.k if self._kind == "spline" else self._kind
    options = {"axis": self.axis, "bounds_error": self.bounds_error, "fill_value": self.fill_value}
    return ours("scipy.interpolate.interp1d")(self.x, self.y, kind, assume_sorted=True, **options)


def _grid(self: Any) -> Any:
    return ours("scipy.interpolate.RegularGridInterpolator")(
        self.grid, self.values, self.method, bounds_error=self.bounds_error, fill_value=self.fill_value
    )


def _part(name: str) -> Any:
    return ours(f"scipy.interpolate.{name}")


def _univariate(self: Any) -> Any:
    return _part("splines.UnivariateSpline").of(self)


def _radial(self: Any) -> Any:
    degree = int(self.powers.sum(axis=1).max()) if len(self.powers) else -1
    options = (self.neighbors, self.smoothing, self.kernel, self.epsilon, degree)
    return ours("scipy.interpolate.RBFInterpolator")(self.y, self.d.reshape(-1, *self.d_shape), *options)


def _scattered(self: Any) -> Any:
    points = self.points if self.scale is None else self.points * self.scale + self.offset
    values = self.values.reshape(-1, *self.values_shape)
    if type(self).__name__ == "NearestNDInterpolator":
        return ours("scipy.interpolate.NearestNDInterpolator")(points, values, self.scale is not None)
    fill = self.fill_value.item() if np.ndim(self.fill_value) else self.fill_value
    return ours("scipy.interpolate.LinearNDInterpolator")(points, values, fill, self.scale is not None)


_FORMS = {
    **{"PPoly": _piecewise, "BSpline": _b_spline, "UnivariateSpline": _univariate, "RBFInterpolator": _radial},
    **{"interp1d": _interp1d, "RegularGridInterpolator": _grid},
    **{"LinearNDInterpolator": _scattered, "NearestNDInterpolator": _scattered},
}


def _form(self: Any, kind: str) -> Any:
    """funcad's counterpart of an interpolator."""
    if _FORM not in self.__dict__:
        return _FORMS[kind](self)
    return self.__dict__[_FORM]


def interpolator(name: str, original: Callable[..., Any]) -> Answer:
    """`__init__` and the methods of an interpolator; subclasses share the methods of their base."""
    *_, kind, method = name.split(".")
    by_own_code = own_method(name, original)

    def own(self: Any, *args: Any, **kwargs: Any) -> Any:
        if method == "__init__":
            self.__dict__[_FORM] = ours(f"scipy.interpolate.{type(self).__name__}")(*args, **kwargs)
            self.__class__ = _stand_in(type(self))
            return None
        if kind not in [base.__name__ for base in type(self).__mro__]:  # the code of a base that others share
            return by_own_code[1](self, *args, **kwargs)
        return getattr(_form(self, kind), method)(*args, **kwargs)

    def is_for_us(args: tuple, kwargs: dict[str, Any]) -> bool:
        return is_tracing() and (holds_traced(args, kwargs) or keeps_traced(args[0]))

    return is_for_us, own


def field_of_result(name: str, original: Callable[..., Any]) -> Answer:
    """`result.jac` of a solver, where that is traced: what its result does not have is named with what gives it."""

    def own(self: Any, field: str) -> Any:
        if field in self or field.startswith("__"):
            return original(self, field)
        remedy = "funcad.jacfwd(fun)(result.x)" if field == "jac" else "compute it of result.x"
        raise AttributeError(
            f"{field}: the result of a solver has {', '.join(self)} where traced values are met; what SciPy gives beside "
            f"these is left out.\nRemedy: {remedy}."
        )

    return lambda args, kwargs: is_tracing(), own


# -- neighbours, hulls and triangulations, rotations


_NAMES = "add radd sub rsub mul rmul matmul rmatmul truediv pow neg abs getitem setitem len call eq ne lt le gt ge"
_OPERATORS = [f"__{n}__" for n in _NAMES.split()]


def _asked(name: str) -> Callable[..., Any]:
    """A special method, which Python looks for in the class."""
    return _OF_ITEMS.get(name) or _by_name(name)


def _by_name(name: str) -> Callable[..., Any]:
    return lambda self, *args, **kwargs: getattr(_own(self, "__dict__")[_FORM], name)(
        *[a if type(a) in _BARE else _unwrapped(a) for a in args], **kwargs
    )


_own: Any = object.__getattribute__

_LISTS = frozenset([list, tuple])
_NUMBERS = frozenset([int, float, np.int64, np.float64])
_LONG = 64  # numbers in a list, from which on it costs more to look through them again and again
_BARE = frozenset([Tracer, int, float, np.ndarray, np.float64, np.int64, slice, str, type(None)])  # for which nothing stands in


def _item(self: Any, index: Any) -> Any:
    form = _own(self, "__dict__")[_FORM]
    return form[index if type(index) is tuple and _BARE.issuperset(map(type, index)) else _unwrapped(index)]


def _written(self: Any, index: Any, value: Any) -> None:
    form = _own(self, "__dict__")[_FORM]
    index = index if type(index) is tuple and _BARE.issuperset(map(type, index)) else _unwrapped(index)
    form[index] = value if type(value) is Tracer else _unwrapped(value)


_OF_ITEMS = {"__getitem__": _item, "__setitem__": _written}


def _unwrapped(x: Any) -> Any:
    """What stands in for traced things is the things, in lists and tuples too."""
    if type(x) in (list, tuple):
        return x if _BARE.issuperset(map(type, x)) else type(x)([_unwrapped(v) for v in x])
    return x if type(x) in _BARE else getattr(x, "__dict__", {}).get(_FORM, x)


def _plain(x: Any) -> Any:
    """Of buffers, in lists and tuples too, the arrays: zeros are no elements. Long lists of numbers become arrays, once."""
    if type(x) is Tracer:
        return plain_values([x])[0]
    if type(x) is not list and type(x) is not tuple:
        return x
    kinds = set(map(type, x))
    if not kinds.isdisjoint(_LISTS):
        return type(x)([_plain(v) for v in x])
    traced = Tracer in kinds
    if traced and not all([type(v) is not Tracer or v.owner.level for v in x]):
        return _plain(type(x)(plain_values(x)))
    if type(x) is list and len(x) > _LONG:
        return ours("numpy.asarray")(x) if traced else np.asarray(x) if kinds <= _NUMBERS else x
    return x


def _holds_sparse(values: Any) -> bool:
    """Is one of them a sparse array with traced elements, ours or one that stands in for it?"""
    mine = ours("scipy.sparse.SparseArray")
    for v in values:
        if type(v) in _LISTS:
            if not _BARE.issuperset(map(type, v)) and _holds_sparse(v):
                return True
        elif type(v) is mine or _FORM in getattr(v, "__dict__", ()):
            return True
    return False


@remembers(64)
def _stand_in(kind: type) -> type:
    """A subclass of a class of SciPy's whose objects were made from traced values: all that happens to them goes to `_FORM`."""

    class StandIn(kind):  # type: ignore[misc, valid-type]
        __slots__ = ()
        locals().update({name: _asked(name) for name in _OPERATORS if name in dir(kind)})

        def __getattribute__(self, name: str) -> Any:
            return _own(self, name) if name in ("__dict__", "__class__") else getattr(_own(self, "__dict__")[_FORM], name)

        def __setattr__(self, name: str, value: Any) -> None:
            if name == "__class__":
                object.__setattr__(self, name, value)
            else:
                setattr(_own(self, "__dict__")[_FORM], name, value)

        def adding(self) -> Any:
            """What stands for it in `self[index] += value`."""
            form = _own(self, "__dict__")[_FORM]
            return form.adding() if hasattr(type(form), "adding") else self

        if hasattr(kind, "__del__"):

            def __del__(self) -> None:
                """There is nothing of qhull's to be closed."""

    StandIn.__name__, StandIn.__qualname__, StandIn.__module__ = kind.__name__, kind.__qualname__, kind.__module__
    return StandIn


def spatial_object(name: str, original: Callable[..., Any]) -> Answer:
    """`__init__` and the methods of a tree, a hull, a triangulation or an estimate of a density."""
    path, _, method = name.rpartition(".")

    def own(self: Any, *args: Any, **kwargs: Any) -> Any:
        args = _unwrapped(args)
        if method == "__init__":
            self.__dict__[_FORM] = ours(path)(*args, **kwargs)
            self.__class__ = _stand_in(type(self))
            return None
        if path.endswith("gaussian_kde"):
            of = summary.estimate_of
        else:
            of = ours(path).of
        return getattr(of(self), method)(*args, **kwargs)

    def is_for_us(args: tuple, kwargs: dict[str, Any]) -> bool:
        return holds_traced(args, kwargs) or is_tracing() and any([_is_ours(a) for a in args[1:]])

    return is_for_us, own


def _is_ours(x: Any) -> bool:
    """Is it an object that stands in for one of funcad's, or a rotation of funcad's?"""
    return _FORM in getattr(x, "__dict__", ()) or type(x).__module__ == "funcad.scipy.spatial.rotations"


def rotation(name: str, original: Callable[..., Any]) -> Answer:
    """What makes rotations, and what SciPy's do with traced values."""
    *_, kind, method = name.split(".")

    def own(*args: Any, **kwargs: Any) -> Any:
        made = ours(f"scipy.spatial.transform.{kind}")
        if method in ("apply", "__pow__"):
            made, args = made.from_quat(args[0].as_quat()), args[1:]
        return getattr(made, method)(*args, **kwargs)

    def is_for_us(args: tuple, kwargs: dict[str, Any]) -> bool:
        if holds_traced(args, kwargs):
            return True
        together = args[0] if method == "concatenate" else ()
        return is_tracing() and any(map(_is_ours, together))

    return is_for_us, own


# -- sparse matrices


def sparse_made(name: str, original: Callable[..., Any]) -> Answer:
    """`__init__` of a sparse array: of one with traced elements the object stands in for funcad's."""

    def own(self: Any, *args: Any, **kwargs: Any) -> None:
        args, kwargs = _plain(args), {k: _plain(v) for k, v in kwargs.items()}
        if not (holds_traced(args, kwargs) or _holds_sparse(args)):
            original(self, *args, **kwargs)
            return
        self.__dict__[_FORM] = ours("scipy.sparse.sparse_arrays.made")(type(self).__name__, *_unwrapped(args), **kwargs)
        self.__class__ = _stand_in(type(self))

    def is_for_us(args: tuple, kwargs: dict[str, Any]) -> bool:
        if not is_tracing():
            return False
        tracing.threads[get_ident()].setdefault("sparse", {})[id(args[0])] = weakref.ref(args[0])  # made in this call
        return holds_traced(args[1:], kwargs) or _holds_sparse(args[1:])

    return is_for_us, own


def sparse_written(name: str, original: Callable[..., Any]) -> Answer:
    """`K[i, j] = v` with traced values, of a sparse array that the function made: from now on it stands in for funcad's."""

    def own(self: Any, index: Any, value: Any) -> None:
        made = tracing.threads[get_ident()].get("sparse", {}).get(id(self))
        if made is None or made() is not self:
            raise BufferNeeded(
                f"a traced value was written into a sparse array at {user_source()} that was made outside of the function.\n"
                "Remedy: K = K.copy() inside the function makes one that takes traced values."
            )
        form = _with_traced_elements(self)
        form[index] = _unwrapped(value)
        self.__dict__[_FORM] = form
        self.__class__ = _stand_in(type(self))

    return lambda args, kwargs: holds_traced(args[1:], kwargs) or is_tracing() and _holds_sparse(args[1:]), own


def sparse_by_name(name: str, original: Callable[..., Any]) -> Answer:
    """A function of sparse arrays, one of which may have traced elements."""

    def is_for_us(args: tuple, kwargs: dict[str, Any]) -> bool:
        return is_tracing() and (holds_traced(args, kwargs) or _holds_sparse(args) or _holds_sparse(kwargs.values()))

    return is_for_us, lambda *args, **kwargs: ours(name)(*_unwrapped(args), **{k: _unwrapped(v) for k, v in kwargs.items()})


def without(remedy: str) -> Callable[[str, Callable[..., Any]], Answer]:
    """A function of sparse arrays that funcad has not: the error says what to take."""

    def answer(name: str, original: Callable[..., Any]) -> Answer:
        def own(*args: Any, **kwargs: Any) -> Any:
            raise TypeError(
                f"{name} was called with traced values at {user_source()}; funcad has no such function.\nRemedy: {remedy}."
            )

        return sparse_by_name(name, original)[0], own

    return answer


def sparse_diagonal(name: str, original: Callable[..., Any]) -> Answer:
    """`K.setdiag(values)` with traced values: elements that are written."""

    def own(self: Any, values: Any, k: int = 0) -> None:
        n = min(self.shape[0] + min(k, 0), self.shape[1] - max(k, 0))
        places = np.arange(min(n, len(values)) if np.ndim(values) else n)
        self[places + max(-k, 0), places + max(k, 0)] = values[: len(places)] if np.ndim(values) else values

    return lambda args, kwargs: holds_traced(args[1:], kwargs), own


def factorizing(name: str, original: Callable[..., Any]) -> Answer:
    """What gives a factorization, whose right-hand sides may be traced later."""
    return lambda args, kwargs: users_call(), sparse_by_name(name, original)[1]


def operator_of(name: str, original: Callable[..., Any]) -> Answer:
    """`aslinearoperator` of a traced matrix."""

    def own(A: Any) -> Any:
        A = _unwrapped(A)
        by, back = (lambda x: A @ x), (lambda x: np.conj(A.T @ np.conj(x)))
        made = scipy_function("sparse.linalg.LinearOperator")
        return made(A.shape, matvec=by, rmatvec=back, matmat=by, rmatmat=back, dtype=A.dtype)

    return lambda args, kwargs: holds_traced(args, kwargs) or is_tracing() and _holds_sparse(args), own


def sparse_beside(name: str, original: Callable[..., Any]) -> Answer:
    """What a sparse array of SciPy's does with one that has traced elements."""
    method = name.rpartition(".")[2]
    own = lambda self, other: getattr(_with_traced_elements(self), method)(_unwrapped(other))
    return lambda args, kwargs: is_tracing() and (holds_traced(args[1:], kwargs) or _holds_sparse(args[1:])), own


def sparse_product(name: str, original: Callable[..., Any]) -> Answer:
    """A sparse matrix times a traced vector or the columns of a matrix, or a sparse array with traced elements."""

    def own(self: Any, x: Any) -> Any:
        if _holds_sparse([x]):
            return _with_traced_elements(self) @ _unwrapped(x)
        x = ours("numpy.asarray")(x)
        columns = self.shape[-1]
        if x.ndim == 0:
            return _with_traced_elements(self) * x
        if self.ndim != 2 or x.ndim > 2 or x.shape[0] != columns:
            raise ValueError(
                f"matmul: dimension mismatch with signature (n,k={columns}),(k={x.shape[0]},m)->(n,m)"
                if self.ndim == 2 and x.ndim <= 2
                else "could not interpret dimensions"
            )
        entries = self.tocoo()
        weights = entries.data if x.ndim == 1 else entries.data[:, None]
        return ours("ops.segment_sum")(weights * x[entries.col], entries.row, num_segments=self.shape[0])

    return lambda args, kwargs: is_tracing() and (holds_traced(args, kwargs) or _holds_sparse(args[1:])), own


def sparse_reflected(name: str, original: Callable[..., Any]) -> Answer:
    """A traced vector or matrix times a sparse matrix."""

    def own(self: Any, x: Any) -> Any:
        if np.ndim(x) == 0:
            return _with_traced_elements(self) * x
        return (self.transpose() @ np.transpose(ours("numpy.asarray")(x))).T

    return holds_traced, own


def _with_traced_elements(matrix: Any) -> Any:
    """The sparse array of funcad's, which can hold what comes of traced values."""
    return ours("scipy.sparse.SparseArray").of(matrix)  # type: ignore[attr-defined]


def sparse_multiply(name: str, original: Callable[..., Any]) -> Answer:
    return holds_traced, lambda self, other: _with_traced_elements(self).multiply(other)


def sparse_quotient(name: str, original: Callable[..., Any]) -> Answer:
    return holds_traced, lambda self, other: _with_traced_elements(self) / other


def operator_product(name: str, original: Callable[..., Any]) -> Answer:
    """A LinearOperator times a vector, or the columns of a matrix: what the user gave for it, without SciPy's checks.

    The array may be traced, or what the user gave closes over traced values.
    """
    method = name.rpartition(".")[2]

    def own(self: Any, x: Any) -> Any:
        rows, columns = self.shape[::-1] if method.startswith("r") else self.shape
        if x.shape[0] != columns or x.ndim > 2 or method.endswith("vec") and x.shape not in ((columns,), (columns, 1)):
            raise ValueError(f"dimension mismatch: a linear operator of shape {self.shape} and an array of shape {x.shape}")
        matrix = getattr(self, "A", None)
        if type(matrix) is np.ndarray:
            found = (matrix.conj().T if method.startswith("r") else matrix) @ x
        else:
            found = getattr(self, f"_{method}")(x)
        return (found if any_traced([found]) else np.asarray(found)).reshape((rows, *x.shape[1:]))

    return lambda args, kwargs: is_tracing() and len(args) == 2 and type(args[1]) in (Tracer, np.ndarray), own


def operator_dot(name: str, original: Callable[..., Any]) -> Answer:
    """`A @ x` and `A.dot(x)` of a LinearOperator and a traced array."""
    own = lambda self, x: self.matvec(x) if x.ndim == 1 else self.matmat(x)
    is_for_us = lambda args, kwargs: is_tracing() and type(args[1]) in (Tracer, np.ndarray) and np.ndim(args[1]) in (1, 2)
    return is_for_us, own


def operator_dtype(name: str, original: Callable[..., Any]) -> Answer:
    """The dtype of a LinearOperator that says none: its product, which may close over traced values, tells."""

    def own(self: Any) -> None:
        found = self._matvec(np.zeros(self.shape[-1], np.int8)) if self.dtype is None else None
        if any_traced([found]):
            self.dtype = found.dtype
        else:
            original(self)

    return lambda args, kwargs: is_tracing(), own


def solving(name: str, original: Callable[..., Any]) -> Answer:
    """A solver that takes a matrix or a LinearOperator, which may close over traced values: its product with zeros tells."""
    is_for_us, own = calling(name, original)

    def flat(*args: Any, **kwargs: Any) -> Any:
        """SciPy's solution of one system is a vector, also of a column: funcad's is like b, as JAX's."""
        found = answered(*args, **kwargs)
        operator = args[0] if args else kwargs["A"]
        if not hasattr(operator, "shape"):
            return found
        return np.ravel(found[0]), found[1]

    def answered(*args: Any, **kwargs: Any) -> Any:
        operator = args[0] if args else kwargs.get("A")
        if _holds_sparse(args) or _holds_sparse(kwargs.values()):
            return ours(name)(*_unwrapped(args), **{k: _unwrapped(v) for k, v in kwargs.items()})
        if not hasattr(operator, "matvec") or any_traced(args) or any_traced(kwargs.values()):
            return own(*args, **kwargs)
        image = operator._matvec(np.zeros(operator.shape[1], operator.dtype))
        return (ours(name) if any_traced([image]) else original)(*args, **kwargs)

    of_one = name.rsplit(".")[-1] in ("bicgstab", "cg", "gmres", "minres")
    return is_for_us, flat if of_one else answered


# -- functions that share one method


def backend(name: str, original: Callable[..., Any]) -> Answer:
    """scipy.fft's functions, which all end in their backend's one method; its own code where funcad has none of that name."""

    def own(method: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        short = method.__name__
        found = ours(f"scipy.fft.{short}") if short in dir(ours("scipy.fft")) else None
        if found is None:
            return own_code(f"scipy.fft.{short}", _of_backend(short))[1](*args, **kwargs)
        return found(*args, **kwargs)

    return lambda args, kwargs: holds_traced(args[1], args[2]), own


def _of_backend(name: str) -> Any:
    return getattr(scipy_function("fft._fftlog_backend"), name)


def of_ufuncs(name: str, original: Callable[..., Any]) -> Answer:
    """The method by which families of ufuncs in scipy.special are called, such as sph_harm_y."""

    def own(self: Any, *args: Any, **kwargs: Any) -> Any:
        called = next(n for n in _FAMILIES if self is scipy_function(f"special.{n}"))
        kwargs = {k: v for k, v in kwargs.items() if v}
        if called == "sph_harm_y":
            return ours("scipy.special.sph_harm_y")(*args, **kwargs)
        if called in ("legendre_p", "assoc_legendre_p") and not kwargs:
            n, *m, z = args
            out = ours("scipy.special.lpmv")(*m, n, z) if m else ours("scipy.special.eval_legendre")(n, z)
            return out[np.newaxis] if np.ndim(self(0, *m and (0,), 0.0)) else out  # along which SciPy's derivatives stand
        how = "".join([f", {k}={v}" for k, v in kwargs.items()])
        raise TypeError(
            f"scipy.special.{called}(...{how}) was called with traced values at {user_source()}; funcad has no such function.\n"
            "Remedy: scipy.special.eval_legendre(n, x), lpmv(m, n, x) or sph_harm_y(n, m, theta, phi) for each degree and "
            "order, and funcad.jvp for derivatives."
        )

    return holds_traced, own


_FAMILIES = (
    "sph_harm_y legendre_p assoc_legendre_p sph_legendre_p sph_harm_y_all legendre_p_all assoc_legendre_p_all "
    "sph_legendre_p_all"
).split()
