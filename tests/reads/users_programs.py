"""Programs as users write them around `jit`: what they read, store and catch beside computing.

Each is a function of `jit`, or of what stands for it, and gives two functions: what is called with an array, and what changes
between two calls. They stand in a module of their own because pytest rewrites the asserts of files of tests, so that these
functions would have no source.
"""

from __future__ import annotations

import abc
import dataclasses
import enum
import functools
import math
import operator
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Program = tuple[Callable[..., Any], Callable[[int], Any]]
PROGRAMS: dict[str, Callable[[Any], Program]] = {}


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
