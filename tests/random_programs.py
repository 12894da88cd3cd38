"""Random programs, and arrays for them: what the engines are fuzzed with.

`random_case(seed)` gives a function, its arguments and how it is derived (grad, jvp, vmap or not at all). The function draws
its steps from a generator of its own that starts anew at each call, so it is a pure function that can be traced any number of
times. A step that the operands at hand do not allow (a shape that does not broadcast) is left out. Arguments hold special
values (NaN, infinities, zeros of both signs, subnormal and huge numbers) and come in every layout that NumPy knows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import funcad
import funcad.numpy as fnp
from funcad.ir.aval import Aval, aval_of
from funcad.ir.jaxpr import Jaxpr, subjaxprs

__all__ = ["random_case", "Case", "random_array", "layouts", "LAYOUTS", "trace"]

DTYPES = ["f8"] * 8 + ["f4"] * 5 + ["i8", "i4", "i2", "u1", "u8", "?", "c16", "c16", "c8", "f2"]
SHAPES: list[tuple] = [(), (1,), (3,), (4,), (7,), (17,), (1, 4), (3, 4), (4, 4), (4, 3), (3, 1), (5, 7), (2, 3, 4), (0, 3)]
BIG_SHAPES: list[tuple] = [(), (100_000,), (300, 700), (700,), (300, 1), (64, 64), (64,), (40, 50, 60), (3, 131_072)]
LARGEST = 20_000_000  # elements of a value
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, 3.0]


# ---------------------------------------------------------------- arrays


def random_array(rng: np.random.Generator, shape: tuple, dtype: Any, specials: bool) -> np.ndarray:
    """Numbers of moderate size; with specials, a third of them unusual ones."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        x = rng.integers(0 if dtype.kind == "u" else -5, 9, shape).astype(dtype)
        info = np.iinfo(dtype)
        return np.where(rng.random(shape) < 0.2, rng.choice([info.min, info.max], shape), x).astype(dtype) if specials else x
    if dtype.kind == "c":
        real = "f8" if dtype.itemsize == 16 else "f4"
        z = random_array(rng, shape, real, False) + 1j * random_array(rng, shape, real, False)
        return np.asarray(z, dtype)
    x = (rng.normal(size=shape) * rng.choice([0.5, 1.0, 3.0])).astype(dtype)
    if specials:
        info = np.finfo(dtype)
        few = [info.max, -info.max, info.tiny, float(info.smallest_subnormal) * 3, -info.tiny / 4, info.max / 2]
        with np.errstate(all="ignore"):
            unusual = np.asarray([*SPECIAL, *few]).astype(dtype)
        x = np.where(rng.random(shape) < 0.35, rng.choice(unusual, shape), x).astype(dtype)
    return x


def _spread(x: np.ndarray) -> np.ndarray:
    big = np.zeros([2 * n + 1 for n in x.shape], x.dtype)
    view = big[tuple([slice(1, None, 2)] * x.ndim)]
    view[...] = x
    return view


def _repeated(x: np.ndarray) -> np.ndarray:
    axis = x.size % x.ndim
    return np.broadcast_to(np.take(x, [0], axis=axis), x.shape) if x.shape[axis] else x


def _unaligned(x: np.ndarray) -> np.ndarray:
    raw = np.zeros(x.nbytes + 1, np.uint8)
    view = raw[1:].view(x.dtype).reshape(x.shape)
    view[...] = x
    return view


def _swapped(x: np.ndarray) -> np.ndarray:
    return x.astype(x.dtype.newbyteorder())


def _read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "contiguous": lambda x: x.copy(),
    "read-only": _read_only,
    "Fortran": lambda x: np.array(x, order="F"),
    "reversed": lambda x: np.flip(np.flip(x).copy()),
    "spread": _spread,
    "transposed": lambda x: x.T.copy().T,
    "repeated": _repeated,
    "unaligned": _unaligned,
    "swapped bytes": _swapped,
}


def layouts(x: np.ndarray) -> dict[str, np.ndarray]:
    """The array (for "repeated" one like it) in every layout."""
    return {name: make(x) for name, make in LAYOUTS.items()} if x.ndim else {"contiguous": x.copy(), "read-only": _read_only(x)}


def random_argument(rng: np.random.Generator, shapes: list[tuple], specials: bool) -> Any:
    shape = shapes[int(rng.integers(len(shapes)))]
    x = random_array(rng, shape, DTYPES[int(rng.integers(len(DTYPES)))], specials)
    if not shape:
        kind = int(rng.integers(4))
        if kind == 0 and x.dtype.char in "dl?D":
            return x.item()
        return x[()] if kind < 3 else x
    names = list(LAYOUTS)
    return LAYOUTS[names[int(rng.integers(len(names)))] if rng.random() < 0.6 else "contiguous"](x)


# ---------------------------------------------------------------- programs


class _Draw:
    """The random decisions of one call of the program, and the values so far."""

    def __init__(self, rng: np.random.Generator, values: list[Any], depth: int, big: bool):
        self.rng = rng
        self.values = values
        self.depth = depth
        self.big = big

    def number(self, n: int) -> int:
        return int(self.rng.integers(n))

    def one(self, items: Any) -> Any:
        return items[self.number(len(items))]

    def pick(self, condition: Callable[[Any], bool] = lambda v: True) -> Any:
        """A value, recent ones more often; ValueError if none qualifies."""
        good = [v for v in self.values if condition(v)]
        if not good:
            raise ValueError("no such value")
        n = len(good)
        return good[max(0, n - 1 - int(self.rng.geometric(0.35)))] if self.number(3) else good[self.number(n)]

    def floating(self) -> Any:
        return self.pick(lambda v: kind(v) == "f")

    def shaped(self, least: int = 1) -> Any:
        return self.pick(lambda v: ndim(v) >= least and 0 not in np.shape(v))

    def axis(self, v: Any) -> int:
        return self.number(ndim(v)) - (ndim(v) if self.number(2) else 0)

    def axes(self, v: Any) -> Any:
        n = ndim(v)
        if n == 0 or self.number(3) == 0:
            return None
        if n > 1 and self.number(3) == 0:
            return tuple(sorted(self.rng.choice(n, 2, replace=False).tolist()))
        return self.axis(v)


def kind(v: Any) -> str:
    return str(aval_of(v).dtype.kind)


def ndim(v: Any) -> int:
    return len(aval_of(v).shape)


UNARY_FLOAT = [np.sin, np.cos, np.exp, np.tanh, np.log, np.log1p, np.expm1, np.sqrt, np.arctan, np.exp2, np.log2, np.arcsinh]
UNARY_FLOAT += [np.sinh, np.cosh, np.arcsin, np.cbrt, np.floor, np.ceil, np.rint, np.trunc, np.tan, np.log10]
UNARY_ANY = [np.negative, np.abs, np.square, np.positive, np.isfinite, np.isnan, np.conj, np.real, np.sign, np.reciprocal]
BINARY = [
    np.add,
    np.subtract,
    np.multiply,
    np.add,
    np.subtract,
    np.multiply,
    np.divide,
    np.maximum,
    np.minimum,
    # not fmax and fmin: NumPy's sign of fmax(-0.0, 0.0) depends on the place in the array (test_native_emitter.py has them)
    np.maximum,
    np.minimum,
]
BINARY += [np.less, np.greater_equal, np.equal, np.not_equal, np.hypot, np.arctan2, np.fmod, np.remainder, np.floor_divide]
BINARY += [np.logaddexp, np.heaviside, np.logical_and, np.logical_or, np.copysign]
INTEGER = [np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.add, np.multiply, np.subtract, np.floor_divide, np.remainder]
INTEGER += [np.left_shift, np.right_shift, np.gcd, np.power]
NUMBERS = [0, 1, 2, -1, 3, 0.5, -0.0, 0.0, 1.0, 2.0, -1.5, 4.0, 1e-3, True, np.float32(0.1), np.float64(0.3), np.inf, np.nan]


def _binary(d: _Draw) -> Any:
    f = d.one(BINARY)
    a, b = d.pick(), d.pick()
    if f is np.copysign:
        b = np.where(np.isnan(b), 1.0, b)  # the sign of a NaN is nobody's promise
    return f(a, b)


def _with_number(d: _Draw) -> Any:
    f, a, number = d.one(BINARY[:15]), d.pick(), d.one(NUMBERS)
    return f(a, number) if d.number(2) else f(number, a)


def _integer(d: _Draw) -> Any:
    a = d.pick(lambda v: kind(v) in "iub")
    b = d.pick(lambda v: kind(v) in "iub") if d.number(2) else d.one([1, 2, 3])
    return np.invert(a) if d.number(6) == 0 else d.one(INTEGER)(a, b)


def _reduction(d: _Draw) -> Any:
    f = d.one([np.sum, np.sum, np.sum, np.max, np.min, np.mean, np.any, np.all, np.prod, np.var])
    v = d.pick()
    out = f(v, axis=d.axes(v), keepdims=bool(d.number(2)))
    return np.subtract(v, out) if d.number(3) == 0 else out


def _arg(d: _Draw) -> Any:
    v = d.shaped()
    return d.one([np.argmax, np.argmin])(v, axis=d.axis(v))


def _product(d: _Draw) -> Any:
    a, b = d.shaped(), d.shaped()
    if d.number(2):
        return np.matmul(a, b) if d.number(2) else np.dot(a, b)
    if ndim(a) == 1 and ndim(b) == 1:
        return np.outer(a, b)
    return np.matmul(a, np.swapaxes(a, -1, -2)) if ndim(a) > 1 else np.dot(a, a)


def _einsum(d: _Draw) -> Any:
    text = d.one(
        ["ij->ji", "ij,ij->i", "ij,kj->ik", "ii->i", "i,j->ij", "ijk->k", "ij,j->i", "i,i->", "ijk,ilk->ijl", "ij,i->j"]
    )
    names = text.split("->")[0].split(",")
    return np.einsum(text, *[d.pick(lambda v, n=n: ndim(v) == len(n)) for n in names])


def _slice(d: _Draw) -> Any:
    v = d.shaped()
    index: list[Any] = []
    for n in aval_of(v).shape:
        choice = d.number(6)
        start, stop = sorted([d.number(n + 1), d.number(n + 1)])
        index.append(
            [slice(None), slice(start, stop), slice(None, None, -1), slice(start, None, 2), d.number(n) - n, slice(None)][
                choice
            ]
        )
    if d.number(5) == 0:
        index.insert(d.number(len(index) + 1), None)
    return v[tuple(index)]


def _gather(d: _Draw) -> Any:
    v = d.shaped()
    n = aval_of(v).shape[0]
    choice = d.number(4)
    if choice == 0:
        return v[d.rng.integers(-n, n, 3)]
    i = d.pick(lambda u: kind(u) in "iu")
    if choice == 1:
        return np.take(v, i, axis=0, mode=d.one(["clip", "wrap"]))
    if choice == 2:
        return v[np.remainder(i, n)]
    return v[i]


def _update(d: _Draw) -> Any:
    v = d.shaped()
    n = aval_of(v).shape[0]
    index = d.one([0, -1, slice(1, None), slice(None, None, 2), slice(None, None, -1), d.rng.integers(0, n, 2), Ellipsis])
    value = d.pick() if d.number(2) else d.one(NUMBERS[:8])
    return getattr(fnp.at(v)[index], d.one(["set", "add", "multiply", "max", "min"]))(value)


def _shape(d: _Draw) -> Any:
    v = d.shaped()
    choice = d.number(9)
    if choice == 0:
        return np.reshape(v, (-1,))
    if choice == 1:
        return np.transpose(v)
    if choice == 2:
        return np.flip(v, axis=d.axis(v))
    if choice == 3:
        return np.expand_dims(v, d.number(ndim(v) + 1))
    if choice == 4:
        return np.roll(v, d.number(5) - 2, axis=d.axis(v))
    if choice == 5:
        return np.broadcast_to(v, (2, *aval_of(v).shape)) if not d.big else np.broadcast_to(v, (1, *aval_of(v).shape))
    if choice == 6:
        return np.pad(v, [(d.number(2), d.number(2))] * ndim(v))
    if choice == 7:
        return np.squeeze(v)
    return np.reshape(v, (aval_of(v).shape[0], -1))


def _join(d: _Draw) -> Any:
    a = d.shaped()
    b = d.pick(lambda v: ndim(v) == ndim(a))
    return d.one([np.concatenate, np.stack])([a, b] if d.number(3) else [b, a, b], axis=d.number(ndim(a)))


def _select(d: _Draw) -> Any:
    choice = d.number(4)
    if choice == 0:
        return np.clip(d.pick(lambda v: kind(v) in "fiu"), -1, d.one([1, 2.0, 0.5]))
    condition = d.pick(lambda v: kind(v) == "b") if choice == 1 else np.greater(d.pick(), d.one([0, 0.5, 1]))
    return np.where(condition, d.pick(), d.pick() if d.number(2) else d.one(NUMBERS))


def _order(d: _Draw) -> Any:
    v = d.shaped()
    f = d.one([np.cumsum, np.cumprod, np.sort, np.argsort, np.cumsum])
    return f(v, axis=d.axis(v))


def _cast(d: _Draw) -> Any:
    dtype = np.dtype(d.one(["f8", "f4", "i8", "i4", "u1", "?", "c16", "f4", "f8", "f2", "i2"]))
    v = d.pick(lambda v: kind(v) != "c" or dtype.kind == "c")
    return v.astype(dtype)


def _power(d: _Draw) -> Any:
    if d.number(2):
        return np.power(d.pick(), d.one([2, 3, 0.5, -1.0, 2.0, 1.7, -2]))
    base, exponent = d.pick(), d.pick()
    aval = aval_of(exponent)
    return base ** (exponent % 5 if aval.weak and aval.dtype.kind in "ib" else exponent)  # Python's integers have no end


def _layer(d: _Draw) -> Any:
    v = d.pick(lambda v: kind(v) == "f" and ndim(v) >= 1 and 0 not in np.shape(v))
    f = d.one([funcad.nn.softmax, funcad.nn.log_softmax, funcad.nn.relu, funcad.nn.sigmoid, funcad.nn.softplus, funcad.nn.gelu])
    return f(v)


# -- control flow: bodies are random programs in turn


def _body(d: _Draw, seed: int, steps: int, captured: list[Any]) -> Callable[[list[Any]], list[Any]]:
    def body(values: list[Any]) -> list[Any]:
        inner = _Draw(np.random.default_rng(seed), [*captured, *values], d.depth + 1, d.big)
        _take_steps(inner, steps, FLAT if d.depth else [*FLAT, _loop])
        return inner.values[len(captured) + len(values) :] or values

    return body


def _like(value: Any, aval: Any) -> Any:
    """The value, forced into a shape and dtype (of the carry that it replaces)."""
    if aval_of(value).dtype.kind == "c" and aval.dtype.kind != "c":
        value = np.real(value)
    value = np.asarray(value) if not hasattr(value, "aval") else value
    if aval_of(value).shape != aval.shape:
        value = np.sum(value) + np.zeros(aval.shape, aval_of(value).dtype)
    if aval.dtype.kind in "iu" and aval_of(value).dtype.kind == "f":
        value = np.clip(np.nan_to_num(value), 0, 100)
    return value.astype(aval.dtype)


def _loop(d: _Draw) -> Any:
    if d.depth > 1 or d.big:
        raise ValueError("deep enough")
    seed, choice = d.number(2**31), d.number(4)
    captured = [d.pick() for _ in range(d.number(2))]
    body = _body(d, seed, 1 + d.number(4), captured)
    start = [d.pick() for _ in range(1 + d.number(2))]
    start = [v if hasattr(v, "aval") or isinstance(v, (np.ndarray, np.generic)) else np.asarray(v)[()] for v in start]
    avals = [aval_of(v) for v in start]
    again = lambda made: tuple([_like(made[-1 - i % len(made)], a) for i, a in enumerate(avals)])
    if choice == 0:
        made = funcad.cond(np.sum(np.real(start[0])) > 0.5, lambda: again(body(list(start))), lambda: tuple(start))
        return list(made)
    if choice == 1:
        limit = d.number(4)
        n, made = funcad.while_loop(lambda s: s[0] < limit, lambda s: (s[0] + 1, again(body(list(s[1])))), (0, tuple(start)))
        return [n, *made]
    xs = d.pick(lambda v: ndim(v) > 0 and aval_of(v).shape[0] < 9) if d.number(3) else None

    def step(carry: Any, x: Any) -> Any:
        made = body([*carry, *([] if x is None else [x])])
        new = again(made)
        if d_add:
            new = tuple([c + v if aval_of(c).dtype.kind == "f" else v for c, v in zip(carry, new)])
        return new, made[0]

    d_add = choice == 3
    carry, ys = funcad.scan(step, tuple(start), xs, length=None if xs is not None else d.number(4), reverse=bool(d.number(2)))
    return [*carry, ys]


def _call(d: _Draw) -> Any:
    seed = d.number(2**31)
    body = _body(d, seed, 3, [])
    start = [d.pick(), d.pick()]
    f = [funcad.jit, funcad.checkpoint][d.number(2)]
    return f(lambda *vs: body(list(vs))[-1])(*start)


FLAT: list[Callable[[_Draw], Any]] = [
    *[lambda d: d.one(UNARY_FLOAT)(d.floating())] * 5,
    *[lambda d: d.one(UNARY_ANY)(d.pick())] * 3,
    *[_binary] * 6,
    *[_with_number] * 4,
    *[_reduction] * 5,
    *[_product, _einsum, _slice, _shape, _select, _order, _cast] * 2,
    *[_integer, _arg, _gather, _update, _join, _power, _layer],
]
STEPS = [*FLAT, *[_loop] * 4, _call]


def _take_steps(d: _Draw, count: int, steps: list[Callable[[_Draw], Any]]) -> None:
    for _ in range(count):
        state = d.rng.bit_generator.state
        try:
            made = d.one(steps)(d)
        except (TypeError, ValueError, IndexError, AttributeError, ZeroDivisionError, OverflowError):  # not for these operands
            d.rng.bit_generator.state = state
            d.rng.random()
            continue
        for v in made if isinstance(made, list) else [made]:
            if aval_of(v).size < (3_000_000 if d.big else 3000):
                d.values.append(v)


class Case(NamedTuple):
    """A function and its arguments; `label` says what was drawn."""

    f: Callable[..., Any]
    args: tuple
    label: str


def random_case(seed: int, big: bool = False) -> Case:
    """The program of this seed: a third of them are derivatives, or mapped over a leading axis."""
    rng = np.random.default_rng([seed, int(big)])
    name = f"seed {seed}{', big' if big else ''}"
    specials = rng.random() < (0.3 if big else 0.5)
    how = ["grad", "jvp", "vmap"][int(rng.integers(3))] if rng.random() < 1 / 3 else "plain"
    shapes = BIG_SHAPES if big else SHAPES
    if rng.random() < 0.5:  # few shapes: more that fits together
        shapes = [shapes[int(i)] for i in rng.integers(len(shapes), size=2)]
    args = tuple([random_argument(rng, shapes, specials) for _ in range(1 + int(rng.integers(4)))])
    length, program_seed, kept = 2 + int(rng.integers(7 if big else 10)), int(rng.integers(2**31)), int(rng.integers(1, 4))

    def f(*xs: Any) -> list[Any]:
        d = _Draw(np.random.default_rng(program_seed), list(xs), 0, big)
        _take_steps(d, length, STEPS)
        outputs = d.values[len(xs) :][-kept:]
        if d.number(6) == 0:
            outputs.append(d.pick())  # perhaps an argument, or a result again
        return outputs

    if how == "vmap":
        return Case(funcad.vmap(f), tuple([np.stack([x, x]) for x in map(np.asarray, args)]), f"vmap, {name}")
    floats = tuple([i for i, x in enumerate(args) if np.asarray(x).dtype.kind == "f"])
    if how == "plain" or not floats:
        return Case(f, args, f"plain, {name}")
    if how == "jvp":
        return Case(_jvp_of(f, floats), args, f"jvp, {name}")
    return Case(funcad.grad(_total(f), argnums=floats), args, f"grad, {name}")


def _jvp_of(f: Callable[..., Any], floats: tuple[int, ...]) -> Callable[..., Any]:
    def pushed(*xs: Any) -> Any:
        def g(*ys: Any) -> list[Any]:
            full = list(xs)
            for i, y in zip(floats, ys):
                full[i] = y
            return [o for o in f(*full) if kind(o) in "fc"]

        primals = tuple([xs[i] for i in floats])
        return funcad.jvp(g, primals, tuple([np.ones_like(p) for p in primals]))

    return pushed


def _total(f: Callable[..., Any]) -> Callable[..., Any]:
    def total(*xs: Any) -> Any:
        result: Any = 0.0
        for i, o in enumerate(f(*xs)):
            if kind(o) in "fc":
                result = result + np.sum(np.real(o).astype(float)) * (1.0 + i)
        return result + 0.0 * sum([np.sum(x).astype(float) for x in xs if kind(x) == "f"])

    return total


def trace(case: Case) -> tuple[Jaxpr, list[Any]]:
    """The program of a case and the values of its inputs; ValueError where a value would take too much memory.

    A step that makes too much (rows of a large array at every place of another) stays in the program: the reference runs it.
    """
    lowered = funcad.jit(case.f).lower(*case.args)
    if _largest(lowered.jaxpr) > LARGEST:
        raise ValueError(f"{case.label}: a value has more than {LARGEST:,} elements")
    return lowered.jaxpr, [*lowered._entry.consts, *funcad.tree.leaves(case.args)]


def _largest(jaxpr: Jaxpr) -> int:
    """Elements of the largest value in a program."""
    inside = [_largest(j) for e in jaxpr.equations for j in subjaxprs(e.params)]
    return max([v.aval.size for e in jaxpr.equations for v in e.outputs if type(v.aval) is Aval] + inside, default=0)
