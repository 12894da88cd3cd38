"""Programs as users write them: closures over dicts and lists, functions that are handed around, caches."""

from __future__ import annotations

import collections
import functools
import itertools
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.reads.users_programs import Program, program

TEMPERATURE = 1.0
SETTINGS = {"scale": 2.0, "clip": (0.0, 2.5), "steps": [1, 2]}


# -- closures over dicts and lists


@program
def nested_config(jit: Any) -> Program:
    config = {"model": {"width": 2.0, "bias": [0.1, 0.2]}, "on": True}

    def f(x: Any) -> Any:
        model: Any = config["model"]
        y = x * model["width"]
        for b in model["bias"]:
            y = y + b
        return y if config.get("on") and not config.get("frozen", False) else y * 0.0

    def change(i: int) -> None:
        model: Any = config["model"]
        model["width"] += 1.0
        model["bias"].append(0.3)
        if i >= 1:
            config["frozen"] = not config.get("frozen", False)

    return jit(f), change


@program
def module_settings(jit: Any) -> Program:
    SETTINGS.update(scale=2.0, clip=(0.0, 2.5), steps=[1, 2])
    globals()["TEMPERATURE"] = 1.0

    def f(x: Any) -> Any:
        low, high = SETTINGS["clip"]  # type: ignore[misc]
        for n in SETTINGS["steps"]:  # type: ignore[attr-defined]
            x = x + n
        return np.clip(x * SETTINGS["scale"], low, high) / TEMPERATURE

    def change(i: int) -> None:
        SETTINGS["scale"] = 0.5 * i
        globals()["TEMPERATURE"] = 2.0 + i
        SETTINGS["steps"].append(i)  # type: ignore[attr-defined]

    return jit(f), change


@program
def comprehensions(jit: Any) -> Program:
    weights, names, skip = [1.0, 2.0, 3.0], ["a", "b", "c"], {"b"}

    def f(x: Any) -> Any:
        by_name = {n: w for n, w in zip(names, weights) if n not in skip}
        pairs = [(w, x * w) for w in by_name.values()]
        return sum(y for _, y in pairs), np.stack([y * i for i, (_, y) in enumerate(pairs)]), len(sorted(by_name))

    def change(i: int) -> None:
        weights[i % 3] += 1.5
        if i == 1:
            skip.clear()
            skip.add("c")

    return jit(f), change


@program
def dict_of_parameters(jit: Any) -> Program:
    params = {"w": np.ones(3), "b": 0.5}
    frozen = {"b"}

    def f(x: Any) -> Any:
        total = 0.0
        for name, p in params.items():
            total = total + np.sum(p * x) * (0.0 if name in frozen else 1.0)
        return total, {k: np.shape(v) for k, v in params.items()}

    def change(i: int) -> None:
        params["w"] = params["w"] * 2.0  # type: ignore[assignment]
        params["b"] += 1.0
        frozen.symmetric_difference_update({"w"})

    return jit(f), change


@program
def chain_map_and_counter(jit: Any) -> Program:
    defaults, given = {"rate": 0.1, "steps": 2}, {"rate": 0.5}
    chain, counts = collections.ChainMap(given, defaults), collections.Counter("aab")

    def f(x: Any) -> Any:
        for _ in range(int(chain["steps"])):
            x = x - chain["rate"] * x
        return x * counts["a"] + counts["z"]

    def change(i: int) -> None:
        given["rate"] = 0.25 + i
        defaults["steps"] = 3 + i
        counts["a"] += 1

    return jit(f), change


@program
def ordered_and_default_dicts(jit: Any) -> Program:
    stages: collections.OrderedDict[str, float] = collections.OrderedDict(first=1.5, second=2.5)
    groups: collections.defaultdict[str, list[float]] = collections.defaultdict(list)
    groups["a"].append(1.0)

    def f(x: Any) -> Any:
        for name, k in stages.items():
            x = x * k if name != "second" else x + k
        return x + sum(groups["a"]) + len(groups.get("b", ()))

    def change(i: int) -> None:
        stages.move_to_end("first", last=i % 2 == 0)
        groups["a"].append(2.0)
        groups["b"].append(1.0)

    return jit(f), change


@program
def deque_window(jit: Any) -> Program:
    window = collections.deque([1.0, 2.0], maxlen=3)
    return jit(lambda x: x * np.mean(list(window)) + window[-1]), lambda i: window.append(4.0 + i)


@program
def sets_and_frozensets(jit: Any) -> Program:
    active, order = {1, 2}, [0, 1, 2, 3]
    f = jit(lambda x: sum(x * k for k in order if k in active) + len(active))
    return f, lambda i: active.symmetric_difference_update([i, 3])


@program
def closure_counter(jit: Any) -> Program:
    calls = 0

    @jit
    def f(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return x / calls

    return lambda x: (f(x), calls), lambda i: None


@program
def history_is_kept(jit: Any) -> Program:
    history: list[Any] = []

    @jit
    def f(x: Any) -> Any:
        loss = np.sum(x * x)
        history.append(loss)
        return loss * 2.0

    return lambda x: (f(x), list(history)), lambda i: None


# -- functions: defaults, keywords, partials, decorators


@program
def defaults_and_keywords(jit: Any) -> Program:
    def smooth(x: Any, width: float = 0.5, *, rounds: int = 2, **options: Any) -> Any:
        for _ in range(rounds):
            x = x * (1 - width) + np.roll(x, 1) * width
        return x + options.get("shift", 0.0)

    def change(i: int) -> None:
        smooth.__defaults__ = (0.25 + i,)
        smooth.__kwdefaults__ = {"rounds": 3}

    f = jit(lambda x: smooth(x) + smooth(x, rounds=1, shift=2.0))
    return f, change


@program
def arguments_of_every_kind(jit: Any) -> Program:
    settings = {"gain": 2.0}

    def inner(*xs: Any, gain: float, offset: Any = None) -> Any:
        total = xs[0]
        for x in xs[1:]:
            total = total + x
        return total * gain if offset is None else total * gain + offset

    def f(x: Any, y: Any = 1.0, *rest: Any, flag: bool = False, **more: Any) -> Any:
        return inner(x, y, *rest, **settings, **more) if not flag else x

    made = jit(f, static_argnames=("flag",))

    def call(x: Any) -> Any:
        return made(x), made(x, 2.0), made(x, x, x, offset=3.0), made(x, flag=True)

    return call, lambda i: settings.update(gain=3.0 + i)


@program
def partials(jit: Any) -> Program:
    knobs = {"rate": 0.5}

    def step(config: Any, x: Any, n: int = 1) -> Any:
        for _ in range(n):
            x = x - config["rate"] * x
        return x

    def change(i: int) -> None:
        knobs["rate"] = 0.25 / (i + 1)

    return jit(functools.partial(step, knobs, n=3)), change


@program
def partial_methods(jit: Any) -> Program:
    class Filter:
        def __init__(self) -> None:
            self.k = 2.0

        def apply(self, x: Any, power: int) -> Any:
            return self.k * x**power

        square = functools.partialmethod(apply, power=2)

    f = Filter()
    return jit(lambda x: f.square(x) + f.apply(x, 3)), lambda i: setattr(f, "k", 3.0 + i)


@program
def users_decorator(jit: Any) -> Program:
    scale = {"by": 2.0}

    def scaled(f: Any) -> Any:
        @functools.wraps(f)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return scale["by"] * f(*args, **kwargs)

        return wrapper

    @jit
    @scaled
    def f(x: Any) -> Any:
        """A function."""
        return np.sin(x) * len(f.__name__)

    return f, lambda i: scale.update(by=3.0 + i)


@program
def recursion(jit: Any) -> Program:
    coefficients = [1.0, 2.0, 3.0]

    def horner(x: Any, i: int = 0) -> Any:
        return coefficients[i] + (x * horner(x, i + 1) if i + 1 < len(coefficients) else 0.0)

    def change(i: int) -> None:
        coefficients[i % 3] += 1.5
        coefficients.append(1.0)

    return jit(horner), change


@program
def recursion_over_a_tree(jit: Any) -> Program:
    tree: Any = {"op": "+", "of": [{"op": "x"}, {"op": "*", "of": [{"op": "x"}, 3.0]}]}
    table = {"+": operator.add, "*": operator.mul, "-": operator.sub}

    def evaluated(node: Any, x: Any) -> Any:
        if isinstance(node, float):
            return node
        if node["op"] == "x":
            return x
        return functools.reduce(table[node["op"]], [evaluated(n, x) for n in node["of"]])

    def change(i: int) -> None:
        tree["op"] = "-+*"[i % 3]
        tree["of"][1]["of"][1] += 1.0

    return jit(lambda x: evaluated(tree, x)), change


@program
def generator_inside(jit: Any) -> Program:
    stages = [0.5, 2.0]

    def sweeps(x: Any) -> Iterator[Any]:
        for k in stages:
            x = x * k + 1.0
            yield x
        return x

    def chained(x: Any) -> Iterator[Any]:
        last = yield from sweeps(x)
        yield last * 2.0

    def change(i: int) -> None:
        stages[0] += 1.0
        stages.append(0.25)

    return jit(lambda x: sum(chained(x)) + max(i for i, _ in enumerate(sweeps(x)))), change


@program
def itertools_and_operator(jit: Any) -> Program:
    lists, key = [[1.0, 2.0], [3.0]], {"name": "b"}
    rows = [{"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 1.0}]

    def f(x: Any) -> Any:
        flat = list(itertools.chain.from_iterable(lists))
        pairs = sum(a * b for a, b in itertools.combinations(flat, 2))
        running = list(itertools.accumulate(flat, operator.mul))
        best = sorted(rows, key=operator.itemgetter(key["name"]))[0]["a"]
        counted = [k for k, _ in itertools.groupby(flat, key=lambda v: v > 1.5)]
        return x * pairs + running[-1] + best * len(counted) + sum(itertools.islice(itertools.count(1), 3))

    def change(i: int) -> None:
        lists[1].append(1.0 + i)
        key["name"] = "ab"[i % 2]
        rows[0]["b"] = 0.5

    return jit(f), change


@program
def functools_reduce_and_single_dispatch(jit: Any) -> Program:
    held: list[Any] = [2.0]

    @functools.singledispatch
    def weight(k: Any) -> float:
        return 1.0

    @weight.register
    def _(k: float) -> float:
        return k * 2.0

    @weight.register
    def _(k: str) -> float:
        return float(len(k))

    f = jit(lambda x: functools.reduce(lambda a, b: a * b, [x, x + 1.0]) * weight(held[0]))
    return f, lambda i: operator.setitem(held, 0, ["abc", 3.0, None, 5.0][i % 4])


@program
def sorted_by_key_and_min_max(jit: Any) -> Program:
    items = [("b", 2.0), ("a", 3.0)]
    weight = {"a": 1.0, "b": 5.0}

    def f(x: Any) -> Any:
        order = sorted(items, key=lambda item: (weight[item[0]], item[1]), reverse=True)
        return x * order[0][1] + max(weight, key=weight.get).__len__() + min(v for _, v in items)  # type: ignore[arg-type]

    def change(i: int) -> None:
        weight["a"] += 3.0
        items[0] = ("b", 2.5 + i)

    return jit(f), change


@program
def local_classes_and_lambdas(jit: Any) -> Program:
    gains = [1.0, 2.0]

    def f(x: Any) -> Any:
        class Scale:
            def __init__(self, k: float) -> None:
                self.k = k

            def __call__(self, y: Any) -> Any:
                return y * self.k

        chain = [Scale(k) for k in gains] + [lambda y: y + gains[0]]
        for g in chain:
            x = g(x)
        return x

    return jit(f), lambda i: operator.setitem(gains, i % 2, gains[i % 2] + 1.5)


# -- caches


@program
def lru_cache_on_a_helper(jit: Any) -> Program:
    @functools.cache
    def quadrature(n: int) -> Any:
        return np.polynomial.legendre.leggauss(n)

    order = [3]

    def f(x: Any) -> Any:
        nodes, weights = quadrature(order[0])
        return np.sum(weights * np.exp(-x[:, None] * nodes), axis=1)

    return jit(f), lambda i: operator.setitem(order, 0, 4 + i % 2)


@program
def cache_in_a_dict(jit: Any) -> Program:
    class Basis:
        def __init__(self) -> None:
            self.cache: dict[int, Any] = {}
            self.order = 2

        def matrix(self, n: int) -> Any:
            if n not in self.cache:
                self.cache[n] = np.vander(np.linspace(0.0, 1.0, 3), n)
            return self.cache[n]

        def __call__(self, x: Any) -> Any:
            return x @ self.matrix(self.order)

    basis = Basis()
    f = jit(basis)
    return lambda x: (f(x), sorted(basis.cache)), lambda i: setattr(basis, "order", 3 + i % 2)


@program
def cache_with_try(jit: Any) -> Program:
    table: dict[str, float] = {}
    source = {"a": 2.0, "b": 3.0}
    name = ["a"]

    def value(k: str) -> float:
        try:
            return table[k]
        except KeyError:
            table[k] = found = source[k] * 10.0
            return found

    f = jit(lambda x: x * value(name[0]))
    return lambda x: (f(x), dict(table)), lambda i: operator.setitem(name, 0, "ba"[i % 2])


def asserts(x: Any) -> Any:
    assert x > 2.0, f"neither: {x}"
    return x
