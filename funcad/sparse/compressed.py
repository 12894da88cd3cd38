"""`jacobian` and `hessian`: a pattern, its compression, and the derivatives that fill it.

Idea: a `Prepared` is a pattern with its compression; its elements are computed by a jitted program: all seeds go through one
batched jvp (of the gradient, for Hessians), heavy rows through one batched vjp. `jacobian(f)` traces f at each call, which
takes as long as f has operations, not as long as its arrays, and looks up what it prepared for the same program and the same
captured arrays. Trap: a pattern that somebody gives may be wrong, and then the elements would be, silently: it is checked once,
in one random direction.
"""

from __future__ import annotations

import functools
import hashlib
import operator
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad import tree
from funcad.api.border import Transformed, api, check_leaves, name_of
from funcad.api.grad import grad
from funcad.api.vjp import jvp, vjp
from funcad.api.vmap import vmap
from funcad.errors import FuncadError, NonDifferentiableInputError
from funcad.flatten_util import ravel_pytree
from funcad.ir.aval import Aval, aval_of, said
from funcad.ir.jaxpr import Jaxpr
from funcad.ir.trace import trace_function
from funcad.ir.tracer import Tracer
from funcad.jitted.jit import jit
from funcad.passes.subprograms import program_key
from funcad.sparse.colouring import Compression, compression_of, symmetric_compression
from funcad.sparse.index_sets import matrix_of, pattern_of

KEPT = 16  # patterns that one `jacobian(f)` remembers

Matrix = Any


def _scipy_sparse() -> Any:
    import scipy.sparse

    return scipy.sparse


class Prepared:
    """A sparse derivative whose pattern is known: call it with the arguments of the function for a CSR array.

    `sparsity` is the pattern, a CSR array of bools; `colors` how many directions one evaluation takes, forward and reverse;
    `values(*args)` the elements alone, in the order of the pattern: an array, which may be traced. It holds for the shapes it
    was prepared for (ValueError for others), whatever their numbers are, as long as the function does the same operations and
    the numbers and arrays that it captures keep their zeros.

    >>> import numpy as np, funcad
    >>> prepared = funcad.sparse.jacobian(lambda x: x[1:] * x[:-1]).prepare(np.ones(4))
    >>> prepared.colors, prepared.sparsity.nnz
    ((2, 0), 6)
    >>> prepared.values(np.arange(4.0))
    array([1., 0., 2., 1., 3., 2.])
    """

    def __init__(
        self,
        pattern: Matrix,
        compression: Compression,
        elements: Callable[..., Any],
        shapes: list[Any],
    ):
        self.sparsity = pattern
        self._elements = elements
        self._shapes = shapes
        self._compression = compression

    @property
    def colors(self) -> tuple[int, int]:
        return self._compression.n_columns, self._compression.n_rows

    def __repr__(self) -> str:
        (m, n), (forward, reverse) = self.sparsity.shape, self.colors
        return f"<sparse derivative, {m} x {n}, {self.sparsity.nnz} elements by {forward} + {reverse} directions>"

    def values(self, *args: Any) -> Any:
        """The elements in the order of the pattern."""
        found = _shapes(args)
        if found != self._shapes:
            raise ValueError(f"this sparse derivative was prepared for arguments of the shapes {self._shapes}, got {found}")
        columns, rows, positions = self._compression
        return self._elements(args, *[(v, np.arange(n)) for v, n in zip((columns, rows), self.colors)], positions)

    def __call__(self, *args: Any) -> Matrix:
        data = self.values(*args)
        if type(data) is Tracer:
            raise FuncadError(
                "funcad.sparse: SciPy's arrays cannot hold traced values.\n"
                "Remedy: inside jit, grad or vmap take the elements alone, prepared.values(x), whose places prepared.sparsity "
                "has; make `prepared = funcad.sparse.jacobian(f).prepare(x)` beforehand."
            )
        parts = (data, self.sparsity.indices.copy(), self.sparsity.indptr.copy())
        return _scipy_sparse().csr_array(parts, shape=self.sparsity.shape)


def _shapes(args: Sequence[Any]) -> list[Any]:
    return [aval_of(x).shape for x in tree.leaves(tuple(args))]


class _CompressedDerivative:
    """What `jacobian` and `hessian` share: the function on vectors whose Jacobian is wanted, and what was prepared for it."""

    def __init__(self, f: Callable[..., Any], what: str, argnum: int, sparsity: Any, chunk_size: int | None, symmetric: bool):
        try:
            operator.index(argnum)
        except TypeError:
            remedy = "Remedy: a call for each argument, or one container."
            raise TypeError(f"{what}: argnums must be one position, got {argnum!r}.\n{remedy}") from None
        self.f, self.what, self.argnum, self.sparsity = f, what, argnum, sparsity
        self.chunk_size, self.symmetric = chunk_size, symmetric

        def elements(args: Any, columns: Any, rows: Any, positions: Any) -> Any:  # it refers to f, which may need buffers
            return self.elements_of(f, args, columns, rows, positions)

        self.elements = jit(elements)
        self.found: OrderedDict[Any, Prepared] = OrderedDict()

    def on_vectors(self, f: Callable[..., Any], args: Sequence[Any]) -> tuple[Callable[[Any], Any], Any]:
        """f, or its gradient, as a function of the chosen argument as a vector, and that vector."""
        if not -len(args) <= self.argnum < len(args):
            raise TypeError(f"{self.what}: argnums={self.argnum}, but there are {len(args)} argument(s)")
        position = self.argnum % len(args)
        check_leaves(tree.leaves(args[position]), f"{self.what} of {name_of(self.f)}: argument", args[position], given=True)
        for x in tree.leaves(args[position]):
            if aval_of(x).dtype.kind != "f":
                raise NonDifferentiableInputError(
                    f"{self.what}: the argument must be real floats, got {said(x)}.\n"
                    "Remedy: convert it with .astype(float); take the real and imaginary parts of complex arrays as two."
                )
        vector, tree_of = ravel_pytree(args[position])
        chosen = grad(f, position) if self.symmetric else f

        def on_vector(v: Any) -> Any:
            out = chosen(*args[:position], tree_of(v), *args[position + 1 :])
            flat = ravel_pytree(out)[0]
            if aval_of(flat).dtype.kind != "f":
                raise NonDifferentiableInputError(
                    f"{self.what}: the output of {name_of(self.f)} must be real floats, got {said(flat)}.\n"
                    "Remedy: give its real and imaginary parts as two arrays."
                )
            return flat

        return on_vector, vector

    def elements_of(self, f: Callable[..., Any], args: Any, columns: Any, rows: Any, positions: Any) -> Any:
        f, x = self.on_vectors(f, args)
        dtype = aval_of(x).dtype
        parts = []
        if len(columns[1]):
            push = lambda c: jvp(f, (x,), ((columns[0] == c).astype(dtype),))[1]
            parts.append(fnp.ravel(vmap(push, chunk_size=self.chunk_size)(columns[1])))
        if len(rows[1]):
            out, pull = vjp(f, x)
            back = lambda c: pull((rows[0] == c).astype(aval_of(out).dtype))[0]
            parts.append(fnp.ravel(vmap(back, chunk_size=self.chunk_size)(rows[1])))
        if not parts:
            return fnp.zeros(0, dtype)
        dtype = np.result_type(*[aval_of(p).dtype for p in parts])
        return fnp.concatenate([p.astype(dtype) for p in parts])[positions]

    def program(self, args: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
        """The function, traced: (captured arrays and other arguments, vector) -> vector."""
        given, position = self.f, self.argnum % max(1, len(args))
        _, vector = self.on_vectors(given, args)
        leaves, structure = tree.flatten(tuple(args[:position]) + tuple(args[position + 1 :]))
        avals = [Aval(a.shape, a.dtype, a.weak) for a in [*map(aval_of, leaves), aval_of(vector)]]
        tree_of = ravel_pytree(args[position])[1]

        def flat(*values: Any) -> list[Any]:
            others = structure.unflatten(values[:-1])
            full = (*others[:position], tree_of(values[-1]), *others[position:])
            f, v = self.on_vectors(given, full)
            return [f(v)]

        return trace_function(flat, avals, name=f"{self.what}({name_of(self.f)})")

    def prepared(self, args: Sequence[Any]) -> Prepared:
        given = self.sparsity is not None
        if given:
            key: Any = tuple(_shapes(args))
        else:
            jaxpr, consts = self.program(args)
            key = _key(jaxpr, consts)
        found = self.found.pop(key, None)
        if found is None:
            found = self._prepare(args, self._given(args) if given else pattern_of(jaxpr, consts))
            if given:
                self._checked(found, args)
        if key is not None:
            self.found[key] = found
        while len(self.found) > KEPT:
            self.found.popitem(last=False)
        return found

    def _prepare(self, args: Sequence[Any], pattern: Matrix) -> Prepared:
        if self.symmetric:
            pattern = (pattern + pattern.T).tocsr()
            pattern.sort_indices()
        compression = (symmetric_compression if self.symmetric else compression_of)(pattern)
        return Prepared(pattern, compression, self.elements, _shapes(args))

    def _given(self, args: Sequence[Any]) -> Matrix:
        """The user's pattern."""
        sparse = _scipy_sparse()
        given = sparse.coo_array(self.sparsity if sparse.issparse(self.sparsity) else np.asarray(self.sparsity))
        pattern = matrix_of(given.coords[0], given.coords[1], given.shape)
        pattern.sum_duplicates()
        f, x = self.on_vectors(self.f, args)
        shape = (aval_of(f(x)).size, aval_of(x).size)
        if pattern.shape != shape:
            raise ValueError(f"{self.what}: sparsity has the shape {pattern.shape}, the derivative {shape}")
        return pattern

    def _checked(self, prepared: Prepared, args: Sequence[Any]) -> None:
        """ValueError if the pattern that was given misses elements: the product with one random direction tells."""
        f, x = self.on_vectors(self.f, args)
        direction = np.random.default_rng(0).uniform(1, 2, aval_of(x).shape).astype(aval_of(x).dtype)
        _, expected = jvp(f, (x,), (direction,))
        if type(expected) is Tracer:
            return
        data = prepared.values(*args)
        matrix = _scipy_sparse().csr_array((data, prepared.sparsity.indices, prepared.sparsity.indptr), prepared.sparsity.shape)
        got, scale = matrix @ direction, abs(matrix) @ abs(direction) + abs(expected)
        off = abs(got - expected) > 10 * np.finfo(expected.dtype).eps ** 0.5 * scale
        if (off & np.isfinite(expected) & np.isfinite(got)).any():
            row = int(np.flatnonzero(off)[0])
            raise ValueError(
                f"{self.what}: the pattern sparsity= misses elements, in row {row} for one.\n"
                "Remedy: leave sparsity out, and funcad finds it; or give a larger one."
            )


def _key(jaxpr: Jaxpr, consts: Sequence[Any]) -> Any:
    """What the pattern depends on: the program and what it captures; None if that cannot be compared."""

    def of_program(inner: Jaxpr) -> Any:
        return program_key(inner, of_program)

    try:
        key = (of_program(jaxpr), *[_digest(c) for c in consts])
        hash(key)
    except TypeError:
        return None
    return key


def _digest(x: Any) -> Any:
    if type(x) is not np.ndarray:
        return id(type(x)) if type(x) is Tracer else (type(x), aval_of(x))
    return (x.shape, x.dtype.str, hashlib.blake2b(np.ascontiguousarray(x), digest_size=16).digest())


def _public(derivative: _CompressedDerivative, f: Any, again: Callable[..., Any]) -> Any:
    @api
    def derivative_function(*args: Any, **kwargs: Any) -> Matrix:
        if kwargs:
            names = ", ".join(kwargs)
            raise TypeError(f"{derivative.what} of {name_of(f)} takes its arguments by position, not {names} by name")
        return derivative.prepared(args)(*args)

    @api
    def prepare(*args: Any) -> Prepared:
        """The pattern for arguments like these, and a function that computes the elements."""
        return derivative.prepared(args)

    public = Transformed(derivative_function, f, again)
    public.prepare = prepare
    return public


@api
def jacobian(
    f: Callable[..., Any], argnums: int = 0, *, sparsity: Any = None, chunk_size: int | None = None
) -> Callable[..., Any]:
    """The Jacobian as a sparse array: its pattern found from f's program, its elements by few derivatives.

    `jacobian(f)(*args)` is a SciPy csr_array of shape (outputs, inputs), of the argument at position `argnums` and of f's
    output, each a real array or a pytree of them, taken as one vector (in C order, leaf after leaf). The pattern holds for all
    values of that argument: it is found once for a program and the arrays that f captures (the other arguments count by their
    shapes), and may be larger than the elements that are not zero. `sparsity=`, a SciPy sparse array or a mask, is taken
    instead; ValueError if a check in a random direction shows that it misses elements. `chunk_size` directions are taken at a
    time (None: all). `jacobian(f).prepare(*args)` gives a `Prepared`, which computes without looking at f's program again.

    f is traced with abstract values (TracerBoolConversionError for `if` on values: give `sparsity`). FuncadError if the
    pattern is too dense to be one; NonDifferentiableInputError for integer and complex arguments. JAX has no such function.

    >>> import numpy as np, funcad
    >>> funcad.sparse.jacobian(lambda x: x[1:] * x[:-1])(np.arange(4.0)).toarray()
    array([[1., 0., 0., 0.],
           [0., 2., 1., 0.],
           [0., 0., 3., 2.]])
    """
    derivative = _CompressedDerivative(f, "sparse.jacobian", argnums, sparsity, chunk_size, False)
    return _public(derivative, f, functools.partial(jacobian, argnums=argnums, sparsity=sparsity, chunk_size=chunk_size))


@api
def hessian(
    f: Callable[..., Any], argnums: int = 0, *, sparsity: Any = None, chunk_size: int | None = None
) -> Callable[..., Any]:
    """The matrix of second derivatives of a number as a sparse, symmetric array, forward over reverse.

    Arguments, results and errors as of `jacobian`; f returns one number of shape () (else NonScalarOutputError). A star
    colouring says which columns are computed together: two directions for an arrow, three for a tridiagonal matrix.

    >>> import numpy as np, funcad
    >>> funcad.sparse.hessian(lambda x: np.sum(x[1:] * x[:-1] ** 2))(np.arange(3.0)).toarray()
    array([[2., 0., 0.],
           [0., 4., 2.],
           [0., 2., 0.]])
    """
    derivative = _CompressedDerivative(f, "sparse.hessian", argnums, sparsity, chunk_size, True)
    return _public(derivative, f, functools.partial(hessian, argnums=argnums, sparsity=sparsity, chunk_size=chunk_size))
