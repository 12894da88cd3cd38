"""Programs as users write them around `jit`: what they read, store and catch beside computing.

Each is a function of `jit`, or of what stands for it, and gives two functions: what is called with an array, and what changes
between two calls. They stand in a module of their own because pytest rewrites the asserts of files of tests, so that these
functions would have no source.
"""

from __future__ import annotations

import abc
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import logging
import math
import operator
import types
import typing
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.stats

Program = tuple[Callable[..., Any], Callable[[int], Any]]
PROGRAMS: dict[str, Callable[[Any], Program]] = {}
logger = logging.getLogger("users programs")
TEMPERATURE = 1.0
SETTINGS = {"scale": 2.0, "clip": (0.0, 2.5), "steps": [1, 2]}


def program(make: Callable[[Any], Program]) -> Callable[[Any], Program]:
    PROGRAMS[make.__name__] = make
    return make


# -- models as classes


class Layer:
    def __init__(self, n: int, activation: Any = np.tanh) -> None:
        self.weights, self.bias = np.full((n, n), 0.25) + np.eye(n), np.zeros(n)
        self.activation = activation

    def __call__(self, x: Any) -> Any:
        return self.activation(x @ self.weights + self.bias)


class Network:
    def __init__(self, depth: int) -> None:
        self.layers = [Layer(3) for _ in range(depth)]
        self.training, self.dropped = True, 0.5

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
            if self.training:
                x = x * self.dropped
        return x


@program
def network_of_layers(jit: Any) -> Program:
    net = Network(2)
    f = jit(net.forward)

    def change(i: int) -> None:
        if i == 0:
            net.training = False
        elif i == 1:
            net.layers.append(Layer(3, np.sin))
        else:
            net.layers[0].weights = net.layers[0].weights * 1.5
            net.layers[1].bias[0] += 1.0

    return f, change


@program
def training_step_of_a_class(jit: Any) -> Program:
    class Trainer:
        def __init__(self) -> None:
            self.w, self.rate, self.velocity, self.seen = np.ones(3), 0.1, np.zeros(3), 0

        @functools.partial(jit, static_argnums=0)
        def step(self, x: Any) -> Any:
            gradient = 2.0 * (self.w - x)
            self.velocity = 0.9 * self.velocity - self.rate * gradient
            self.w = self.w + self.velocity
            self.seen += 1
            return np.sum((self.w - x) ** 2)

    trainer = Trainer()
    return lambda x: (trainer.step(x), trainer.w, trainer.seen), lambda i: setattr(trainer, "rate", 0.1 / (i + 2))


@program
def adam_in_a_dict(jit: Any) -> Program:
    state: dict[str, Any] = {"m": np.zeros(3), "v": np.zeros(3), "t": 0}

    @jit
    def update(w: Any) -> Any:
        g = 2.0 * w
        state["t"] += 1
        state["m"] = 0.9 * state["m"] + 0.1 * g
        state["v"] = 0.99 * state["v"] + 0.01 * g * g
        m, v = state["m"] / (1 - 0.9 ** state["t"]), state["v"] / (1 - 0.99 ** state["t"])
        return w - 0.1 * m / (np.sqrt(v) + 1e-8)

    return lambda x: (update(x), state["t"], state["m"]), lambda i: None


@program
def inheritance_and_super(jit: Any) -> Program:
    class Base(abc.ABC):
        scale = 2.0

        @abc.abstractmethod
        def energy(self, x: Any) -> Any: ...

        def __call__(self, x: Any) -> Any:
            return self.scale * self.energy(x)

    class Quadratic(Base):
        def __init__(self, k: float) -> None:
            self.k = k

        def energy(self, x: Any) -> Any:
            return 0.5 * self.k * np.sum(x * x)

    class Shifted(Quadratic):
        def energy(self, x: Any) -> Any:
            return super().energy(x) + np.sum(x)

    model = Shifted(3.0)

    def change(i: int) -> None:
        model.k += 1.0
        if i == 1:
            Base.scale = 5.0

    return jit(model), change


@program
def properties(jit: Any) -> Program:
    class Gaussian:
        def __init__(self) -> None:
            self._log_sigma = 0.5

        @property
        def sigma(self) -> float:
            return math.exp(self._log_sigma)

        @sigma.setter
        def sigma(self, value: float) -> None:
            self._log_sigma = math.log(value)

        def logpdf(self, x: Any) -> Any:
            return np.sum(-0.5 * (x / self.sigma) ** 2 - math.log(self.sigma))

    g = Gaussian()
    return jit(g.logpdf), lambda i: setattr(g, "sigma", 2.0 + i)


@program
def cached_property(jit: Any) -> Program:
    class Kernel:
        def __init__(self) -> None:
            self.points, self.length = np.arange(3.0), 1.0

        @functools.cached_property
        def gram(self) -> Any:
            d = self.points[:, None] - self.points[None, :]
            return np.exp(-0.5 * (d / self.length) ** 2)

        def predict(self, x: Any) -> Any:
            return self.gram @ x

    kernel = Kernel()

    def change(i: int) -> None:
        kernel.length = 2.0 + i
        kernel.__dict__.pop("gram", None)

    return jit(kernel.predict), change


@program
def slots(jit: Any) -> Program:
    class Spring:
        __slots__ = ("k", "rest")

        def __init__(self, k: float, rest: float) -> None:
            self.k, self.rest = k, rest

    springs = [Spring(1.0, 0.1), Spring(2.0, 0.2)]

    def energy(x: Any) -> Any:
        return sum(0.5 * s.k * np.sum((x - s.rest) ** 2) for s in springs)

    def change(i: int) -> None:
        springs[i % 2].k += 1.5
        if i == 1:
            springs.append(Spring(3.0, 0.3))

    return jit(energy), change


@program
def class_and_static_methods(jit: Any) -> Program:
    class Units:
        factor = 1000.0

        @classmethod
        def to_metres(cls, x: Any) -> Any:
            return x * cls.factor

        @staticmethod
        def squared(x: Any) -> Any:
            return x * x

    class Feet(Units):
        factor = 0.3048

    return jit(lambda x: Units.squared(Feet.to_metres(x)) + Units.to_metres(x)), lambda i: setattr(Feet, "factor", 0.5 + i)


@program
def operators_of_a_class(jit: Any) -> Program:
    @dataclasses.dataclass(frozen=True)
    class Interval:
        low: Any
        high: Any

        def __add__(self, other: Interval) -> Interval:
            return Interval(self.low + other.low, self.high + other.high)

        def __mul__(self, k: float) -> Interval:
            return Interval(self.low * k, self.high * k) if k >= 0 else Interval(self.high * k, self.low * k)

        @property
        def width(self) -> Any:
            return self.high - self.low

    held = {"noise": Interval(-0.1, 0.2), "k": 2.0}

    def f(x: Any) -> Any:
        total = (Interval(x, x) + held["noise"]) * held["k"]  # type: ignore[operator]
        return total.low, total.high, total.width

    def change(i: int) -> None:
        held["k"] = -1.0 - i
        held["noise"] = Interval(-0.3 - i, 0.4)

    return jit(f), change


@program
def container_protocol(jit: Any) -> Program:
    class Registry:
        def __init__(self) -> None:
            self._found: dict[str, float] = {"a": 1.0, "b": 2.0}

        def __getitem__(self, name: str) -> float:
            return self._found[name]

        def __contains__(self, name: str) -> bool:
            return name in self._found

        def __iter__(self) -> Iterator[str]:
            return iter(self._found)

        def __len__(self) -> int:
            return len(self._found)

    registry = Registry()

    def f(x: Any) -> Any:
        total = x * len(registry)
        for name in registry:
            total = total + registry[name] * x
        return total if "c" in registry else -total

    def change(i: int) -> None:
        registry._found["abc"[i % 3]] = 3.0 + i

    return jit(f), change


@program
def fallback_attributes(jit: Any) -> Program:
    class Options:
        def __init__(self) -> None:
            self.values = {"gain": 2.0}

        def __getattr__(self, name: str) -> Any:
            try:
                return self.__dict__["values"][name]
            except KeyError:
                raise AttributeError(name) from None

    options = Options()

    def change(i: int) -> None:
        options.values["gain"] = 3.0 + i
        if i == 1:
            options.values["bias"] = 1.0

    return jit(lambda x: x * options.gain + getattr(options, "bias", 0.0)), change


# -- records and options


@dataclasses.dataclass
class Physics:
    gravity: float = 9.81
    drag: tuple[float, ...] = (0.1, 0.2)
    walls: list[float] = dataclasses.field(default_factory=lambda: [0.0, 1.0])


@program
def dataclass_of_settings(jit: Any) -> Program:
    physics = Physics()

    def f(x: Any) -> Any:
        inside = np.clip(x, *physics.walls)
        return inside * physics.gravity - sum(d * x for d in physics.drag)

    def change(i: int) -> None:
        physics.gravity = 1.62 + i
        if i == 1:
            physics.walls[1], physics.drag = 2.0, (0.3,)

    return jit(f), change


@program
def dataclass_replaced(jit: Any) -> Program:
    held = types.SimpleNamespace(physics=Physics())

    def f(x: Any) -> Any:
        moon = dataclasses.replace(held.physics, gravity=1.62)
        return x * moon.gravity + x**2 * moon.drag[0]

    return jit(f), lambda i: setattr(held, "physics", Physics(drag=(0.5 + i,)))


@program
def dataclass_as_dict(jit: Any) -> Program:
    physics = Physics()

    def f(x: Any) -> Any:
        settings = dataclasses.asdict(physics)
        return x * settings["gravity"] + sum(settings["drag"])

    return jit(f), lambda i: setattr(physics, "gravity", 1.62 + i)


class Point(typing.NamedTuple):
    x: float
    y: float


@program
def named_tuples(jit: Any) -> Program:
    centre = [Point(0.5, 1.0)]
    return jit(lambda x: x * centre[0].x + centre[0]._replace(x=2.0).x * centre[0].y), lambda i: operator.setitem(
        centre, 0, Point(1.5 + i, 2.0)
    )


class Kind(enum.Enum):
    LINEAR = "linear"
    CUBIC = "cubic"

    @property
    def power(self) -> int:
        return {Kind.LINEAR: 1, Kind.CUBIC: 3}[self]


class Flags(enum.Flag):
    NONE = 0
    SCALE = 1
    SHIFT = 2


@program
def enum_options(jit: Any) -> Program:
    held = types.SimpleNamespace(kind=Kind.LINEAR, flags=Flags.SCALE)

    def f(x: Any) -> Any:
        y = x**held.kind.power if held.kind is not Kind.LINEAR else x
        if held.flags & Flags.SCALE:
            y = y * 2.0
        if Flags.SHIFT in held.flags:
            y = y + 1.0
        return y * len(held.kind.value)

    def change(i: int) -> None:
        held.kind = [Kind.CUBIC, Kind.LINEAR][i % 2]
        held.flags = Flags.SCALE | Flags.SHIFT if i % 2 else Flags.SHIFT

    return jit(f), change


@program
def string_options(jit: Any) -> Program:
    options = {"loss": "huber", "reduction": "mean"}
    table: dict[str, Callable[[Any], Any]] = {
        "huber": lambda r: np.where(np.abs(r) < 1, 0.5 * r * r, np.abs(r) - 0.5),
        "square": lambda r: r * r,
    }

    def f(x: Any) -> Any:
        losses = table[options["loss"]](x)
        if options["reduction"] == "mean":
            return np.mean(losses)
        if options["reduction"].upper() == "SUM":
            return losses.sum()
        raise ValueError(f"unknown reduction {options['reduction']!r}")

    def change(i: int) -> None:
        options["loss"] = "square"
        options["reduction"] = ["sum", "mean", "sum"][i % 3]
        if i == 2:
            table["square"] = lambda r: 3.0 * r

    return jit(f), change


@program
def wrong_option_raises(jit: Any) -> Program:
    options = {"norm": "l2"}

    def f(x: Any) -> Any:
        match options["norm"]:
            case "l1":
                return np.sum(np.abs(x))
            case "l2" | "euclid":
                return np.sqrt(np.sum(x * x))
            case other:
                raise ValueError(f"no norm of the name {other!r}, only {['l1', 'l2']}")

    made = jit(f)

    def call(x: Any) -> Any:
        try:
            return made(x)
        except ValueError as error:
            return str(error)

    return call, lambda i: options.update(norm=["l1", "max", "euclid", "l2"][i % 4])


@program
def match_on_structure(jit: Any) -> Program:
    shapes: list[Any] = [Point(1.0, 2.0), {"radius": 3.0}, [1.0, 2.0, 3.0], 4.0]
    held = [0]

    def f(x: Any) -> Any:
        match shapes[held[0]]:
            case Point(x=a, y=b):
                return x * a + b
            case {"radius": r}:
                return x * r
            case [first, *rest]:
                return x * first + len(rest)
            case float(k) if k > 2:
                return x / k
        return x

    return jit(f), lambda i: operator.setitem(held, 0, (i + 1) % 4)


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
    return jit(lambda x: sum(x * k for k in order if k in active) + len(active)), lambda i: active.symmetric_difference_update([i, 3])


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
        return x * order[0][1] + max(weight, key=weight.get) .__len__() + min(v for _, v in items)  # type: ignore[arg-type]

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
    @functools.lru_cache(maxsize=None)
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


# -- arrays that are captured


@program
def masks_from_captured_arrays(jit: Any) -> Program:
    labels = np.array([0, 1, 0])

    def f(x: Any) -> Any:
        mask = labels == 1
        if not mask.any():
            return x * 0.0
        return np.where(mask, x, -x) + x[mask].sum() + np.sum(x[~mask]) + len(np.flatnonzero(mask))

    return jit(f), lambda i: operator.setitem(labels, i % 3, 1 - labels[i % 3])


@program
def data_set_in_batches(jit: Any) -> Program:
    data, targets = np.arange(12.0).reshape(4, 3), np.array([0, 1, 0, 1])

    def f(w: Any) -> Any:
        total = 0.0
        for start in range(0, len(data), 2):
            batch, wanted = data[start : start + 2], targets[start : start + 2]
            z = batch @ w / 10.0
            total = total + np.sum(np.logaddexp(0.0, z) - wanted * z)
        return total / data.shape[0]

    def change(i: int) -> None:
        data[i] += 1.0
        targets[i] = 1 - targets[i]

    return jit(f), change


@program
def standardised_data(jit: Any) -> Program:
    data = np.arange(12.0).reshape(4, 3) ** 2

    def f(w: Any) -> Any:
        z = (data - data.mean(axis=0)) / data.std(axis=0)
        return z @ w, np.percentile(data, 50), np.argsort(data[:, 0])

    return jit(f), lambda i: operator.setitem(data, (i % 4, 0), 7.0 * i)


@program
def groups_by_unique(jit: Any) -> Program:
    groups = np.array(["a", "b", "a"])

    def f(x: Any) -> Any:
        names, where = np.unique(groups, return_inverse=True)
        means = [x[where == k].mean() for k in range(len(names))]
        return np.stack(means) * len("".join(names))

    return jit(f), lambda i: operator.setitem(groups, i % 3, "abc"[i % 3])


@program
def linear_algebra_of_captured(jit: Any) -> Program:
    covariance = np.diag([1.0, 2.0, 3.0]) + 0.1

    def f(x: Any) -> Any:
        factor = scipy.linalg.cholesky(covariance, lower=True)
        z = scipy.linalg.solve_triangular(factor, x, lower=True)
        logdet = 2 * np.sum(np.log(np.diag(factor)))
        return -0.5 * (z @ z + logdet) + np.linalg.slogdet(covariance)[1]

    return jit(f), lambda i: operator.setitem(covariance, (i % 3, i % 3), 5.0 + i)


@program
def table_lookup(jit: Any) -> Program:
    grid, values = np.linspace(0.0, 4.0, 9), np.linspace(0.0, 4.0, 9) ** 2
    return jit(lambda x: np.interp(x, grid, values) + values[np.searchsorted(grid, x)]), lambda i: operator.setitem(values, 2 + i, 9.0)


@program
def loop_over_captured_rows(jit: Any) -> Program:
    points = np.arange(6.0).reshape(3, 2)

    def f(x: Any) -> Any:
        total = 0.0
        for a, b in points:
            total = total + (x - a) * b
        for i, p in enumerate(points):
            total = total + i * p.sum()
        return total

    return jit(f), lambda i: operator.setitem(points, (i % 3, 1), 7.0 + i)


@program
def sparse_pattern(jit: Any) -> Program:
    edges = [(0, 1), (1, 2)]
    stiffness = {(0, 1): 1.0, (1, 2): 2.0, (0, 2): 0.5}

    def f(x: Any) -> Any:
        out = np.zeros(3)
        for a, b in edges:
            force = stiffness[a, b] * (x[b] - x[a])
            out[a] += force
            out[b] -= force
        return out

    def change(i: int) -> None:
        stiffness[0, 1] += 1.0
        if i == 1:
            edges.append((0, 2))

    return jit(f), change


@program
def vectorized_functions(jit: Any) -> Program:
    limit = {"at": 2.0}

    def soft(v: Any) -> Any:
        return v if v < limit["at"] else limit["at"] + math.log(v / limit["at"])

    data = np.array([1.0, 2.5, 4.0])
    vectorized = np.vectorize(soft)
    f = jit(lambda x: x * vectorized(data) + np.frompyfunc(soft, 1, 1)(data).astype(float))
    return f, lambda i: limit.update(at=1.5 + i)


@program
def along_an_axis(jit: Any) -> Program:
    data, knob = np.arange(6.0).reshape(2, 3), {"k": 1.0}

    def spread(row: Any) -> Any:
        return row.max() - knob["k"] * row.min()

    f = jit(lambda x: x * np.apply_along_axis(spread, 1, data).sum() + np.apply_along_axis(spread, 0, data))

    def change(i: int) -> None:
        knob["k"] = 2.0 + i
        data[0, 0] += 3.0

    return f, change


@program
def along_an_axis_of_traced(jit: Any) -> Program:
    knob = {"k": 1.0}

    def spread(row: Any) -> Any:
        return np.max(row) - knob["k"] * np.min(row)

    return jit(lambda x: np.apply_along_axis(spread, 0, np.outer(x, x))), lambda i: knob.update(k=2.0 + i)


@program
def constants_of_scipy(jit: Any) -> Program:
    level = {"p": 0.95, "df": 3.0}

    def f(x: Any) -> Any:
        z = scipy.stats.norm.ppf(level["p"])
        return x * z + scipy.stats.t(level["df"]).ppf(level["p"]) + scipy.stats.norm.logpdf(x).sum()

    def change(i: int) -> None:
        level["p"] = 0.9 - 0.1 * i
        level["df"] += 1.0

    return jit(f), change


# -- errors, checks, managers


@program
def checks_of_arguments(jit: Any) -> Program:
    limits = {"ndim": 1, "dtype": np.float64}

    def f(x: Any) -> Any:
        x = np.asarray(x)
        if x.ndim != limits["ndim"]:
            raise ValueError(f"expected {limits['ndim']} axes, got an array of shape {x.shape}")
        assert isinstance(x, np.ndarray) and x.dtype == limits["dtype"], f"{x.dtype} is no {limits['dtype']}"
        return x * len(x)

    made = jit(f)

    def call(x: Any) -> Any:
        try:
            return made(x)
        except (ValueError, AssertionError) as error:
            return str(error)

    def change(i: int) -> None:
        limits["ndim"] = [2, 1, 1, 1][i]
        limits["dtype"] = [np.float64, np.float32, np.float64, np.float64][i]

    return call, change


@program
def fallback_after_an_error(jit: Any) -> Program:
    jitter = [0.0]
    matrix = np.array([[1.0, 1.0], [1.0, 1.0]])

    def f(x: Any) -> Any:
        try:
            factor = np.linalg.cholesky(matrix + jitter[0] * np.eye(2))
        except np.linalg.LinAlgError:
            factor = np.eye(2)
        finally:
            x = x + 1.0
        return factor @ x[:2]

    return jit(f), lambda i: operator.setitem(jitter, 0, [0.1, 0.0, 0.2, 0.3][i])


@program
def errors_of_lookup(jit: Any) -> Program:
    table, items = {"a": 1.0}, [1.0, 2.0]

    def f(x: Any) -> Any:
        try:
            k = table["b"]
        except KeyError as error:
            k = float(len(error.args))
        try:
            last = items[2]
        except IndexError:
            last = -1.0
        else:
            last = last * 2.0
        return x * k + last

    def change(i: int) -> None:
        if i == 0:
            table["b"] = 7.0
        else:
            items.append(4.0)

    return jit(f), change


@program
def users_manager(jit: Any) -> Program:
    stack = [1.0]

    class Scale:
        def __init__(self, k: float) -> None:
            self.k = k

        def __enter__(self) -> float:
            stack.append(self.k)
            return stack[-1] * stack[-2]

        def __exit__(self, *error: Any) -> None:
            stack.pop()

    knob = {"k": 2.0}

    def f(x: Any) -> Any:
        with Scale(knob["k"]) as a, Scale(a) as b:
            return x * a + b

    return jit(f), lambda i: knob.update(k=3.0 + i)


@program
def contextmanager_and_suppress(jit: Any) -> Program:
    modes = {"fast": False}
    table: dict[str, float] = {}

    @contextlib.contextmanager
    def mode(**changes: bool) -> Iterator[dict[str, bool]]:
        before = dict(modes)
        modes.update(changes)
        try:
            yield modes
        finally:
            modes.update(before)

    def f(x: Any) -> Any:
        with mode(fast=True) as now:
            y = x * 2.0 if now["fast"] else x
        with contextlib.suppress(KeyError):
            y = y * table["k"]
        return y if not modes["fast"] else -y

    def change(i: int) -> None:
        table["k"] = 3.0 + i
        modes["fast"] = i % 2 == 0

    return jit(f), change


@program
def ignored_warnings(jit: Any) -> Program:
    data = np.array([1.0, 0.0, 2.0])

    def f(x: Any) -> Any:
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = 1.0 / data
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            y = np.log(x) * np.where(np.isfinite(inverse), inverse, 0.0)
        return np.nan_to_num(y)

    return jit(f), lambda i: operator.setitem(data, i % 3, 1.0 - data[i % 3])


@program
def testing_calls(jit: Any) -> Program:
    weights = np.array([0.2, 0.3, 0.5])

    def f(x: Any) -> Any:
        np.testing.assert_allclose(weights.sum(), 1.0)
        np.testing.assert_array_less(-1.0, weights)
        assert np.isclose(weights.sum(), 1.0)
        return x @ weights

    return jit(f), lambda i: operator.setitem(weights, slice(None), weights[::-1].copy())


@program
def levels_of_logging(jit: Any) -> Program:
    knob = {"k": 1.0}

    def f(x: Any) -> Any:
        if logger.isEnabledFor(logging.DEBUG):
            x = x + 0.0
        if knob["k"] < 0:
            raise ValueError(f"k must not be negative, got {knob['k']:.3f} at {x.shape}")
        return x * knob["k"]

    return jit(f), lambda i: knob.update(k=2.0 + i)


@program
def isinstance_dispatch(jit: Any) -> Program:
    class Shift:
        def __init__(self, by: float) -> None:
            self.by = by

    class Scale(Shift):
        pass

    transforms: list[Any] = [Shift(1.0), Scale(2.0), np.sin, ("power", 2), None]

    def f(x: Any) -> Any:
        for t in transforms:
            if t is None:
                continue
            if isinstance(t, Scale):
                x = x * t.by
            elif isinstance(t, Shift):
                x = x + t.by
            elif callable(t):
                x = t(x)
            elif isinstance(t, tuple) and t[0] == "power":
                x = x ** t[1]
        return x

    def change(i: int) -> None:
        transforms[0].by += 1.0
        transforms[2] = [np.cos, np.tanh, np.sin, np.exp][i]
        if i == 1:
            transforms[3] = Scale(5.0)

    return jit(f), change


# -- libraries that call back


@program
def estimator(jit: Any) -> Program:
    class Ridge:
        def __init__(self, alpha: float = 1.0, fit_intercept: bool = True) -> None:
            self.alpha, self.fit_intercept = alpha, fit_intercept

        def get_params(self) -> dict[str, Any]:
            return {name: getattr(self, name) for name in ("alpha", "fit_intercept")}

        def set_params(self, **params: Any) -> Ridge:
            for name, value in params.items():
                if not hasattr(self, name):
                    raise ValueError(f"no parameter {name!r}")
                setattr(self, name, value)
            return self

        def fit(self, X: Any, y: Any) -> Ridge:
            self.mean_ = X.mean(axis=0) if self.fit_intercept else np.zeros(X.shape[1])
            Z = X - self.mean_
            self.coef_ = np.linalg.solve(Z.T @ Z + self.alpha * np.eye(X.shape[1]), Z.T @ y)
            return self

        def predict(self, X: Any) -> Any:
            if not hasattr(self, "coef_"):
                raise RuntimeError("it is not fitted")
            return (X - self.mean_) @ self.coef_

    X, y = np.arange(12.0).reshape(4, 3) ** 0.5, np.array([1.0, 0.0, 2.0, 1.0])
    model = Ridge(0.5)
    predict = jit(lambda x: model.predict(x[None, :])[0])
    fitted = jit(lambda x: Ridge(**model.get_params()).fit(X, y + x[0]).coef_)
    model.fit(X, y)

    def change(i: int) -> None:
        model.set_params(alpha=1.0 + i, fit_intercept=i % 2 == 0).fit(X, y + i)

    return lambda x: (predict(x), fitted(x)), change


@program
def objective_of_an_optimiser(jit: Any) -> Program:
    target = {"at": np.array([1.0, 2.0, 3.0]), "k": 1.0}
    log: list[float] = []

    @jit
    def value(x: Any) -> Any:
        return target["k"] * np.sum((x - target["at"]) ** 2)  # type: ignore[operator]

    def call(x: Any) -> Any:
        log.clear()
        found = scipy.optimize.minimize(value, x, method="Nelder-Mead", options={"maxiter": 15}, callback=lambda z: log.append(1.0))
        return found.x, len(log)

    return call, lambda i: target.update(k=2.0 + i, at=np.full(3, float(i)))


@program
def pipeline_of_steps(jit: Any) -> Program:
    class Scaler:
        def __init__(self) -> None:
            self.mean, self.std = 0.0, 1.0

        def transform(self, x: Any) -> Any:
            return (x - self.mean) / self.std

    class Poly:
        degree = 2

        def transform(self, x: Any) -> Any:
            return np.concatenate([x**d for d in range(1, self.degree + 1)])

    steps: list[tuple[str, Any]] = [("scale", Scaler()), ("poly", Poly())]
    names: dict[str, Any] = dict(steps)

    def f(x: Any) -> Any:
        for _, step in steps:
            x = step.transform(x)
        return x * (2.0 if "poly" in names else 1.0)

    def change(i: int) -> None:
        names["scale"].mean += 0.5
        names["poly"].degree = 3
        if i == 2:
            steps.pop()

    return jit(f), change


@program
def observers_and_hooks(jit: Any) -> Program:
    class Module:
        def __init__(self) -> None:
            self.hooks: list[Callable[[Any], Any]] = []
            self.register(lambda x: x + 1.0)

        def register(self, hook: Callable[[Any], Any]) -> None:
            self.hooks.append(hook)

        def __call__(self, x: Any) -> Any:
            for hook in self.hooks:
                x = hook(x)
            return x

    module = Module()
    return jit(module), lambda i: module.register([np.sin, lambda x: x * 3.0, np.cos, np.tanh][i])


@program
def plugins_by_name(jit: Any) -> Program:
    class Operations:
        def op_double(self, x: Any) -> Any:
            return 2.0 * x

        def op_shift(self, x: Any) -> Any:
            return x + self.by

        by = 1.0

    operations, names = Operations(), ["double"]

    def f(x: Any) -> Any:
        for name in names:
            x = getattr(operations, f"op_{name}")(x)
        return x

    def change(i: int) -> None:
        names.append("shift")
        operations.by = 2.0 + i

    return jit(f), change


@program
def copies_of_settings(jit: Any) -> Program:
    settings = {"k": 2.0, "inner": {"w": [1.0, 2.0]}}

    def f(x: Any) -> Any:
        mine = copy.deepcopy(settings)
        mine["k"] = mine["k"] * 2.0  # type: ignore[operator]
        other = {**settings, "extra": 1.0}
        return x * mine["k"] + sum(mine["inner"]["w"]) + len(other) + dict(settings)["k"]  # type: ignore[operator, index]

    def change(i: int) -> None:
        settings["k"] = 3.0 + i
        settings["inner"]["w"].append(1.0)  # type: ignore[index]

    return jit(f), change


@program
def text_and_numbers(jit: Any) -> Program:
    spec = {"formula": "2*x + 1", "sep": "+"}

    def f(x: Any) -> Any:
        total = 0.0
        for term in spec["formula"].split(spec["sep"]):
            term = term.strip()
            total = total + (float(term.removesuffix("*x")) * x if term.endswith("x") else float(term))
        return total

    return jit(f), lambda i: spec.update(formula=f"{3 + i}*x + {i} + 1")


@program
def polynomial_object(jit: Any) -> Program:
    held = {"p": np.polynomial.Polynomial([1.0, 2.0, 0.5])}
    return jit(lambda x: x * held["p"].deriv()(2.0) + held["p"].degree() + held["p"].coef), lambda i: held.update(p=np.polynomial.Polynomial([1.0, 2.0, 3.0 + i]))


@program
def state_machine(jit: Any) -> Program:
    class Machine:
        def __init__(self) -> None:
            self.state, self.count = "warm", 0

        def step(self, x: Any) -> Any:
            self.count += 1
            if self.state == "warm" and self.count >= 2:
                self.state = "hot"
            return x * (2.0 if self.state == "hot" else 1.0)

    machine = Machine()
    f = jit(machine.step)
    return lambda x: (f(x), machine.state, machine.count), lambda i: setattr(machine, "state", "warm") if i == 2 else None


@program
def schedule_of_steps(jit: Any) -> Program:
    class Schedule:
        def __init__(self) -> None:
            self.t, self.base, self.boundaries = 0, 0.1, [2, 3]

        def rate(self) -> float:
            return self.base * 0.5 ** sum(self.t >= b for b in self.boundaries)

    schedule = Schedule()
    return jit(lambda x: x - schedule.rate() * x), lambda i: setattr(schedule, "t", schedule.t + 1)


@program
def typed_containers(jit: Any) -> Program:
    class Parameters(dict):  # type: ignore[type-arg]
        def __getattr__(self, name: str) -> Any:
            return self[name]

        def __missing__(self, key: str) -> float:
            return 0.5

    class Steps(list):  # type: ignore[type-arg]
        def total(self) -> float:
            return float(sum(self))

    params, steps = Parameters(a=1.0), Steps([1.0])

    def change(i: int) -> None:
        params["ab"[i % 2]] = 2.0 + i
        steps.append(1.0)

    return jit(lambda x: x * params.a + params["b"] + steps.total() + params.get("c", 3.0)), change


@program
def weights_shared_between_two(jit: Any) -> Program:
    shared = types.SimpleNamespace(k=1.0)
    first = jit(lambda x: x * shared.k)
    second = jit(lambda x: first(x) + shared.k)
    return lambda x: (first(x), second(x)), lambda i: setattr(shared, "k", 2.0 + i)


@program
def any_all_zip_map(jit: Any) -> Program:
    rules, names = [True, True], ["a", "b"]
    table = {"a": 1.0, "b": 2.0}

    def f(x: Any) -> Any:
        if all(rules) and any(n in table for n in names):
            x = x * sum(map(table.__getitem__, names))
        kept = list(filter(lambda n: table[n] > 1.5, names))
        return x + len(kept) + sum(a * b for a, b in zip(table.values(), reversed([1.0, 2.0])))

    def change(i: int) -> None:
        rules[0] = not rules[0]
        table["a"] = 2.0 + i

    return jit(f), change


@program
def walrus_star_and_slices(jit: Any) -> Program:
    weights = [1.0, 2.0, 3.0, 4.0]

    def f(x: Any) -> Any:
        first, *middle, last = weights
        if (n := len(middle)) > 1:
            x = x * n
        a, b = weights[:2]
        return x * first + last + sum(weights[1::2]) + a * b + (weights[-1] if weights else 0.0)

    def change(i: int) -> None:
        weights[i] += 1.5
        weights.insert(1, 0.5)

    return jit(f), change


@program
def numbers_of_numpy(jit: Any) -> Program:
    held = types.SimpleNamespace(a=np.float64(2.0), n=np.int64(2), dtype=np.dtype("float32"))

    def f(x: Any) -> Any:
        return (x * held.a ** held.n).astype(held.dtype) + np.arange(3, dtype=held.dtype) * int(held.n)

    def change(i: int) -> None:
        held.a, held.n = np.float64(3.0 + i), np.int64(1 + i)
        held.dtype = np.dtype(["float64", "float32"][i % 2])

    return jit(f), change


@program
def protocols_and_callables(jit: Any) -> Program:
    class Gain:
        def __init__(self, k: float) -> None:
            self.k = k

        def __call__(self, x: Any) -> Any:
            return self.k * x

        def __bool__(self) -> bool:
            return self.k > 1.5

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Gain) and other.k == self.k

        def __hash__(self) -> int:
            return hash(self.k)

    a, b = Gain(1.0), Gain(2.0)

    def f(x: Any) -> Any:
        y = a(x) if a else b(x)
        return y if a == b else y + 1.0

    return jit(f), lambda i: setattr(a, "k", 2.0 + (i % 2))
