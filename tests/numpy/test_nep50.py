"""NEP 50: result dtype *and* type of operators and functions against NumPy, un-jitted under differentiation and jitted.

Weak (Python) scalars give Python scalars between each other with operators, and NumPy scalars with functions; rank-0 results
are NumPy scalars otherwise. Out-of-range Python integers raise OverflowError as NumPy.
"""

import operator
import warnings

import numpy as np
import pytest

import funcad

DTYPES = [np.bool_, np.int8, np.uint8, np.int64, np.float16, np.float32, np.float64, np.complex64, np.complex128]
PYTHON = [True, 3, 2.5, 1 + 2j]
STRONG = [make(d) for d in DTYPES for make in (lambda d: d(2), lambda d: np.array(2, d), lambda d: np.array([1, 2], d))]
OPERANDS = PYTHON + STRONG

OPERATORS = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
    "lt": operator.lt,
    "eq": operator.eq,
    "and": operator.and_,
    "lshift": operator.lshift,
}
FUNCTIONS = {
    name: getattr(np, name)
    for name in (
        "add subtract multiply divide floor_divide remainder power arctan2 maximum less equal bitwise_and left_shift hypot "
        "logical_and copysign"
    ).split()
}
UNARY_OPERATORS = {"neg": operator.neg, "abs": operator.abs, "pos": operator.pos, "invert": operator.invert}
UNARY_FUNCTIONS = {
    name: getattr(np, name)
    for name in "negative absolute sin sqrt floor sign square reciprocal conjugate isnan invert rint sum mean prod max".split()
}


def label(x):
    kind = "python" if type(x) in (bool, int, float, complex) else "scalar" if isinstance(x, np.generic) else f"{x.ndim}d"
    return f"{kind}-{getattr(x, 'dtype', type(x).__name__)}"


def outcome(f, *args):
    """The result, or the class of the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return f(*args)
        except (TypeError, OverflowError, ValueError) as error:
            return TypeError if isinstance(error, TypeError) else type(error)


def check(actual, expected, what):
    if isinstance(expected, type):
        assert isinstance(actual, type) and issubclass(actual, expected), (
            f"{what}: expected {expected.__name__}, got {actual!r}"
        )
        return
    assert type(actual) is type(expected), f"{what}: {type(actual).__name__} {actual!r}, NumPy gives {type(expected).__name__}"
    if isinstance(expected, np.ndarray | np.generic):
        assert actual.dtype == expected.dtype and actual.shape == expected.shape, f"{what}: {actual.dtype} {actual.shape}"
    np.testing.assert_allclose(
        actual, expected, rtol=2e-3 if "16" in str(getattr(expected, "dtype", "")) else 1e-6, err_msg=what
    )


def pairs(name):
    if name == "pow" and (np.array(True) ** np.float16(2)).dtype != np.float16:
        pytest.skip("before NumPy 2.3, x ** y of rank 0 may forget the dtype of the other operand")
    for x in OPERANDS:
        for y in OPERANDS:
            yield x, y


def inexact(x):
    return np.asarray(x).dtype.kind in "fc"


def followed(f, *args):
    """The un-jitted value with the inexact arguments traced."""

    def primal(*traced):
        it = iter(traced)
        return f(*[next(it) if inexact(a) else a for a in args])

    traced = tuple(a for a in args if inexact(a))
    tangents = tuple(np.ones_like(a)[()] if type(a) not in (float, complex) else type(a)(1) for a in traced)
    return outcome(lambda: funcad.jvp(primal, traced, tangents)[0])


def expected_of(f, *args):
    result = outcome(f, *args)
    return result[()] if isinstance(result, np.ndarray) and not result.ndim else result


@pytest.mark.share(6)
@pytest.mark.parametrize("name", [*OPERATORS, *(f"np.{name}" for name in FUNCTIONS)])
def test_followed(name):
    f = OPERATORS.get(name) or FUNCTIONS[name[3:]]
    for x, y in pairs(name):
        if inexact(x) or inexact(y):
            check(followed(f, x, y), expected_of_pair(f, x, y), f"{name}({label(x)}, {label(y)})")


@pytest.mark.share(6)
@pytest.mark.parametrize("name", [*OPERATORS, *(f"np.{name}" for name in FUNCTIONS)])
def test_jitted(name):
    """One program for all pairs that NumPy accepts; one each for those that it refuses."""
    f = OPERATORS.get(name) or FUNCTIONS[name[3:]]
    expected = [(x, y, expected_of_pair(f, x, y)) for x, y in pairs(name)]
    refused = [(x, y, e) for x, y, e in expected if isinstance(e, type)]
    accepted = [(x, y, e) for x, y, e in expected if not isinstance(e, type)]
    results = funcad.jit(lambda xs, ys: [f(x, y) for x, y in zip(xs, ys)])(
        [x for x, _, _ in accepted], [y for _, y, _ in accepted]
    )
    for (x, y, e), r in zip(accepted, results):
        check(r, e, f"jit {name}({label(x)}, {label(y)})")
    for x, y, e in refused[::5]:
        check(outcome(funcad.jit(f), x, y), e, f"jit {name}({label(x)}, {label(y)})")


def expected_of_pair(f, x, y):
    expected = expected_of(f, x, y)
    if {type(x), type(y)} == {complex, np.float64} and type(expected) in (complex, bool):
        return np.asarray(expected)[()]  # np.float64 is a float to Python's complex; NumPy's own rule says complex128
    return expected


@pytest.mark.share(3)
@pytest.mark.parametrize("name", [*UNARY_OPERATORS, *UNARY_FUNCTIONS])
@pytest.mark.parametrize("how", ["follow", "jit"])
def test_unary(name, how):
    f = {**UNARY_OPERATORS, **UNARY_FUNCTIONS}[name]
    for x in OPERANDS:
        if how == "follow" and not inexact(x):
            continue
        expected = expected_of(f, x)
        actual = followed(f, x) if how == "follow" else outcome(funcad.jit(f), x)
        check(actual, expected, f"{name}({label(x)}) {how}")


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64])
def test_python_integers_out_of_range(dtype):
    big = 300 if dtype is not np.int64 else 2**63
    x = np.array([1, 2], dtype)
    for f in (lambda x: x + big, lambda x: big * x, lambda x: np.add(x, big), lambda x: np.maximum(x, -(2**70))):
        with pytest.raises(OverflowError):
            f(x)
        with pytest.raises(OverflowError):
            funcad.jit(f)(x)
    for f in (lambda x: x < big, lambda x: big == x, lambda x: np.greater(x, big), lambda x: np.not_equal(-(2**70), x)):
        result = funcad.jit(f)(x)
        np.testing.assert_array_equal(result, f(x))
        assert result.dtype == bool


def test_gradient_has_its_arguments_dtype():
    for x in (2.5, np.float64(2.5), np.float32(2.5), np.float16(2.5), np.array([1.0, 2.0], np.float32)):
        g = funcad.grad(lambda x: np.sum(x * np.float64(3.0) + 1))(x)
        assert np.asarray(g).dtype == np.asarray(x).dtype
        assert np.shape(g) == np.shape(x)


def test_weak_stays_weak_through_operators_only():
    value = funcad.value_and_grad(lambda x: x * 2.0 + 1)(1.5)[0]
    assert type(value) is float and value == 4.0
    value = funcad.value_and_grad(lambda x: np.multiply(x, 2.0))(1.5)[0]
    assert type(value) is np.float64
    assert type(funcad.jit(lambda x: x * 2.0)(1.5)) is float
    assert type(funcad.jit(lambda x: np.multiply(x, 2.0))(1.5)) is np.float64
    assert funcad.jit(lambda x: x * np.ones(2, np.float32))(1.5).dtype == np.float32


@pytest.mark.parametrize(
    "f, x",
    [
        (lambda x: np.power(x, 30), 10),
        (lambda x: np.power(x, x), 2**40),
        (lambda x: np.add(x, x), 2**62),
        (lambda x: np.multiply(x, x), 2**40),
        (lambda x: np.subtract(x, 2), -(2**63)),
        (np.negative, -(2**63)),
        (np.square, 2**40),
        (lambda x: np.left_shift(x, 70), 1),
        (lambda x: np.maximum(x, 3), 5),
        (lambda x: np.add(x, x), True),
        (lambda x: np.floor_divide(x, 0), 3),
    ],
)
def test_ufuncs_of_pythons_integers_compute_in_64_bits(f, x):
    """The operators are Python's, and have as many bits as it takes; np.power(10, 30) is NumPy's."""
    jitted = funcad.jit(f)
    with np.errstate(all="ignore"):
        expected = f(x)
        for _ in range(3):
            found = jitted(x)
            assert type(found) is type(expected) and found == expected


def test_negative_powers_of_integers_raise_as_numpys():
    with pytest.raises(ValueError, match="negative integer powers"):
        funcad.jit(lambda x: np.power(x, -1))(10)
    assert funcad.jit(lambda x: x**30)(10) == 10**30


TANGENT_PROGRAMS = {
    "product": lambda x: x * x,
    "identity": lambda x: x,
    "constant": lambda x: 3.0,
    "while_loop": lambda x: funcad.while_loop(lambda s: s < 10.0, lambda s: s * s, x),
    "scan": lambda x: funcad.scan(lambda c, _: (c * 2, None), x, None, length=3)[0],
    "fori_loop": lambda x: funcad.fori_loop(0, 3, lambda i, c: c * c, x),
    "cond": lambda x: funcad.cond(x > 1, lambda a: a * 2, lambda a: a, x),
    "checkpoint": funcad.checkpoint(lambda x: x * 2),
    "jit": funcad.jit(lambda x: x * 2),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", TANGENT_PROGRAMS)
@pytest.mark.parametrize("tangent", [1.0, np.float64(1.0), np.array(1.0), 1], ids=repr)
@pytest.mark.parametrize("engine", ["interpreter", "numpy", "native"])
def test_tangents_of_python_floats_are_numpys(name, tangent, engine):
    if engine == "native":
        pytest.importorskip("llvmlite", reason="the native engine needs llvmlite")
    f = TANGENT_PROGRAMS[name]
    pushed = lambda x, t: funcad.jvp(f, (x,), (t,))
    expected = pushed(1.5, tangent)
    assert [type(v) for v in expected] == [float, np.float64]
    with funcad.config.set(engine=engine):
        jitted = funcad.jit(pushed)
        for _ in range(4):
            found = jitted(1.5, tangent)
            assert found == expected and [type(v) for v in found] == [float, np.float64]
