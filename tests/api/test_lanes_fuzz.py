"""Random programs of Python's control flow: un-jitted vmap gives what a loop over the lanes gives, values and derivatives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import funcad as fc

_TESTS = ["{a} > {b}", "{a} < {c}", "{a} > {b} and {b} < 1.0", "not {a} > {b} or {a} < {c}", "int({a}) % 2 == 0"]
_VALUES = ["{a} + {b}", "{a} * 0.5", "{a} - {b} * {c}", "np.sin({a})", "{a} * {b}", "{a} / (1.5 + {b} * {b})", "-{a}", "{c}"]
_NAMES = ["x", "y", "z"]


@st.composite
def _line(draw, depth):
    """The lines of one statement."""
    a, b = draw(st.sampled_from(_NAMES)), draw(st.sampled_from(_NAMES))
    fill = {"a": a, "b": b, "c": draw(st.sampled_from(["0.25", "-0.7", "1.1"]))}
    kind = draw(st.sampled_from(["set", "set", "if", "while", "for", "try", "return"] if depth else ["set"]))
    test = draw(st.sampled_from(_TESTS)).format(**fill)
    value = f"{draw(st.sampled_from(_NAMES))} = {draw(st.sampled_from(_VALUES)).format(**fill)}"
    if kind == "set":
        return [value]
    body = ["    " + line for line in draw(_block(depth - 1))]
    if kind == "if":
        other = ["    " + line for line in draw(_block(depth - 1))]
        return [f"if {test}:", *body, "else:", *other]
    if kind == "while":
        n = f"turns{depth}"
        return [f"{n} = 0", f"while ({test}) and {n} < 4:", *body, f"    {n} += 1"]
    if kind == "for":
        return [f"for turn in range(abs(int({a})) % 4):", *body]
    if kind == "try":
        return ["try:", f"    if {test}:", "        raise ValueError", *body, "except ValueError:", f"    {value}"]
    return [f"if {test}:", f"    return {a} + {b}"]


@st.composite
def _block(draw, depth):
    lines = []
    for _ in range(draw(st.integers(1, 2))):
        lines += draw(_line(depth))
    return lines


@st.composite
def programs(draw):
    lines = [line for _ in range(draw(st.integers(1, 3))) for line in draw(_line(2))]
    return "\n    ".join(["def f(x, y):", "z = 0.3 + 0 * x", *lines, "return x + 2 * y - z"])


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=15, deadline=None)
@given(programs(), st.integers(0, 100), st.sampled_from([2, 90]))
def test_as_a_loop(source, seed, n):
    names = {"np": np}
    exec(source, names)
    f = names["f"]
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=n) * 2, np.round(rng.normal(size=n), 1)
    expected = np.array([f(*lane) for lane in zip(x, y)])
    np.testing.assert_allclose(fc.vmap(f)(x, y), expected, rtol=1e-9, atol=1e-9, err_msg=source)
    lanes = slice(0, 6)
    x, y = x[lanes], y[lanes]
    slopes = np.array([fc.grad(f)(*lane) for lane in zip(x, y)])
    np.testing.assert_allclose(fc.vmap(fc.grad(f))(x, y), slopes, rtol=1e-9, atol=1e-9, err_msg=source)
    total = fc.grad(lambda x: np.sum(fc.vmap(f)(x, y)))(x)
    np.testing.assert_allclose(total, slopes, rtol=1e-9, atol=1e-9, err_msg=source)
    if n == 90:
        table = np.concatenate([x, -x, y, -y]).reshape(4, 6)
        nested = fc.vmap(fc.vmap(f, (0, None)), (0, 0))(table, table[:, 0])
        expected = np.array([[f(v, row[0]) for v in row] for row in table])
        np.testing.assert_allclose(nested, expected, rtol=1e-9, atol=1e-9, err_msg=source)
