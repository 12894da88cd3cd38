# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""What containers, scopes, modules and settings of the process hold: (the function, what changes between the calls)."""

from __future__ import annotations

import bisect
import collections
import contextlib
import decimal
import fractions
import functools
import gc
import heapq
import importlib
import itertools
import locale
import os
import pathlib
import statistics
import string
import sys
import tempfile
import textwrap
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

CASES: dict[str, Callable[[], Any]] = {}


def case(make: Callable[[], Any]) -> Callable[[], Any]:
    CASES[make.__name__.removesuffix("_is_read")] = make
    return make


# -- containers


@case
def partial_arguments_is_read() -> Any:
    held = [1.0]
    p = functools.partial(lambda a, x: a[0] * x, held)
    return (lambda x: p(x)), lambda i: held.__setitem__(0, 2.0 + i)


@case
def partial_keywords_is_read() -> Any:
    p = functools.partial(lambda x, k: k * x, k=1.0)
    return (lambda x: p(x)), lambda i: p.keywords.update(k=2.0 + i)


@case
def partial_state_is_read() -> Any:
    def g(k, x):
        return k * x

    p = functools.partial(g, 1.0)
    return (lambda x: p(x)), lambda i: p.__setstate__((g, (2.0 + i,), {}, {}))


@case
def partial_attribute_is_read() -> Any:
    p = functools.partial(lambda x: x)
    p.k = 1.0
    return (lambda x: p(x) * p.k), lambda i: setattr(p, "k", 2.0 + i)


@case
def namespace_equality_is_read() -> Any:
    a, b = types.SimpleNamespace(k=1.0), types.SimpleNamespace(k=2.0)
    return (lambda x: x * 2.0 if a == b else x), lambda i: setattr(a, "k", 2.0 if i % 2 == 0 else 1.0)


@case
def chain_map_order_is_read() -> Any:
    c = collections.ChainMap({"k": 1.0}, {"k": 2.0, "j": 3.0})
    return (lambda x: x * c["k"] * len(c)), lambda i: c.maps.reverse() if i % 2 else c.maps.insert(0, {f"v{i}": 1.0})


@case
def chain_map_parents_is_read() -> Any:
    c = collections.ChainMap({}, {"k": 2.0})
    return (lambda x: x * c.parents["k"]), lambda i: c.maps[1].update(k=3.0 + i)


@case
def default_factory_is_read() -> Any:
    d: Any = collections.defaultdict(lambda: 1.0)

    def f(x):
        y = x * d["a"]
        del d["a"]
        return y

    return f, lambda i: setattr(d, "default_factory", lambda: 2.0 + i)


@case
def default_factory_of_python_is_read() -> Any:
    d: Any = collections.defaultdict(int)

    def f(x):
        y = x + len(str(d["a"]))
        d.clear()
        return y

    return f, lambda i: setattr(d, "default_factory", [list, dict, int, str][i])


@case
def rotating_deque_is_read() -> Any:
    d = collections.deque([1.0, 2.0, 3.0])

    def f(x):
        d.rotate(1)
        return x * d[0]

    return f, lambda i: d.append(4.0 + i)


@case
def weak_key_dictionary_is_read() -> Any:
    class K:
        pass

    held = [K(), K()]
    d = weakref.WeakKeyDictionary({held[0]: 1.0, held[1]: 2.0})

    def change(i):
        if i == 1:
            held.pop()
            gc.collect()
        else:
            d[held[0]] = 3.0 + i

    return (lambda x: x * d[held[0]] * len(d)), change


@case
def weak_set_is_read() -> Any:
    class K:
        pass

    held = [K(), K()]
    d = weakref.WeakSet(held)

    def change(i):
        if held:
            held.pop()
        gc.collect()

    return (lambda x: x * (1.0 + len(d))), change


@case
def user_dict_is_read() -> Any:
    d = collections.UserDict({"k": 1.0})
    return (lambda x: x * d["k"] * len(d)), lambda i: d.update({"k": 2.0 + i, f"n{i}": 1.0})


@case
def user_list_is_read() -> Any:
    d = collections.UserList([1.0])
    return (lambda x: x * d[0] * len(d)), lambda i: d.append(1.0) if i % 2 else d.__setitem__(0, 2.0 + i)


@case
def ordered_dict_is_read() -> Any:
    d = collections.OrderedDict(a=1.0, b=2.0)
    return (lambda x: x * next(iter(d.values()))), lambda i: d.move_to_end("a", last=bool(i % 2))


@case
def dict_equality_is_read() -> Any:
    a, b = {"k": [1.0]}, {"k": [2.0]}
    return (lambda x: x * 2.0 if a == b else x), lambda i: a["k"].__setitem__(0, 2.0 if i % 2 == 0 else 1.0)


@case
def list_index_is_read() -> Any:
    a = [1.0, 2.0, 3.0]
    return (lambda x: x * (1 + a.index(3.0))), lambda i: a.insert(0, float(-i))


@case
def nested_unpacking_is_read() -> Any:
    a = [(1.0, [2.0, 3.0])]

    def f(x):
        (p, (q, *r)), *s = a
        return x * (p + q + len(r) + len(s))

    return f, lambda i: a[0][1].append(1.0) if i % 2 else a.append((1.0, []))


@case
def heap_is_read() -> Any:
    a = [3.0, 4.0]

    def f(x):
        return x * heapq.nsmallest(1, a)[0] + bisect.bisect(a, 3.5)

    return f, lambda i: heapq.heappush(a, 2.0 - i)


@case
def statistics_is_read() -> Any:
    a = [3.0, 4.0]
    return (lambda x: x * statistics.mean(a)), lambda i: a.append(2.0 - i)


@case
def chained_is_read() -> Any:
    a, b = [1.0], [2.0]
    return (lambda x: x * sum(itertools.chain(a, b))), lambda i: a.append(1.0 + i)


@case
def group_by_is_read() -> Any:
    a = [1, 1, 2]
    return (lambda x: x * len([k for k, _ in itertools.groupby(a)])), lambda i: a.append(i)


# -- control and scopes


@case
def match_of_classes_is_read() -> Any:
    class P:
        __match_args__ = ("k", "j")

        def __init__(self, k, j):
            self.k, self.j = k, j

    h = [P(1.0, 2.0)]

    def f(x):
        match h[0]:
            case P(1.0, j):
                return x * j
            case P(k, _):
                return x * k * 10.0
            case _:
                return x

    def change(i):
        if i == 2:
            P.__match_args__ = ("j", "k")
        else:
            h[0] = P(1.0 + i, 5.0)

    return f, change


@case
def match_of_mappings_is_read() -> Any:
    d = {"kind": "a", "v": 2.0}

    def f(x):
        match d:
            case {"kind": "a", "v": v, **rest}:
                return x * v * (1 + len(rest))
            case {"v": v}:
                return x + v
            case _:
                return x

    return f, lambda i: d.update({"kind": "ab"[i % 2], "v": 3.0 + i, f"n{i}": 0})


@case
def generator_in_a_closure_is_read() -> Any:
    def counting():
        n = 1.0
        while True:
            n += 1.0
            yield n

    g = counting()
    return (lambda x: x * next(g)), lambda i: next(g)


@case
def generator_that_is_sent_is_read() -> Any:
    def echo():
        n = 1.0
        while True:
            n = yield n

    g = echo()
    next(g)
    return (lambda x: x * g.send(2.0)), lambda i: g.send(5.0 + i)


@case
def generator_frame_is_read() -> Any:
    def counting():
        n = 1.0
        while True:
            n += 1.0
            yield n

    g = counting()
    next(g)
    return (lambda x: x * g.gi_frame.f_locals["n"]), lambda i: next(g)


@case
def walrus_in_a_comprehension_is_read() -> Any:
    a = [1.0, 2.0]

    def f(x):
        total = [last := v * 2.0 for v in a]
        return x * last + len(total)

    return f, lambda i: a.append(3.0 + i)


@case
def comprehension_of_comprehensions_is_read() -> Any:
    a = [[1.0], [2.0, 3.0]]
    return (lambda x: x * sum([v for row in a for v in row if v > 1.0])), lambda i: a[i % 2].append(2.0 + i)


@case
def class_scope_is_read() -> Any:
    k = 1.0

    def f(x):
        class A:
            j = k

            def m(self):
                return self.j + k

        return x * A().m()

    def change(i):
        nonlocal k
        k = 2.0 + i

    return f, change


@case
def nonlocal_chain_is_read() -> Any:
    n = 1.0

    def outer():
        def inner(x):
            nonlocal n
            n += 1.0
            return x * n

        return inner

    f = outer()

    def change(i):
        nonlocal n
        n = 10.0 * i

    return f, change


@case
def closure_made_by_exec_is_read() -> Any:
    names: dict[str, Any] = {}
    exec("def make(k):\n  def f(x): return x * k[0]\n  return f", names)
    k = [1.0]
    return names["make"](k), lambda i: k.__setitem__(0, 2.0 + i)


@case
def counter_made_by_exec_is_read() -> Any:
    names: dict[str, Any] = {}
    exec("def make():\n  n = 0.0\n  def f(x):\n    nonlocal n\n    n += 1.0\n    return x * n\n  return f", names)
    return names["make"](), lambda i: None


@case
def cell_that_is_deleted_is_read() -> Any:
    k = 1.0

    def f(x):
        try:
            return x * k
        except NameError:
            return x

    def change(i):
        nonlocal k
        if i % 2:
            k = 3.0 + i
        else:
            del k

    return f, change


@case
def function_in_a_loop_is_read() -> Any:
    fs = [lambda x, k=k: x * k for k in (1.0, 2.0)]
    return (lambda x: fs[0](x) + fs[-1](x)), lambda i: fs.reverse() if i % 2 else fs.append(lambda x: x * 3.0)


@case
def exit_order_is_read() -> Any:
    out: list[float] = [1.0]

    class M:
        def __enter__(self):
            out.append(out[-1] + 1.0)
            return out[-1]

        def __exit__(self, *error):
            out.pop()

    m = M()

    def f(x):
        with m as a, contextlib.suppress(KeyError), m as b:
            return x * a * b

    return f, lambda i: out.__setitem__(0, 2.0 + i)


@case
def finally_is_read() -> Any:
    n = [0.0]

    def f(x):
        try:
            return x * n[0]
        finally:
            n[0] += 1.0

    return f, lambda i: n.__setitem__(0, n[0] + 10.0)


@case
def recursion_is_read() -> Any:
    depth = [2]

    def g(x, n):
        return x if n == 0 else g(x * 2.0, n - 1)

    return (lambda x: g(x, depth[0])), lambda i: depth.__setitem__(0, i)


@case
def decorated_is_read() -> Any:
    k = [1.0]

    def twice(f):
        @functools.wraps(f)
        def g(*args):
            return f(*args) * k[0]

        return g

    @twice
    def h(x):
        return x + k[0]

    return (lambda x: h(x)), lambda i: k.__setitem__(0, 2.0 + i)


@case
def wrapped_attribute_is_read() -> Any:
    def g(x):
        return x

    def g2(x):
        return x * 2.0

    @functools.wraps(g)
    def h(x):
        return h.__wrapped__(x)

    return (lambda x: h(x)), lambda i: setattr(h, "__wrapped__", g2 if i % 2 == 0 else g)


# -- modules


@case
def module_with_getattr_is_read() -> Any:
    m = types.ModuleType("lazy")
    m.held = {"k": 1.0}  # type: ignore[attr-defined]
    m.__getattr__ = lambda name: m.held[name]  # type: ignore[method-assign]

    def change(i):
        if i == 2:
            m.k = 9.0  # type: ignore[attr-defined]
        m.held["k"] = 2.0 + i

    return (lambda x: x * m.k), change


@case
def lazily_imported_is_read() -> Any:
    package = types.ModuleType("odd_package")
    package.__path__ = []
    sys.modules["odd_package"] = package

    def f(x):
        if "odd_package.sub" in sys.modules:
            from odd_package import sub

            return x * sub.k
        return x

    def change(i):
        sub = types.ModuleType("odd_package.sub")
        sub.k = 2.0 + i
        package.sub = sub
        sys.modules["odd_package.sub"] = sub

    sys.modules.pop("odd_package.sub", None)
    return f, change


@case
def import_in_the_function_is_read() -> Any:
    m = types.ModuleType("odd_module")
    m.k = 1.0
    sys.modules["odd_module"] = m

    def f(x):
        import odd_module

        return x * odd_module.k

    def change(i):
        if i == 2:
            other = types.ModuleType("odd_module")
            other.k = 7.0
            sys.modules["odd_module"] = other
        sys.modules["odd_module"].k += 1.0

    return f, change


@case
def reloaded_is_read() -> Any:
    folder = pathlib.Path(tempfile.mkdtemp())
    file = folder / "odd_reloaded.py"
    file.write_text("K = 1.0\ndef helper(x):\n    return x * K\n")
    sys.path.insert(0, str(folder))
    sys.modules.pop("odd_reloaded", None)
    importlib.invalidate_caches()
    try:
        m = importlib.import_module("odd_reloaded")
    finally:
        sys.path.remove(str(folder))

    def change(i):
        file.write_text(f"K = {2.0 + i}\ndef helper(x):\n    return x * K + {i}\n# {'a' * i}\n")
        m.__spec__.loader.path = str(file)
        exec(compile(file.read_text(), str(file), "exec"), m.__dict__)

    return (lambda x: m.helper(x)), change


# -- settings of the process


@case
def decimal_precision_is_read() -> Any:
    decimal.getcontext().prec = 28
    third = decimal.Decimal(1)

    def change(i):
        decimal.getcontext().prec = 3 + i

    return (lambda x: x * float(third / 3)), change


@case
def decimal_rounding_is_read() -> Any:
    c = decimal.Context(prec=3)
    third = decimal.Decimal(2)

    def change(i):
        c.rounding = [decimal.ROUND_DOWN, decimal.ROUND_UP, decimal.ROUND_DOWN, decimal.ROUND_UP][i]

    return (lambda x: x * float(c.divide(third, 3))), change


@case
def decimal_quantize_is_read() -> Any:
    decimal.getcontext().rounding = decimal.ROUND_HALF_EVEN

    def change(i):
        decimal.getcontext().rounding = [decimal.ROUND_DOWN, decimal.ROUND_UP, decimal.ROUND_DOWN, decimal.ROUND_HALF_EVEN][i]

    return (lambda x: x * float(decimal.Decimal("1.55").quantize(decimal.Decimal("0.1")))), change


@case
def decimal_method_is_read() -> Any:
    decimal.getcontext().prec = 28
    two = decimal.Decimal(2)

    def change(i):
        decimal.getcontext().prec = 3 + i

    return (lambda x: x * float(two.sqrt())), change


@case
def decimal_sum_is_read() -> Any:
    decimal.getcontext().prec = 28
    held = [decimal.Decimal(1) / decimal.Decimal(3), decimal.Decimal(2) / decimal.Decimal(7)]

    def change(i):
        decimal.getcontext().prec = 3 + i

    return (lambda x: x * float(sum(held))), change


@case
def print_options_is_read() -> Any:
    a = np.array([1.0 / 3.0])
    np.set_printoptions(precision=8)

    def change(i):
        np.set_printoptions(precision=2 + i)

    return (lambda x: x * float(str(a)[1:-1])), change


@case
def print_options_of_repr_is_read() -> Any:
    a = np.array([1.0 / 3.0])
    np.set_printoptions(precision=8)

    def change(i):
        np.set_printoptions(precision=2 + i)

    return (lambda x: x * len(f"{a!r}")), change


@case
def string_of_x_is_read() -> Any:
    np.set_printoptions(precision=8)

    def change(i):
        np.set_printoptions(precision=2 + i)

    return (lambda x: x * len(np.array2string(np.array([2.0 / 3.0])))), change


@case
def locale_is_read() -> Any:
    locale.setlocale(locale.LC_NUMERIC, "C")
    return (lambda x: x * len(locale.localeconv()["decimal_point"])), lambda i: locale.setlocale(locale.LC_NUMERIC, "C")


@case
def working_folder_is_read() -> Any:
    os.chdir("/")
    return (lambda x: x * len(os.getcwd())), lambda i: os.chdir(["/tmp", "/", "/usr", "/"][i])


@case
def file_time_is_read() -> Any:
    file = pathlib.Path(tempfile.mkdtemp()) / "a"
    file.write_text("1")
    os.utime(file, (1000.0, 1000.0))
    return (lambda x: x * os.path.getmtime(file)), lambda i: os.utime(file, (2000.0 + i, 2000.0 + i))


@case
def file_text_is_read() -> Any:
    file = pathlib.Path(tempfile.mkdtemp()) / "a"
    file.write_text("1")
    return (lambda x: x * float(file.read_text())), lambda i: file.write_text(str(2 + i))


@case
def file_that_is_there_is_read() -> Any:
    file = pathlib.Path(tempfile.mkdtemp()) / "a"
    return (lambda x: x * 2.0 if file.exists() else x), lambda i: file.write_text("") if i % 2 == 0 else file.unlink()


@case
def random_state_is_read() -> Any:
    np.random.seed(0)
    return (lambda x: x * np.random.get_state()[1][0]), lambda i: np.random.seed(i)


@case
def random_draw_is_read() -> Any:
    np.random.seed(0)
    return (lambda x: x * np.random.uniform()), lambda i: np.random.seed(i)


@case
def python_random_is_read() -> Any:
    import random

    random.seed(0)
    return (lambda x: x * random.random()), lambda i: random.seed(i)


@case
def generator_of_numpy_is_read() -> Any:
    g = np.random.default_rng(0)
    return (lambda x: x * g.normal()), lambda i: g.bit_generator.__setattr__(
        "state", np.random.default_rng(i).bit_generator.state
    )


@case
def counted_references_is_read() -> Any:
    a: list[int] = []
    held: list[Any] = []
    return (lambda x: x * (1 if sys.getrefcount(a) > 6 else 2)), lambda i: held.extend([a] * 9)


@case
def collected_objects_is_read() -> Any:
    gc.enable()
    return (lambda x: x * 2.0 if gc.isenabled() else x), lambda i: gc.enable() if i % 2 else gc.disable()


@case
def threshold_is_read() -> Any:
    gc.set_threshold(700, 10, 10)
    return (lambda x: x * gc.get_threshold()[0]), lambda i: gc.set_threshold(701 + i, 10, 10)


@case
def thread_between_is_read() -> Any:
    state = types.SimpleNamespace(k=1.0)

    def change(i):
        t = threading.Thread(target=setattr, args=(state, "k", 2.0 + i))
        t.start()
        t.join()

    return (lambda x: x * state.k), change


@case
def event_is_read() -> Any:
    e = threading.Event()
    return (lambda x: x * 2.0 if e.is_set() else x), lambda i: e.set() if i % 2 == 0 else e.clear()


@case
def lock_is_read() -> Any:
    e = threading.Lock()
    return (lambda x: x * 2.0 if e.locked() else x), lambda i: e.acquire() if i % 2 == 0 else e.release()


@case
def thread_local_is_read() -> Any:
    local = threading.local()
    local.k = 1.0
    return (lambda x: x * local.k), lambda i: setattr(local, "k", 2.0 + i)


@case
def error_state_is_read() -> Any:
    np.seterr(all="warn")
    return (lambda x: x * 2.0 if np.geterr()["divide"] == "ignore" else x), lambda i: np.seterr(
        divide="ignore" if i % 2 == 0 else "warn"
    )


@case
def digits_limit_is_read() -> Any:
    sys.set_int_max_str_digits(4300)
    return (lambda x: x * sys.get_int_max_str_digits()), lambda i: sys.set_int_max_str_digits(5000 + i)


@case
def path_of_imports_is_read() -> Any:
    sys.path[:] = [p for p in sys.path if not p.startswith("odd")]
    return (lambda x: x * len(sys.path)), lambda i: sys.path.append(f"odd{i}")


@case
def template_of_attributes_is_read() -> Any:
    t = string.Template("$k")
    t.template = "1"
    return (lambda x: x * float(t.safe_substitute())), lambda i: setattr(t, "template", str(2 + i))


@case
def wrapper_of_text_is_read() -> Any:
    w = textwrap.TextWrapper(width=10)
    return (lambda x: x * len(w.wrap("a b c d e f g h i j k l m"))), lambda i: setattr(w, "width", 4 + i)


@case
def fraction_is_read() -> Any:
    h = [fractions.Fraction(1, 3)]
    return (lambda x: x * float(h[0] + 1)), lambda i: h.__setitem__(0, fractions.Fraction(1, 4 + i))


@case
def vectorized_attribute_is_read() -> Any:
    v = np.vectorize(lambda a, k: a * k, excluded={"k"})
    s = {"k": 1.0}
    return (lambda x: x * v(2.0, k=s["k"])), lambda i: s.update(k=2.0 + i)


@case
def writeable_flag_is_read() -> Any:
    a = np.ones(3)

    def f(x):
        try:
            a[0] = 2.0
        except ValueError:
            return x
        return x * a[0]

    return f, lambda i: a.setflags(write=bool(i % 2))


@case
def dtype_of_an_array_is_read() -> Any:
    h = types.SimpleNamespace(a=np.ones(3))
    return (lambda x: x * h.a.dtype.itemsize), lambda i: setattr(h, "a", h.a.astype("f4" if i % 2 == 0 else "f8"))


@case
def shape_in_place_is_read() -> Any:
    a = np.ones((2, 3))

    def change(i):
        a.shape = [(3, 2), (6, 1), (1, 6), (2, 3)][i]

    return (lambda x: x * a.shape[0]), change


@case
def memory_of_a_view_is_read() -> Any:
    a = np.arange(6.0)
    v = a.reshape(2, 3).T
    return (lambda x: x * float(v[1, 1])), lambda i: a.__setitem__(4, 9.0 + i)
