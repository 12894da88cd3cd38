"""Python's operators, attributes and methods of traced values, against NumPy's arrays."""

import ast
import inspect
import operator
import sys

import numpy as np
import pytest

import funcad
import funcad.numpy as fnp
from funcad.ir.tracer import Tracer
from funcad.numpy.methods import METHODS as TABLE
from funcad.primitives.conversion import stop_gradient

X = np.array([[1.5, -2.0, 0.25], [3.0, 0.5, -1.0]])
Y = np.array([0.5, 2.0, -1.5])
INTS = np.array([5, -3, 2])

BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


def traced(f, *args):
    """The value of f un-jitted, with float arguments traced, and jitted; both must agree."""
    floats = tuple(a for a in args if np.asarray(a).dtype.kind in "fc")

    def primal(*values):
        it = iter(values)
        return f(*[next(it) if np.asarray(a).dtype.kind in "fc" else a for a in args])

    jitted = funcad.jit(f)(*args)
    if not floats:
        return jitted
    followed = funcad.jvp(primal, floats, tuple(np.ones_like(a) for a in floats))[0]
    assert type(followed) is type(jitted)
    np.testing.assert_array_equal(followed, jitted)
    return followed


@pytest.mark.share(3)
@pytest.mark.parametrize("op", BINARY + COMPARISONS)
def test_binary(op):
    for other in (2.0, 3, True, np.float32(2), np.float64(0.5), np.array(2.0), Y, X, [1.0, 2.0, 4.0], INTS):
        np.testing.assert_array_equal(traced(lambda x, o=other: op(x, o), X), op(X, other))
        np.testing.assert_array_equal(traced(lambda x, o=other: op(o, x), X), op(other, X))
    np.testing.assert_array_equal(traced(op, X, Y), op(X, Y))


@pytest.mark.parametrize("op", BITS)
def test_bits(op):
    for other in (2, np.int8(1), np.array([1, 2, 0])):
        assert traced(lambda x, o=other: op(x, o), np.abs(INTS)).tolist() == op(np.abs(INTS), other).tolist()
    with pytest.raises(TypeError):
        funcad.grad(lambda x: op(x, x))(1.0)


def test_unary():
    for op in (operator.neg, operator.pos, operator.abs):
        np.testing.assert_array_equal(traced(op, X), op(X))
    assert traced(operator.invert, INTS).tolist() == (~INTS).tolist()
    np.testing.assert_array_equal(traced(lambda x: ~(x > 0), X), ~(X > 0))
    with pytest.raises(TypeError):
        funcad.jit(lambda b: -b)(np.array([True]))
    with pytest.raises(TypeError):
        funcad.jit(lambda a, b: a - b)(np.array([True]), np.array([False]))


def test_matmul():
    np.testing.assert_allclose(traced(operator.matmul, X, X.T.copy()), X @ X.T)
    np.testing.assert_allclose(traced(lambda x: Y @ x.T, X), Y @ X.T)
    with pytest.raises(ValueError, match="mismatch in its core dimension"):
        funcad.jit(operator.matmul)(X, X)
    with pytest.raises(ValueError, match="does not have enough dimensions"):
        funcad.jit(operator.matmul)(X, 2.0)


@pytest.mark.parametrize("exponent", [2, 3, -1, 0, 1, 0.5, 2.0, 3.0, -0.5, 2.5, np.float64(2), np.array([1.0, 2.0, 3.0])])
def test_powers(exponent):
    x = np.abs(X)
    np.testing.assert_array_equal(traced(lambda x: x**exponent, x), x**exponent)
    t = funcad.jvp(lambda x: x**exponent, (x,), (np.ones_like(x),))[1]
    np.testing.assert_allclose(t, exponent * x ** (exponent - np.float64(1.0)), rtol=1e-12)


def test_cheap_powers_are_recorded():
    text = str(funcad.jit(lambda x: x**2 + x**0.5 + x**-1).lower(np.ones(3)).jaxpr)
    assert "integer_pow[n=2]" in text and "sqrt" in text and "integer_pow[n=-1]" in text


def test_second_derivative_of_a_cube_at_zero():
    assert funcad.grad(funcad.grad(lambda x: x**3.0))(0.0) == 0.0
    assert funcad.jvp(lambda x: x**0, (0.0,), (1.0,))[1] == 0.0


def test_integer_powers():
    assert funcad.jit(lambda n: n**2)(np.array([2, 3])).tolist() == [4, 9]
    with pytest.raises(ValueError, match="negative integer powers"):
        funcad.jit(lambda n: n**-1)(np.array([2, 3]))


def test_what_is_no_operand_has_its_say():
    class Other:
        def __radd__(self, x):
            return "mine"

        def __rmatmul__(self, x):
            return "mine"

        def __rpow__(self, x):
            return "mine"

        def __rand__(self, x):
            return "mine"

    for op in (operator.add, operator.matmul, operator.pow, operator.and_):
        assert funcad.vmap(lambda x, op=op: [x, op(x, Other()) == "mine" or x][0])(Y).shape == (3,)
        seen = []
        funcad.grad(lambda x, op=op, seen=seen: seen.append(op(x, Other())) or x)(1.0)
        assert seen == ["mine"]
    for op in (*BINARY, operator.pow, operator.matmul, operator.lt, operator.and_, operator.lshift):
        for other in (None, "a", object(), {}):
            with pytest.raises(TypeError):
                funcad.grad(lambda x, op=op, other=other: op(x, other))(1.0)


def test_comparison_with_none_and_strings():
    def f(x):
        assert (x == None) is False and (x != None) is True  # noqa: E711
        assert (x == "a") is False and x != "a"
        y = x * np.ones(2)
        assert (y == None).tolist() == [False, False]  # noqa: E711
        assert (y != "a").tolist() == [True, True]
        assert (x == object()) is False
        return x

    assert funcad.grad(f)(1.5) == 1.0
    assert funcad.jit(f)(1.5) == 1.5


def test_round_contains_iteration():
    def f(x):
        assert round(x[0]) == 2 and isinstance(round(x[0]), int)
        assert 0.25 in x and 7.0 not in x
        assert len(x) == 3 and [float(stop_gradient(v)) for v in x] == [1.5, -2.0, 0.25]
        a, b, c = x
        return round(a, 1) + b * c

    np.testing.assert_allclose(funcad.grad(f)(X[0]), [0.0, 0.25, -2.0])
    assert funcad.jit(lambda x: round(x))(2.5) == 2


METHODS = [
    ("T", lambda x: x.T),
    ("mT", lambda x: x.mT),
    ("real", lambda x: x.real),
    ("imag", lambda x: (x * 1j).imag),
    ("sum", lambda x: x.sum(axis=0)),
    ("mean", lambda x: x.mean(1, keepdims=True)),
    ("max", lambda x: x.max()),
    ("min", lambda x: x.min(axis=1)),
    ("prod", lambda x: x.prod(0)),
    ("std", lambda x: x.std(axis=1, ddof=1)),
    ("var", lambda x: x.var()),
    ("argmax", lambda x: x.argmax(axis=1)),
    ("argmin", lambda x: x.argmin()),
    ("any", lambda x: (x > 0).any()),
    ("all", lambda x: (x > 0).all(axis=0)),
    ("cumsum", lambda x: x.cumsum(axis=1)),
    ("cumprod", lambda x: x.cumprod()),
    ("dot", lambda x: x.dot(Y)),
    ("reshape", lambda x: x.reshape(3, 2)),
    ("reshape tuple", lambda x: x.reshape((3, -1), order="F")),
    ("reshape one", lambda x: x.reshape(-1)),
    ("ravel", lambda x: x.ravel()),
    ("flatten", lambda x: x.flatten("F")),
    ("transpose", lambda x: x.transpose()),
    ("transpose axes", lambda x: x.transpose(1, 0)),
    ("transpose tuple", lambda x: x.transpose((1, 0))),
    ("swapaxes", lambda x: x.swapaxes(0, 1)),
    ("squeeze", lambda x: x[:1].squeeze(0)),
    ("astype", lambda x: x.astype(np.float32)),
    ("copy", lambda x: x.copy()),
    ("conj", lambda x: x.conj()),
    ("conjugate", lambda x: (x * 1j).conjugate()),
    ("clip", lambda x: x.clip(-1, 1)),
    ("clip max", lambda x: x.clip(max=0.5)),
    ("round", lambda x: x.round(1)),
    ("diagonal", lambda x: x.diagonal(1)),
    ("trace", lambda x: x.trace()),
    ("take", lambda x: x.take([0, 2], axis=1)),
    ("repeat", lambda x: x.repeat(2, axis=0)),
    ("argsort", lambda x: x.argsort(axis=0)),
    ("searchsorted", lambda x: x[:, 2].cumsum().searchsorted(0.1)),
    ("ptp", lambda x: np.ptp(x, axis=1)),
    ("compress", lambda x: x.compress([True, False, True], axis=1)),
    ("choose", lambda x: np.choose((x > 0).astype(int), [x, -x])),
]


@pytest.mark.parametrize("name, f", METHODS, ids=[m[0] for m in METHODS])
def test_methods(name, f):
    np.testing.assert_allclose(traced(f, X), f(X), rtol=1e-14)


def test_attributes():
    def f(x):
        assert (x.shape, x.ndim, x.size, x.dtype, x.itemsize, x.nbytes) == ((2, 3), 2, 6, np.float64, 8, 48)
        assert x.device == "cpu" and x.block_until_ready() is x
        assert x.__array_namespace__() is fnp.array_api and isinstance(x, fnp.ndarray)
        assert x.strides == (24, 8) and x.flags.c_contiguous
        with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
            x.nonsense  # noqa: B018
        with pytest.raises(TypeError, match="y = np.resize"):
            x.resize(3)
        assert not hasattr(x, "__array_interface__")
        return x.at[0, 1].set(2.0).sum()

    np.testing.assert_array_equal(funcad.grad(f)(X), [[1.0, 0.0, 1.0], [1.0, 1.0, 1.0]])
    np.testing.assert_array_equal(funcad.jit(funcad.grad(f))(X), [[1.0, 0.0, 1.0], [1.0, 1.0, 1.0]])


WITHOUT_MEMORY = ["base", "ctypes", "data"]  # which libraries take for memory that they can read
GONE = ["itemset", "newbyteorder", "ptp", "tostring"]  # before NumPy 2.3 they are there, and raise or are deprecated


@pytest.mark.parametrize("way", ["grad", "jvp", "vmap", "jit", "jit of grad"])
def test_a_traced_array_has_what_arrays_have(way):
    def f(x):
        names = [name for name in dir(np.ndarray) if name[0] != "_" and name not in GONE]
        assert [name for name in names if not hasattr(x, name)] == WITHOUT_MEMORY
        for name in ("tobytes", "dumps", "byteswap"):
            with pytest.raises(TypeError, match=rf"x\.{name}\(\) of a traced value at .*, which has no memory of its own"):
                getattr(x, name)()
        return np.sum(x)

    ways = {"grad": funcad.grad(f), "jvp": lambda x: funcad.jvp(f, (x,), (x,)), "vmap": lambda x: funcad.vmap(f)(x[None])}
    ways |= {"jit": funcad.jit(f, guards=False), "jit of grad": funcad.jit(funcad.grad(f), guards=False)}
    for _ in range(3):
        ways[way](X)
    assert not funcad.grad(lambda x: x * hasattr(x, "tobytes"))(2.0)  # as Python's numbers have not
    assert funcad.grad(lambda x: x * hasattr(x, "tobytes"))(np.float64(2.0)) == 1.0


def test_nonzero_method():
    seen = funcad.grad(lambda x: x[x.nonzero()].sum())(np.array([0.0, 2.0]))
    np.testing.assert_array_equal(seen, [0.0, 1.0])


def test_numpy_scalars_and_arrays_on_the_left():
    def f(x):
        for left in (np.float64(2.0), np.float32(2.0), np.array(2.0), np.array([2.0, 3.0]), np.int64(2)):
            result = left * x
            assert hasattr(result, "aval"), type(result)
            x = np.sum(result) / np.sum(left)
        return x

    np.testing.assert_allclose(funcad.grad(f)(1.5), 1.0)
    np.testing.assert_allclose(funcad.jit(f)(1.5), 1.5)


def test_division_of_integers_by_what_their_dtype_does_not_hold():
    x = np.arange(3, dtype=np.int8)
    for f in (lambda x: x / 300, lambda x: -300 / (x + 1)):
        result = funcad.jit(f)(x)
        assert result.dtype == f(x).dtype
        np.testing.assert_array_equal(result, f(x))
    assert funcad.jit(lambda n, x: n / x)(-3, np.uint8(2)) == -1.5


def test_refused_as_numpy_refuses():
    for f in (lambda x: x << 1, lambda x: 1.5 >> x):
        with pytest.raises(TypeError, match="shift' not supported for the input types"):
            funcad.jit(f)(np.ones(2))
    with pytest.raises(TypeError, match="unsupported operand type"):
        funcad.jit(lambda x: pow(x, 2, 3))(2)


@pytest.mark.parametrize("exponent", [np.float64(1.0), np.float64(2.0), np.float32(1.0), np.float32(2.5)])
def test_a_python_float_to_a_numpy_power_is_numpys(exponent):
    for result in (funcad.jvp(lambda x: x**exponent, (1.5,), (1.0,))[0], funcad.jit(lambda x: x**exponent)(1.5)):
        assert type(result) is type(1.5**exponent) and result == 1.5**exponent


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("make", [lambda: np.ma.array([1.0, 2.0], mask=[False, True]), lambda: np.matrix([1.0, 2.0])])
def test_arrays_with_operators_of_their_own_are_refused_as_arguments(make):
    odd = make()
    with pytest.raises(TypeError, match="computes with plain arrays"):
        funcad.grad(np.sum)(odd)
    if type(odd) is np.matrix:
        with pytest.raises(TypeError, match="computes with plain arrays"):
            funcad.grad(lambda x: np.sum(x * odd))(np.ones(2))
    else:
        np.testing.assert_array_equal(funcad.grad(lambda x: np.sum(x * odd))(np.ones(2)), [1.0, 0.0])


def test_operators_stand_in_one_table() -> None:
    """The class has the functions of the table themselves, and no method of its own under such a name that would never run."""
    (body,) = [n for n in ast.parse(inspect.getsource(sys.modules["funcad.ir.tracer"])).body if isinstance(n, ast.ClassDef)]
    own = {n.name for n in body.body if isinstance(n, ast.FunctionDef)}
    assert len(TABLE) > 40 and own.isdisjoint(TABLE)
    assert all(vars(Tracer)[name] is function for name, function in TABLE.items())
    assert Tracer.namespace is funcad
