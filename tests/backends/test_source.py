"""Programs as modules of their own: `source_of`, `export_to`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import cond, grad, jit, jvp, pure_callback, scan, switch, tree, vjp, vmap, while_loop
from funcad.backends import number_lines
from funcad.backends.emission import generate
from funcad.backends.source import argument_names, export_to, source_of
from funcad.ir.aval import Stack
from funcad.passes.fuse import fuse
from tests import standin
from tests.agreement import same_bits
from tests.specs import all_specs

pytestmark = pytest.mark.share(2)  # of its tables of cases

W = np.linspace(-1.0, 1.0, 12).reshape(4, 3)
LARGE = np.linspace(0.0, 1.0, 5000)


def model(x: Any, b: Any) -> Any:
    hidden = np.tanh(x @ W + b)
    loss = np.sum(hidden * hidden) + np.cumsum(hidden, axis=1)[0, -1]
    return loss


def recurrent(x: Any, w: Any) -> Any:
    def step(h: Any, row: Any) -> Any:
        h = np.tanh(h @ w + row)
        return h, np.sort(h)

    return scan(step, np.zeros(4), x)


def run(text: str, *args: Any) -> list[Any]:
    module: dict[str, Any] = {}
    exec(compile(text, "exported", "exec"), module)
    return module["run"](*args)  # type: ignore[no-any-return]


def lowered(f: Any, *args: Any) -> tuple[Any, list[Any]]:
    low = jit(f).lower(*args)
    return low.jaxpr, list(low._entry.consts)


PROGRAMS = {
    "model": (model, np.ones((2, 4)), np.ones(3)),
    "gradient": (grad(model), np.ones((2, 4)), np.ones(3)),
    "recurrent": (recurrent, np.linspace(0, 1, 20).reshape(5, 4), np.eye(4)),
    "captured": (lambda x: x * LARGE + 1.0, np.ones(5000)),
    "branches": (lambda x: funcad.cond(np.sum(x) > 0, np.sin, lambda x: x * 2.0, x), np.ones(3)),
    "loop": (lambda x: funcad.while_loop(lambda s: np.sum(s) < 9.0, lambda s: s * 1.5, x), np.ones(3)),
    "special": (lambda x: funcad.scipy.special.erf(x) * funcad.scipy.special.gammaln(x), np.linspace(1, 2, 3)),
    "linear algebra": (lambda a: (np.linalg.inv(a), *np.linalg.qr(a)), np.eye(3) + 0.1),
    "scalar": (lambda x: 2 * x + np.float32(3.0), np.float32(0.5)),
    "numbers": (lambda x: (np.where(x > 0, np.inf, -0.0), x + (1 - 2j), x * np.nan), np.ones(3)),
}


@pytest.mark.parametrize("name", list(PROGRAMS))
@pytest.mark.parametrize("passes", [lambda j: j, fuse], ids=["plain", "fused"])
def test_exported_text_computes_the_same(name: str, passes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(funcad.backends.tiles, "SMALL", 0)
    monkeypatch.setattr(funcad.backends.tiles, "TILE_BYTES", 64)
    f, *args = PROGRAMS[name]
    jaxpr, consts = lowered(f, *args)
    jaxpr = passes(jaxpr)
    text = source_of(jaxpr, consts, title=name)
    assert "import funcad" not in text
    with np.errstate(all="ignore"), funcad.config.set(threads=1):
        expected = generate(jaxpr).function([*consts, *tree.leaves(args)])
        for a, b in zip(run(text, *tree.leaves(args)), expected, strict=True):
            assert type(a) is type(b) and same_bits(a, b), text


def test_the_text_is_readable() -> None:
    jaxpr, consts = lowered(model, np.ones((2, 4)), np.ones(3))
    text = source_of(jaxpr, consts, ["x", "b"], "model")
    line = model.__code__.co_firstlineno + 1
    assert "def run(x, b, xp=np):" in text
    assert f"# test_source.py:{line}: hidden = np.tanh(x @ W + b)" in text
    assert "hidden = xp.tanh(" in text and "loss = " in text


def test_names_of_arguments() -> None:
    assert argument_names(["x", "p['w'][0]", "lambda", "0", "np", "x", "list"]) == [
        "x", "p_w_0", "lambda_", "argument_0", "np_", "x_2", "list_"
    ]  # fmt: skip
    jaxpr, _ = lowered(lambda x: x + 1.0, np.ones(2))
    with pytest.raises(TypeError, match="1 arguments have 2 names"):
        source_of(jaxpr, names=["a", "b"])
    for name in ("v0", "np", "xp", "run"):
        assert run(source_of(jaxpr, names=[name]), np.ones(2))[0].tolist() == [2.0, 2.0]


def test_a_0d_array_that_is_handed_through_becomes_a_scalar() -> None:
    functions = [
        lambda x: [x, x.T, x * 2.0],
        lambda x: [funcad.cond(x > 0, lambda: x, lambda: x * 2.0)],
        lambda x: [funcad.while_loop(lambda s: s < 1.0, lambda s: s * 2.0, x)],
    ]
    for f in functions:
        for x in (np.array(3.0), np.float64(3.0)):
            for a, b in zip(run(jit(f).source(x), x), jit(f)(x), strict=True):
                assert type(a) is type(b) is np.float64 and a == b
    assert type(run(jit(lambda x: x).source(3.0), 3.0)[0]) is float


def test_an_exported_module_runs_without_funcad(tmp_path: Path) -> None:
    x = np.linspace(0.0, 1.0, 5000)
    jaxpr, consts = lowered(lambda x: np.sort(np.sin(x) * LARGE)[:3] + np.sum(LARGE), x)
    files = export_to(tmp_path / "program", jaxpr, consts, ["x"])
    assert [Path(f).name for f in files] == ["program.py", "program.npz"]
    code = (
        "import sys; sys.modules['funcad'] = None\n"
        "import numpy as np, program\n"
        "print(program.run(np.linspace(0.0, 1.0, 5000))[0].tobytes().hex())"
    )
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env={"PATH": ""})
    assert found.returncode == 0, found.stderr
    expected = generate(jaxpr).function([*consts, x])[0]
    assert found.stdout.strip() == expected.tobytes().hex()


def nested(depth: int) -> Any:
    """Loops in loops."""
    if not depth:
        return lambda x: x * 1.01
    return lambda x: while_loop(lambda s: s[0] < 1, lambda s: (s[0] + 1, nested(depth - 1)(s[1])), (0, x))[1]


def test_what_cannot_be_exported_says_so() -> None:
    x = np.ones(2)
    calls = {
        "pure_callback": lambda x: pure_callback(lambda v: v, x, x),
        "io_callback": lambda x: (funcad.io_callback(print, None, x), x)[1],
        "a function of funcad.debug": lambda x: (funcad.debug.print("{}", x), x)[1],
    }
    for what, f in calls.items():
        line = f.__code__.co_firstlineno
        expected = rf"^source: this program calls back into Python \({what} at .*test_source.py:{line} \(.*\)\), so it cannot"
        for g in (f, lambda x, f=f: scan(lambda c, _: (f(c), None), x, None, length=2)[0]):
            with pytest.raises(NotImplementedError, match=expected):
                jit(g).source(x)
    assert run(jit(grad(nested(6))).source(1.0), 1.0)[0] == jit(grad(nested(6)))(1.0)
    with pytest.raises(NotImplementedError, match=r"^source: while_loop at .*test_source.py:\d+ .* is inside 12 or more loops"):
        jit(nested(13)).source(1.0)
    with pytest.raises(NotImplementedError, match=r"^source: device_put at .*test_source.py:\d+ .* cannot be written out"):
        jit(lambda x: funcad.device_put(x)).source(x)
    big = np.ones(1 << 20)
    jaxpr, consts = lowered(lambda x: x * big, big)
    with pytest.raises(ValueError, match="use export"):
        source_of(jaxpr, consts)


def every_operation() -> list[Any]:
    """A quarter of them by default."""
    return [pytest.param(s, id=s.id, marks=[pytest.mark.slow] if i % 4 else []) for i, s in enumerate(all_specs())]


@pytest.mark.share(8)
@pytest.mark.parametrize("op", every_operation())
def test_every_operation(op: Any) -> None:
    args = op.samples()[0]
    given = [args[i] for i in op.variables(args)]
    jaxpr, consts = lowered(op.of_variables(args), *given)
    try:
        text = source_of(jaxpr, consts)
    except NotImplementedError as error:
        assert "Remedy" in str(error)
        return
    with np.errstate(all="ignore"):
        expected = generate(jaxpr).function([*consts, *given])
        for a, b in zip(run(text, *given), expected, strict=True):
            b = b[()] if type(b) is np.ndarray else b  # a scalar, as jit makes of it
            same = type(a) is type(b) and np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind in "fc")
            assert same or isinstance(b, Stack)


def test_names_go_to_what_the_lines_assign_in_groups_and_gradients() -> None:
    def f(x: Any, w: Any) -> Any:
        hidden = np.tanh(x @ w)
        scaled = hidden / np.max(hidden)
        total = np.sum(scaled * scaled)
        return total

    text = funcad.jit(funcad.value_and_grad(f, argnums=1)).source(np.ones((2, 4)), W)
    assert "hidden = xp.tanh(" in text and "scaled = hidden / " in text and "total = " in text
    code = [line for line in text.splitlines() if "# " not in line]
    assert len([line for line in code if " = " in line and line.split()[0] in ("hidden", "scaled", "total")]) == 3
    only = funcad.jit(funcad.grad(f, argnums=1)).source(np.ones((2, 4)), W)  # the sum itself is not computed
    assert "    total = xp" not in only and "hidden = xp.tanh(" in only


def on_the_device(text: str, args: list) -> list[Any]:
    """The results of a text on arrays of CuPy's stand-in."""
    module: dict[str, Any] = {}
    exec(compile(text, "exported", "exec"), module)
    with standin.registered():
        placed = [standin.to_device(a) for a in args]
        results = module["run"](*placed, xp=standin.xp)
        for a, before in zip(placed, args):
            assert not isinstance(before, np.ndarray) or same_bits(standin.to_host(a), before), "an argument was written"
    return [standin.to_host(r) for r in results]


def assert_same_as_on_the_host(text: str, args: list) -> None:
    """Sums may be in another order on the device."""
    with np.errstate(all="ignore"):
        expected = run(text, *args)
        for a, b in zip(on_the_device(text, args), expected, strict=True):
            assert np.asarray(a).dtype == np.asarray(b).dtype
            single = np.asarray(b).dtype.char in "efF"
            np.testing.assert_allclose(a, b, rtol=1e-4 if single else 1e-9, atol=1e-5 if single else 1e-9)


@pytest.mark.share(8)
@pytest.mark.parametrize("op", every_operation())
def test_every_operation_takes_arrays_of_a_device(op: Any) -> None:
    args = op.samples()[0]
    given = [args[i] for i in op.variables(args)]
    jaxpr, consts = lowered(op.of_variables(args), *given)
    try:
        text = source_of(jaxpr, consts)
        assert_same_as_on_the_host(text, given)
    except NotImplementedError as error:
        assert "Remedy" in str(error) or "Compute it on the CPU" in str(error) or "on the GPU" in str(error)


GROUPS = {
    "softmax": lambda x: np.sum(np.exp(x - np.max(x, axis=1, keepdims=True)), axis=1),
    "variance": lambda x: np.mean((x - np.mean(x, axis=1, keepdims=True)) ** 2, axis=1),
    "extremum": funcad.grad(lambda x: np.sum(np.max(x, axis=1) * np.sum(x * x, axis=1))),
    "examples": funcad.vmap(lambda v: np.sum(np.sin(v)) * v),
    "products": funcad.vmap(lambda v: v[:9] @ np.eye(9) @ v[:9] + np.sum(np.exp(v))),
    "steps": lambda x: scan(lambda c, r: (np.where(r > 0, c, r), np.concatenate([c[:2], r[2:]])), np.zeros(100, x.dtype), x)[1],
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", GROUPS)
def test_groups_take_arrays_of_a_device(name: str, dtype: Any) -> None:
    x = np.random.default_rng(0).normal(size=(3000, 100)).astype(dtype)
    with funcad.config.set(engine="numpy", threads=1):
        assert_same_as_on_the_host(funcad.jit(GROUPS[name]).source(x), [x])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("f", GROUPS.values(), ids=GROUPS)
def test_sums_of_long_groups_have_the_engines_bits(f, dtype):
    """The lines of a text sum in the engine's order, also where the engine sums otherwise than np.sum."""
    x = np.random.default_rng(0).normal(size=(5000, 100)).astype(dtype)
    with funcad.config.set(engine="numpy", threads=1):
        jitted = funcad.jit(f)
        for _ in range(3):
            found = jitted(x)
        scope = {}
        exec(jitted.source(x), scope)
        assert same_bits(scope["run"](x)[0], found)


def in_scan(x: Any) -> Any:
    """A branch in a while loop in a scan."""

    def turn(s: Any) -> Any:
        return cond(np.sum(s) > 2.0, lambda s: s * 0.5, lambda s: np.sin(s) * s * 0.75, s)

    def step(c: Any, row: Any) -> Any:
        c = while_loop(lambda s: np.sum(s * s) > 0.5, turn, c + row)
        return c, c * row

    last, rows = scan(step, x[0], x)
    return np.sum(last) + np.sum(rows * rows)


def in_while(x: Any) -> Any:
    """A while loop and a scan in the branches of a switch in a while loop."""

    def inner(s: Any) -> Any:
        return while_loop(lambda s: np.sum(s) > 1.0, lambda s: s * 0.5 + 0.01 * np.cos(s), s)

    def step(s: Any) -> Any:
        i, s = s
        rows = lambda s: scan(lambda c, r: (np.tanh(c + r), c * r), s, x)[0]
        return i + 1, switch(i, [inner, rows, lambda s: s * s], s)

    return np.sum(while_loop(lambda s: s[0] < 4, step, (0, np.abs(x[0]) * 3.0))[1])


def kept(x: Any) -> Any:
    """Carries that change places, one that stays, a number that turns with them."""

    def turn(s: Any) -> Any:
        a, b, stays, k = s
        return b * stays, a * b, stays, k * 0.5 + 1.0

    start = np.exp(x[0]), np.exp(x[1]), np.exp(x[2]), 0.5 + 0.1 * np.tanh(x[0, 0])
    a, b, _, k = while_loop(lambda s: s[3] < 1.8, turn, start)
    return np.sum(a * k - b)


CONTROL = {
    "while": lambda x: np.sum(while_loop(lambda s: np.sum(s) < 10.0, lambda s: s * s + np.sin(s), np.exp(x[0]))),
    "number": lambda x: while_loop(lambda s: s < 10.0, lambda s: s * s, np.exp(x[0, 0]) + 1.0),
    "no turn": lambda x: np.sum(while_loop(lambda s: np.sum(s) < -1e3, lambda s: s * s, x[0])),
    "empty": lambda x: scan(lambda c, r: (while_loop(lambda s: s > 1.0, lambda s: s * 0.7, c + r[0]), c), x[0, 0], x[:0])[0],
    "in scan": in_scan,
    "in while": in_while,
    "kept": kept,
}
DERIVED = {
    "grad": grad,
    "jvp": lambda f: lambda x: jvp(f, (x,), (np.cos(x),)),
    "vmap": lambda f: vmap(lambda k, x: f(x * k), (0, None)),
    "vmap of grad": lambda f: vmap(lambda k, x: grad(f)(x * k), (0, None)),
    "grad of vmap": lambda f: lambda k, x: grad(lambda x: np.sum(vmap(lambda k: f(x * k))(k)))(x),
    "twice": lambda f: grad(lambda x: np.sum(grad(f)(x) ** 2)),
}


@pytest.mark.share(12)
@pytest.mark.filterwarnings("ignore:grad. the output of")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("derived", DERIVED)
@pytest.mark.parametrize("name", CONTROL)
def test_loops_and_branches_have_the_engines_bits(
    name: str, derived: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in derivatives, where loops put values on stacks; and the arrays may be a device's."""
    monkeypatch.setattr(number_lines, "worth", lambda equation: False)  # what is exported is never lines about numbers
    x = np.linspace(-0.5, 1.0, 12).reshape(3, 4).astype(dtype)
    args = [np.array([1.0, 0.5, -1.5], dtype), x] if "vmap" in derived else [x]
    with funcad.config.set(engine="numpy", threads=1):
        f = jit(DERIVED[derived](CONTROL[name]))
        text = f.source(*args)
        assert "while_loop" not in text.replace("while_loop(lambda", "") and "scan_ =" not in text
        for _ in range(3):
            expected = tree.leaves(f(*args))
        for a, b in zip(run(text, *args), expected, strict=True):
            assert type(a) is type(b) and same_bits(a, b), text
        assert_same_as_on_the_host(text, args)


def test_stacks_that_are_captured() -> None:
    """Of a derivative that was taken before: as arrays in the text."""
    x = np.linspace(0.1, 0.4, 4)
    _, pull = vjp(lambda x: while_loop(lambda s: np.sum(s) < 10.0, lambda s: s * s + np.exp(s), x), x)
    with funcad.config.set(engine="numpy"):
        for f, args in ((lambda c: pull(c)[0], [x]), (vmap(lambda c: pull(c)[0]), [np.stack([x, -x])])):
            text = jit(f).source(*args)
            assert same_bits(run(text, *args)[0], jit(f)(*args))
            assert_same_as_on_the_host(text, args)


def test_names_of_functions_and_of_variables_are_kept_apart() -> None:
    """The kernel's own variable `function` is not the function of that name which another one closes over."""
    x = np.array([0.5, 2.0, 3.0])
    for name in ("j0", "gammainc", "inv_boxcox"):
        f = getattr(funcad.scipy.special, name)
        args = [x] * (1 if name == "j0" else 2)
        text = funcad.jit(lambda *a, f=f: f(*a)).source(*args)
        np.testing.assert_allclose(on_the_device(text, args)[0], np.asarray(f(*args)), rtol=1e-9)
