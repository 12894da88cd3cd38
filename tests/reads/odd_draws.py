# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined"
"""Random numbers of libraries' objects, and states of generators: (the function, what changes between the calls)."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import random
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.stats

CASES: dict[str, Callable[[], Any]] = {}


def made() -> types.SimpleNamespace:
    """Generators, and what holds some."""
    np.random.seed(3)
    s = types.SimpleNamespace(rng=np.random.default_rng(1), old=np.random.RandomState(2), python=random.Random(3))
    s.state, s.python.gauss_next = s.rng.bit_generator.state, None
    s.norm, s.gamma, s.plain = scipy.stats.norm(), scipy.stats.gamma(2.0), scipy.stats.norm()
    s.norm.random_state, s.gamma.random_state = np.random.RandomState(3), 5
    s.new = scipy.stats.norm(1.0)
    s.new.random_state = np.random.default_rng(6)
    s.several = scipy.stats.multivariate_normal(np.zeros(3), seed=3)
    s.some = scipy.stats.rv_discrete(values=([1, 2, 3], [0.2, 0.3, 0.5]), seed=3)
    s.kde = scipy.stats.gaussian_kde([1.0, 2.0, 4.0])
    s.sobol, s.model = scipy.stats.qmc.Sobol(3, seed=1), Model(np.random.default_rng(4), scipy.stats.norm())
    s.model.rv.random_state = 7
    return s


@dataclasses.dataclass
class Model:
    """An object of the user's that holds some."""

    rng: Any
    rv: Any

    def noise(self, x):
        return x * self.rv.rvs()


def moved(s, i):
    s.rng.normal(), s.old.normal(), s.python.gauss(0.0, 1.0), s.model.rng.normal()
    np.random.seed(i)


def case(name: str) -> Callable[[Any], None]:
    def noted(f: Callable[[Any, Any], Any]) -> None:
        def make():
            s = made()
            return (lambda x: f(s, x)), (lambda i: moved(s, i))

        CASES[name] = make

    return noted


case("of a distribution")(lambda s, x: x * s.norm.rvs())
case("of a distribution with a seed")(lambda s, x: x * s.gamma.rvs(3))
case("of a distribution with a new generator")(lambda s, x: x * s.new.rvs())
case("of a distribution with NumPy's")(lambda s, x: x * s.plain.rvs())
case("of a distribution of vectors")(lambda s, x: x * s.several.rvs())
case("of a discrete distribution")(lambda s, x: x * s.some.rvs(size=3))
case("of an estimate")(lambda s, x: x * s.kde.resample(3)[0])
case("of an estimate, by keyword")(lambda s, x: x * s.kde.resample(3, seed=None)[0])
case("of an estimate with a generator")(lambda s, x: x * s.kde.resample(3, seed=s.rng)[0])
case("of a sequence")(lambda s, x: x * s.sobol.random(1)[0])
case("of an attribute")(lambda s, x: x * s.model.rv.rvs())
case("of an object")(lambda s, x: s.model.noise(x))
case("of a bound method")(lambda s, x: x * sum([draw() for draw in (s.norm.rvs, s.gamma.rvs)]))
case("of a copy")(lambda s, x: x * copy.deepcopy(s.rng).normal())
case("of a copy of Python's")(lambda s, x: x * copy.copy(s.python).random())
case("of a copy of an object")(lambda s, x: x * copy.deepcopy(s.model).rng.normal())
case("of a copy of a dict")(lambda s, x: x * copy.deepcopy({"rng": [s.rng]})["rng"][0].normal())
case("of a copy by replacement")(lambda s, x: x * dataclasses.asdict(s.model)["rng"].normal())
case("of a copy in bytes")(lambda s, x: x * pickle.loads(pickle.dumps(s.old)).normal())
case("of a copy with something else")(lambda s, x: dataclasses.replace(s.model, rv=x * s.rng.normal()).rv)
case("with a state")(lambda s, x: x * (s.rng.bit_generator.state["state"]["state"] % 1000))
case("of Python's, with a state")(lambda s, x: x * (s.python.gauss_next or 1.0))
case("raw")(lambda s, x: x * (s.rng.bit_generator.random_raw() % 1000))
case("of one made here")(lambda s, x: x * np.random.default_rng(1).bit_generator.random_raw(2)[1] % 1000)


@case("set back")
def set_back(s, x):
    before = s.rng.bit_generator.state
    y = x * s.rng.normal()
    s.rng.bit_generator.state = before
    return y


@case("begun anew")
def begun_anew(s, x):
    s.rng.bit_generator.state = s.state
    return x * s.rng.normal()


@case("set back by a function")
def set_back_by_a_function(s, x):
    before = s.old.get_state()
    y = x * s.old.normal()
    s.old.set_state(before)
    return y
