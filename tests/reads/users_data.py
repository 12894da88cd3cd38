"""Programs as users write them: captured data, errors and managers, libraries that call back."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import logging
import math
import operator
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.stats

from tests.reads.users_programs import Program, program

logger = logging.getLogger("users programs")


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
    f = jit(lambda x: np.interp(x, grid, values) + values[np.searchsorted(grid, x)])
    return f, lambda i: operator.setitem(values, 2 + i, 9.0)


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
        seen = lambda z: log.append(1.0)
        found = scipy.optimize.minimize(value, x, method="Nelder-Mead", options={"maxiter": 15}, callback=seen)
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
    f = jit(lambda x: x * held["p"].deriv()(2.0) + held["p"].degree() + held["p"].coef)
    return f, lambda i: held.update(p=np.polynomial.Polynomial([1.0, 2.0, 3.0 + i]))


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
        return (x * held.a**held.n).astype(held.dtype) + np.arange(3, dtype=held.dtype) * int(held.n)

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


@program
def vectorized_function_that_counts(jit: Any) -> Program:
    table, data, counts = np.arange(1.0, 4.0), np.arange(3.0), {"n": 0}

    def of_one(v: float) -> Any:
        counts["n"] += 1
        return v * table[0] + table.sum()

    of_each = np.vectorize(of_one, otypes=[float])
    f = jit(lambda x: x * of_each(data))
    return lambda x: (f(x), counts["n"]), lambda i: operator.setitem(table, i % 3, 7.0 + i)


@program
def records_that_are_compared(jit: Any) -> Program:
    @dataclasses.dataclass
    class Record:
        name: str
        values: list[float]

    a, b = Record("a", [1.0]), Record("a", [1.0])

    def f(x: Any) -> Any:
        return x * (2.0 if a == b else 3.0) + (1.0 if a in [b] else 0.0) + len(repr(a))

    return jit(f), lambda i: (a if i % 2 else b).values.append(1.0)
