# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""What a function can read beside its arguments, a hundred ways: (the function, what changes between the calls)."""

from __future__ import annotations

import array
import collections
import contextlib
import contextvars
import copy
import csv
import dataclasses
import enum
import functools
import io
import operator
import os
import re
import string
import struct
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.stats as st

X = np.arange(1.0, 4.0)
CASES: dict[str, Callable[[], Any]] = {}


def case(make: Callable[[], Any]) -> Callable[[], Any]:
    CASES[make.__name__.removesuffix("_is_read")] = make
    return make


@case
def attrgetter_is_read() -> Any:
    a = types.SimpleNamespace(b=types.SimpleNamespace(c=1.0))
    g = operator.attrgetter("b.c")
    return (lambda x: g(a) * x), lambda i: setattr(a.b, "c", a.b.c + 1)


@case
def itemgetter_is_read() -> Any:
    d = {"a": 1.0}
    g = operator.itemgetter("a")
    return (lambda x: g(d) * x), lambda i: d.__setitem__("a", d["a"] + 1)


@case
def singledispatch_is_read() -> Any:
    @functools.singledispatch
    def f(v):
        return 1.0

    f.register(int)(lambda v: 2.0)

    def change(i):
        f.register(float)(lambda v, i=i: 3.0 + i)

    return (lambda x: f(1.5) * x), change


@case
def singledispatchmethod_is_read() -> Any:
    class A:
        k = 1.0

        @functools.singledispatchmethod
        def m(self, v):
            return 1.0

        @m.register
        def _(self, v: int):
            return self.k

    a = A()

    def change(i):
        a.k += 1.0
        vars(A)["m"].register(float, lambda self, v, i=i: 3.0 + i + self.k)

    bound = a.m
    return (lambda x: a.m(1.5) * bound(2) * x), change


@case
def partialmethod_is_read() -> Any:
    class A:
        k = 1.0

        def m(self, y, x):
            return self.k * y * x

        p = functools.partialmethod(m, 2.0)

    a = A()
    return (lambda x: a.p(x)), lambda i: setattr(A, "k", A.k + 1)


@case
def chainmap_is_read() -> Any:
    a = {}
    b = {"k": 1.0}
    c = collections.ChainMap(a, b)
    return (lambda x: c["k"] * x), lambda i: a.__setitem__("k", 2.0 + i)


@case
def weakvaluedict_is_read() -> Any:
    class V:
        k = 1.0

    v = V()
    d = weakref.WeakValueDictionary({"v": v})
    return (lambda x: d["v"].k * x), lambda i: setattr(v, "k", v.k + 1)


@case
def array_array_is_read() -> Any:
    a = array.array("d", [1.0, 2.0])
    return (lambda x: a[0] * x), lambda i: a.__setitem__(0, a[0] + 1)


@case
def bytearray_is_read() -> Any:
    a = bytearray(b"abc")
    return (lambda x: a[0] * x), lambda i: a.__setitem__(0, a[0] + 1)


@case
def memoryview_is_read() -> Any:
    a = bytearray(b"abc")
    m = memoryview(a)
    return (lambda x: m[0] * x), lambda i: a.__setitem__(0, a[0] + 1)


@case
def struct_is_read() -> Any:
    a = bytearray(struct.pack("d", 1.0))

    def ch(i):
        a[:] = struct.pack("d", 2.0 + i)

    return (lambda x: struct.unpack("d", a)[0] * x), ch


@case
def sys_argv_is_read() -> Any:
    return (lambda x: len(sys.argv) * x), lambda i: sys.argv.append("a")


@case
def sys_modules_is_read() -> Any:
    return (lambda x: x * ("odd_mod" in sys.modules)), lambda i: sys.modules.__setitem__("odd_mod", sys)


@case
def globals_is_read() -> Any:
    globals()["GG"] = 1.0
    return (lambda x: globals()["GG"] * x), lambda i: globals().__setitem__("GG", globals()["GG"] + 1)


@case
def dict___items_is_read() -> Any:
    a = types.SimpleNamespace(k=1.0)
    return (lambda x: sum(v for k, v in a.__dict__.items()) * x), lambda i: setattr(a, f"k{i}", 1.0)


@case
def template_is_read() -> Any:
    d = {"k": 1}
    t = string.Template("$k")
    return (lambda x: float(t.substitute(d)) * x), lambda i: d.__setitem__("k", d["k"] + 1)


@case
def re_is_read() -> Any:
    a = ["a1"]
    return (lambda x: float(re.search(r"\d", a[0]).group()) * x), lambda i: a.__setitem__(0, f"a{i + 2}")


@case
def enum_is_read() -> Any:
    class E(enum.Enum):
        A = 1.0

    h = [E.A]
    return (lambda x: h[0].value * x), lambda i: h.__setitem__(0, enum.Enum("F", {"B": 2.0 + i}).B)


@case
def contextmanager_is_read() -> Any:
    s = [1.0]

    @contextlib.contextmanager
    def cm():
        yield s[0]

    def f(x):
        with cm() as k:
            return k * x

    return f, lambda i: s.__setitem__(0, s[0] + 1)


@case
def exitstack_is_read() -> Any:
    s = [1.0]

    @contextlib.contextmanager
    def cm():
        yield s[0]

    def f(x):
        with contextlib.ExitStack() as st:
            return st.enter_context(cm()) * x

    return f, lambda i: s.__setitem__(0, s[0] + 1)


@case
def deepcopy_is_read() -> Any:
    a = types.SimpleNamespace(k=[1.0])
    return (lambda x: copy.deepcopy(a).k[0] * x), lambda i: a.k.__setitem__(0, a.k[0] + 1)


@case
def frozen_dataclass_replace_is_read() -> Any:
    @dataclasses.dataclass(frozen=True)
    class P:
        k: float = 1.0

    h = [P()]
    return (lambda x: h[0].k * x), lambda i: h.__setitem__(0, dataclasses.replace(h[0], k=h[0].k + 1))


@case
def asdict_is_read() -> Any:
    @dataclasses.dataclass
    class P:
        k: float = 1.0

    p = P()
    return (lambda x: dataclasses.asdict(p)["k"] * x), lambda i: setattr(p, "k", p.k + 1)


@case
def metaclass_attr_is_read() -> Any:
    class M(type):
        k = 1.0

    class A(metaclass=M):
        pass

    return (lambda x: A.k * x), lambda i: setattr(M, "k", M.k + 1)


@case
def property_of_metaclass_is_read() -> Any:
    s = [1.0]

    class M(type):
        @property
        def k(cls):
            return s[0]

    class A(metaclass=M):
        pass

    return (lambda x: A.k * x), lambda i: s.__setitem__(0, s[0] + 1)


@case
def np_ndarray_subclass_attr_is_read() -> Any:
    class Q(np.ndarray):
        pass

    q = np.ones(3).view(Q)
    q.unit = 1.0
    return (lambda x: q.unit * x), lambda i: setattr(q, "unit", q.unit + 1)


@case
def array_flags_is_read() -> Any:
    a = np.ones(3)
    return (lambda x: x * 2 if a.flags.writeable else x), lambda i: a.setflags(write=bool(i % 2))


@case
def structured_is_read() -> Any:
    a = np.zeros(2, dtype=[("k", "f8")])
    return (lambda x: x * a["k"][0]), lambda i: a["k"].__setitem__(0, 1.0 + i)


@case
def object_array_is_read() -> Any:
    a = np.array([1.0, 2.0], dtype=object)
    return (lambda x: x * a[0]), lambda i: a.__setitem__(0, a[0] + 1)


@case
def memmap_like_base_is_read() -> Any:
    base = np.ones(6)
    v = base[::2]
    return (lambda x: x * v), lambda i: base.__setitem__(slice(None), 2.0 + i)


@case
def frombuffer_is_read() -> Any:
    b = bytearray(np.ones(3).tobytes())
    v = np.frombuffer(b)

    def ch(i):
        b[:] = np.full(3, 2.0 + i).tobytes()

    return (lambda x: x * v), ch


@case
def default_mutable_is_read() -> Any:
    def f(x, h=[1.0]):  # noqa: B006 it is what changes
        return x * h[0]

    return f, lambda i: f.__defaults__[0].__setitem__(0, 2.0 + i)


@case
def kwdefaults_is_read() -> Any:
    def f(x, *, k=1.0):
        return x * k

    return f, lambda i: f.__kwdefaults__.__setitem__("k", 2.0 + i)


@case
def function_attr_is_read() -> Any:
    def f(x):
        return x * f.k

    f.k = 1.0
    return f, lambda i: setattr(f, "k", f.k + 1)


@case
def code_swap_is_read() -> Any:
    def g(x):
        return x * 1.0

    def g2(x):
        return x * 2.0

    def g3(x):
        return x * 3.0

    def f(x):
        return g(x)

    return f, lambda i: setattr(g, "__code__", [g2.__code__, g3.__code__][i % 2])


@case
def hasattr_is_read() -> Any:
    a = types.SimpleNamespace()
    return (lambda x: x * 2 if hasattr(a, "k") else x), lambda i: setattr(a, "k", 1)


@case
def callable_is_read() -> Any:
    h = [1]
    return (lambda x: x * 2 if callable(h[0]) else x), lambda i: h.__setitem__(0, len)


@case
def type_x_name_is_read() -> Any:
    h = [1]
    return (lambda x: x * len(type(h[0]).__name__)), lambda i: h.__setitem__(0, "abc")


@case
def class___name_is_read() -> Any:
    class A:
        pass

    return (lambda x: x * len(A.__name__)), lambda i: setattr(A, "__name__", "A" * (i + 2))


@case
def obj___class___swap_is_read() -> Any:
    class A:
        def m(self):
            return 1.0

    class B:
        def m(self):
            return 2.0

    a = A()
    return (lambda x: x * a.m()), lambda i: setattr(a, "__class__", B)


@case
def counter_most_common_is_read() -> Any:
    c = collections.Counter("aab")
    return (lambda x: x * c.most_common(1)[0][1]), lambda i: c.update("b" * 3)


@case
def deque_rotate_is_read() -> Any:
    d = collections.deque([1.0, 2.0, 3.0])
    return (lambda x: x * d[0]), lambda i: d.rotate(1)


@case
def deque_maxlen_is_read() -> Any:
    d = [collections.deque([1.0], maxlen=2)]
    return (lambda x: x * d[0].maxlen), lambda i: d.__setitem__(0, collections.deque([1.0], maxlen=3 + i))


@case
def sorted_dict_keys_is_read() -> Any:
    d = {"b": 1.0}
    return (lambda x: x * d[sorted(d)[0]]), lambda i: d.__setitem__("a", 2.0 + i)


@case
def zip_strict_is_read() -> Any:
    a, b = [1.0], [2.0]
    return (lambda x: x * sum(p * q for p, q in zip(a, b))), lambda i: (a.append(1.0), b.append(2.0))


@case
def range_swap_is_read() -> Any:
    h = [range(3)]
    return (lambda x: x * sum(h[0])), lambda i: h.__setitem__(0, range(4 + i))


@case
def slice_obj_is_read() -> Any:
    h = [slice(0, 2)]
    return (lambda x: x[h[0]].sum()), lambda i: h.__setitem__(0, slice(0, 3) if i % 2 else slice(1, 3))


@case
def bool_is_1_is_read() -> Any:
    h = [True]
    return (lambda x: x * 2 if h[0] is True else x), lambda i: h.__setitem__(0, 1)


@case
def minus_zero_is_read() -> Any:
    h = [0.0]
    return (lambda x: np.copysign(x, h[0])), lambda i: h.__setitem__(0, -0.0)


@case
def nan_bits_is_read() -> Any:
    h = [float("nan")]
    return (lambda x: np.copysign(x, h[0])), lambda i: h.__setitem__(0, -float("nan"))


@case
def string_ident_is_read() -> Any:
    h = ["a"]
    return (lambda x: x * ord(h[0])), lambda i: h.__setitem__(0, chr(98 + i))


@case
def contextvar_is_read() -> Any:
    v = contextvars.ContextVar("v", default=1.0)
    return (lambda x: x * v.get()), lambda i: v.set(2.0 + i)


@case
def thread_name_is_read() -> Any:
    return (lambda x: x * len(threading.current_thread().name)), lambda i: setattr(
        threading.current_thread(), "name", "a" * (i + 1)
    )


@case
def recursionlimit_is_read() -> Any:
    return (lambda x: x * sys.getrecursionlimit()), lambda i: sys.setrecursionlimit(1001 + i)


@case
def np_geterr_is_read() -> Any:
    return (lambda x: x * len(np.geterr()["over"])), lambda i: np.seterr(over="ignore" if i % 2 else "warn")


@case
def printoptions_is_read() -> Any:
    return (lambda x: x * np.get_printoptions()["precision"]), lambda i: np.set_printoptions(precision=3 + i)


@case
def locale_tz_env_is_read() -> Any:
    os.environ["ODD"] = "1"
    return (lambda x: x * float(os.getenv("ODD"))), lambda i: os.environ.__setitem__("ODD", str(i + 2))


@case
def environ_copy_is_read() -> Any:
    os.environ["ODD"] = "1"
    return (lambda x: x * float(os.environ.copy()["ODD"])), lambda i: os.environ.__setitem__("ODD", str(i + 2))


@case
def getattr___module_is_read() -> Any:
    m = types.ModuleType("odd")
    s = [1.0]
    m.__getattr__ = lambda n: s[0]
    return (lambda x: x * m.foo), lambda i: s.__setitem__(0, s[0] + 1)


@case
def descriptor_is_read() -> Any:
    s = [1.0]

    class Dsc:
        def __get__(self, o, t):
            return s[0]

    class A:
        k = Dsc()

    a = A()
    return (lambda x: x * a.k), lambda i: s.__setitem__(0, s[0] + 1)


@case
def len___class_is_read() -> Any:
    s = [1]

    class A:
        def __len__(self):
            return s[0]

    a = A()
    return (lambda x: x * len(a)), lambda i: s.__setitem__(0, s[0] + 1)


@case
def format_is_read() -> Any:
    s = [1]

    class A:
        def __format__(self, spec):
            return str(s[0])

    a = A()
    return (lambda x: x * float(f"{a}")), lambda i: s.__setitem__(0, s[0] + 1)


@case
def index_is_read() -> Any:
    s = [1]

    class A:
        def __index__(self):
            return s[0]

    a = A()
    return (lambda x: x * [1.0, 2.0, 3.0][a]), lambda i: s.__setitem__(0, (s[0] + 1) % 3)


@case
def float_is_read() -> Any:
    s = [1]

    class A:
        def __float__(self):
            return float(s[0])

    a = A()
    return (lambda x: x * float(a)), lambda i: s.__setitem__(0, s[0] + 1)


@case
def array_is_read() -> Any:
    s = [1]

    class A:
        def __array__(self, dtype=None, copy=None):
            return np.full(3, float(s[0]))

    a = A()
    return (lambda x: x * np.asarray(a)), lambda i: s.__setitem__(0, s[0] + 1)


@case
def array___op_is_read() -> Any:
    s = [1]

    class A:
        def __array__(self, dtype=None, copy=None):
            return np.full(3, float(s[0]))

    a = A()
    return (lambda x: np.multiply(x, a)), lambda i: s.__setitem__(0, s[0] + 1)


@case
def hash___lookup_is_read() -> Any:
    s = [1]

    class A:
        def __hash__(self):
            return s[0]

        def __eq__(self, o):
            return o == s[0]

    a = A()
    d = {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0}
    return (lambda x: x * d[a]), lambda i: s.__setitem__(0, 1 + (s[0]) % 4)


@case
def str_subclass_is_read() -> Any:
    s = [1]

    class A(str):
        def __len__(self):
            return s[0]

    a = A("x")
    return (lambda x: x * len(a)), lambda i: s.__setitem__(0, s[0] + 1)


@case
def generator_function_is_read() -> Any:
    s = [1.0]

    def g():
        yield s[0]
        yield 2.0

    return (lambda x: x * sum(g())), lambda i: s.__setitem__(0, s[0] + 1)


@case
def reduce_is_read() -> Any:
    s = [1.0]
    return (lambda x: functools.reduce(lambda a, b: a + b * s[0], [x, x])), lambda i: s.__setitem__(0, s[0] + 1)


@case
def sorted_key_is_read() -> Any:
    s = [1.0]
    return (lambda x: x * sorted([3, 1, 2], key=lambda v: v * s[0])[0]), lambda i: s.__setitem__(0, -s[0])


@case
def max_key_attr_is_read() -> Any:
    class A:
        def __init__(self, k):
            self.k = k

    l = [A(1.0), A(2.0)]
    return (lambda x: x * max(l, key=operator.attrgetter("k")).k), lambda i: setattr(l[0], "k", 3.0 + i)


@case
def total_ordering_is_read() -> Any:
    s = [1.0]

    @functools.total_ordering
    class A:
        def __eq__(self, o):
            return False

        def __lt__(self, o):
            return s[0] > 2

    a, b = A(), A()
    return (lambda x: x * 2 if a > b else x), lambda i: s.__setitem__(0, s[0] + 1)


@case
def nested_partial_of_method_is_read() -> Any:
    class A:
        k = 1.0

        def m(self, y, x):
            return x * self.k * y

    a = A()
    p = functools.partial(functools.partial(a.m), 2.0)
    return (lambda x: p(x)), lambda i: setattr(a, "k", a.k + 1)


@case
def np_vectorize_is_read() -> Any:
    s = [1.0]
    v = np.vectorize(lambda t: t * s[0])
    return (lambda x: x * v(np.ones(3))), lambda i: s.__setitem__(0, s[0] + 1)


@case
def np_frompyfunc_is_read() -> Any:
    s = [1.0]
    v = np.frompyfunc(lambda t: t * s[0], 1, 1)
    return (lambda x: x * float(v(1.0))), lambda i: s.__setitem__(0, s[0] + 1)


@case
def np_apply_along_axis_is_read() -> Any:
    s = [1.0]
    return (lambda x: x * np.apply_along_axis(lambda r: r.sum() * s[0], 0, np.ones((2, 3)))), lambda i: s.__setitem__(
        0, s[0] + 1
    )


@case
def np_fromfunction_is_read() -> Any:
    s = [1.0]
    return (lambda x: x * np.fromfunction(lambda a: a * s[0], (3,))), lambda i: s.__setitem__(0, s[0] + 1)


@case
def np_piecewise_is_read() -> Any:
    s = [1.0]
    return (lambda x: np.piecewise(x, [x > 2], [lambda v: v * s[0], 0.0])), lambda i: s.__setitem__(0, s[0] + 1)


@case
def poly1d_is_read() -> Any:
    p = np.poly1d([1.0, 2.0])
    return (lambda x: p(x)), lambda i: p.c.__setitem__(0, p.c[0] + 1)


@case
def scipy_frozen_dist_is_read() -> Any:
    h = [st.norm(0.0, 1.0)]
    return (lambda x: h[0].logpdf(x)), lambda i: h.__setitem__(0, st.norm(float(i), 1.0))


@case
def scipy_frozen_kwds_is_read() -> Any:
    h = st.norm(loc=0.0, scale=1.0)
    return (lambda x: h.logpdf(x)), lambda i: h.kwds.__setitem__("loc", 1.0 + i)


@case
def iter_csv_is_read() -> Any:
    s = ["1,2"]
    return (lambda x: x * float(next(csv.reader(s))[0])), lambda i: s.__setitem__(0, f"{i + 2},2")


@case
def stringio_value_is_read() -> Any:
    s = io.StringIO("1")

    def ch(i):
        s.seek(0)
        s.write(str(i + 2))

    return (lambda x: x * float(s.getvalue())), ch


@case
def f___globals___helper_swap_is_read() -> Any:
    ns = {}
    exec("K=1.0\ndef h(x): return x*K", ns)
    h = ns["h"]
    return (lambda x: h(x)), lambda i: ns.__setitem__("K", ns["K"] + 1)


@case
def super_attr_is_read() -> Any:
    class A:
        k = 1.0

    class B(A):
        def m(self):
            return super().k

    b = B()
    return (lambda x: x * b.m()), lambda i: setattr(A, "k", A.k + 1)


@case
def mappingproxy_is_read() -> Any:
    d = {"k": 1.0}
    m = types.MappingProxyType(d)
    return (lambda x: x * m["k"]), lambda i: d.__setitem__("k", d["k"] + 1)


@case
def dict_views_is_read() -> Any:
    d = {"k": 1.0}
    v = d.values()
    return (lambda x: x * sum(v)), lambda i: d.__setitem__(str(i), 1.0)


@case
def dict_union_is_read() -> Any:
    d = {"k": 1.0}
    return (lambda x: x * sum(({"a": 1.0} | d).values())), lambda i: d.__setitem__(str(i), 1.0)


@case
def star_args_is_read() -> Any:
    d = [1.0, 2.0]

    def g(x, *a):
        return x * sum(a)

    return (lambda x: g(x, *d)), lambda i: d.append(1.0)


@case
def star_kwargs_is_read() -> Any:
    d = {"a": 1.0}

    def g(x, **a):
        return x * sum(a.values())

    return (lambda x: g(x, **d)), lambda i: d.__setitem__(str(i), 1.0)


@case
def match_is_read() -> Any:
    h = [("a", 1.0)]
    ns = {"h": h}
    exec(
        "def f(x):\n    match h[0]:\n        case ('a',k): return x*k\n"
        "        case ('b',k): return x*k*10\n        case _: return x",
        ns,
    )
    return ns["f"], lambda i: h.__setitem__(0, ("b" if i % 2 else "a", 1.0 + i))


@case
def walrus_global_is_read() -> Any:
    s = [1.0]
    return (lambda x: x * (k := s[0]) + k), lambda i: s.__setitem__(0, s[0] + 1)


@case
def try_except_key_is_read() -> Any:
    d = {}

    def f(x):
        try:
            return x * d["k"]
        except KeyError:
            return x

    return f, lambda i: d.__setitem__("k", 2.0 + i)


@case
def del_attr_is_read() -> Any:
    class A:
        k = 1.0

    a = A()
    a.k = 5.0

    def ch(i):
        if "k" in a.__dict__:
            del a.k
        else:
            a.k = 6.0 + i

    return (lambda x: x * a.k), ch


@case
def numpy_matrix_tolist_is_read() -> Any:
    a = np.ones((2, 2))
    return (lambda x: x * a.tolist()[0][0]), lambda i: a.__setitem__((0, 0), 2.0 + i)


@case
def bool_array_any_is_read() -> Any:
    a = np.zeros(3, bool)
    return (lambda x: x * 2 if a.any() else x), lambda i: a.__setitem__(0, True)


@case
def array_as_key_bytes_is_read() -> Any:
    a = np.ones(1)
    d = {np.ones(1).tobytes(): 1.0}
    return (lambda x: x * d.get(a.tobytes(), 7.0)), lambda i: a.__setitem__(0, 2.0)
