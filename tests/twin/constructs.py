"""One maker for each construct of the language: `make()` gives a function without arguments, which is run plain and as a twin."""
# ruff: noqa
# fmt: off
# mypy: ignore-errors

import asyncio
import functools
import inspect
import sys
import types
import warnings

LIMIT = 3
COUNT = 0
TABLE = {"a": 1}

class Point:
    __match_args__ = ("x", "y")
    kind = "point"

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __eq__(self, other):
        return isinstance(other, Point) and (self.x, self.y) == (other.x, other.y)

    @property
    def norm(self):
        return abs(self.x) + abs(self.y)

def loads():
    k = 10

    def f(a=LIMIT):
        return a + k + LIMIT + len(TABLE) + Point(1, 2).x + TABLE["a"] + "abc"[1:][0].__len__()

    return f

def operators():
    def f():
        x, y = 7, 3
        return [x + y, x - y, x * y, x / y, x // y, x % y, x**y, x << y, x >> y, x | y, x ^ y, x & y, -x, +x, ~x, not x, 2 * 3 + 1]

    return f

def matrix_product():
    class M:
        def __matmul__(self, other):
            return "matmul"

        def __imatmul__(self, other):
            return "imatmul"

    def f():
        m = M()
        out = [m @ m]
        m @= m
        return out + [m]

    return f

def augmented():
    def f():
        p, d, n = Point(1, [2]), {"k": 3, (1, 2): 4}, 5
        kept = p.y
        n += 1; n -= 2; n *= 3; n //= 2; n %= 5; n **= 2; n <<= 3; n >>= 1; n |= 1; n ^= 2; n &= 31
        n /= 2
        p.x += 1
        p.y += [3]
        d["k"] *= 2
        d[1, 2] -= 1
        return n, p.x, p.y is kept, p.y, d

    return f

def augmented_order():
    log = []

    class Loud:
        def __getattr__(self, name):
            log.append("get " + name)
            return 1

        def __setattr__(self, name, value):
            log.append(f"set {name} {value}")

        def __getitem__(self, key):
            log.append(f"getitem {key}")
            return 2

        def __setitem__(self, key, value):
            log.append(f"setitem {key} {value}")

        def __delattr__(self, name):
            log.append("del " + name)

        def __delitem__(self, key):
            log.append(f"delitem {key}")

    def say(x):
        log.append(f"say {x}")
        return x

    def f():
        o = Loud()
        o.a += say(1)
        o[say(2)] += say(3)
        o[say(4)] = say(5)
        o.b = say(6)
        o.c, o[say(7)] = say(8), say(9)
        del o.a, o[say(0)], (o.b, o[1:2])
        for o.i in range(2):
            pass
        for o[say("k")] in "x":
            pass
        (o.p, *o.q), o.r = (1, 2, 3), 4
        o._owner = o._hooks = 5
        o[1:2, ...], o[::2] = 6, 7
        return log

    return f

def comparisons():
    def f():
        x, y = 1, 2
        return [
            x < y, x <= y, x > y, x >= y, x == y, x != y, x is y, x is not y, x in (1, 2), x not in (1, 2), 0 < x < y < 9,
            x < y in [2], x is x is not y, 0 < x > 5 < x / 0,
        ]

    return f

def truths():
    log = []

    class Asked:
        def __init__(self, truth):
            self.truth = truth

        def __bool__(self):
            log.append(self.truth)
            return self.truth

        def __repr__(self):
            return f"Asked({self.truth})"

    t, n = Asked(True), Asked(False)

    def f():
        out = [t or n, n or t, t and n, n and t, (t and n) or t, (n or n) and t, not t, not (n or t), t if n else n, (t if n else n) or 3]
        if t and n or t:
            out.append("if")
        elif not n:
            out.append("elif")
        while not (t and t):
            break
        else:
            out.append("else")
        assert t or n
        assert not n, "no"
        out.append([x for x in (t, n) if x if x or n])
        out.append([] or {} or () or 0)
        return repr(out), log

    return f

def constants():
    def f():
        out = []
        if 0:
            out.append(lambda: 1)
        if not 1 - 1:
            out.append("folded")
        if __debug__:
            out.append("debug")
        while 1:
            break
        x = 1
        return out, x in {1, 2, 3}, x in [1, 2], "%s-%s" % (x, 2), (1, (2, 3))[1], -5, 1j, ...

    return f

def calls():
    def f():
        def g(*args, k=0, **kwargs):
            return args, k, sorted(kwargs.items())

        return [
            g(), g(1, *[2, 3], 4, k=5, **{"z": 6}), g(*range(2), **TABLE), max([3, 1], key=lambda v: -v), "{} {a}".format(1, a=2),
            functools.partial(g, 1)(2), list(map(str, [1, 2])), sorted("ba", key=str.upper), [*"ab", *(1, 2)], {**TABLE, "b": 2},
            {1, *[2]}, print.__name__,
        ]

    return f

def unpacking():
    def f():
        a, (b, *c), d = 1, (2, 3, 4), 5
        [e, g] = "xy"
        h = i, j = [6, 7]
        (k, l), m = n = ([8, 9], 10)
        *o, p = {1: 2, 3: 4}
        out = []
        for q, (r, s) in [(1, (2, 3))]:
            out.append((q, r, s))
        return a, b, c, d, e, g, h, i, j, k, l, m, n, o, p, out, [x + y for x, y in zip([1], [2])]

    return f

def comprehensions():
    n = 4

    def f():
        k = 2
        nested = [[a * b for b in range(a)] for a in range(n)]
        capturing = [lambda: i for i in range(2)]
        both = [lambda: n for n in range(2)]
        return (
            nested, {a: b for a, b in TABLE.items()}, {a % k for a in range(n)}, sum(a for a in range(n) if a != k), [c() for c in capturing],
            [c() for c in both], n, [y := 1, y**2], [last := a for a in range(3)], last, [n for n in range(3)] + [n],
        )

    return f

def generators():
    def f():
        def g(n):
            got = yield n
            try:
                yield from range(got)
            finally:
                yield "end"
            return "value"

        def outer():
            out = yield from g(1)
            yield out

        it = outer()
        first = next(it)
        return first, it.send(3), list(it), list(x * 2 for x in g(0)) if False else None

    return f

def is_a_generator():
    def f():
        x = yield 1
        yield x

    return lambda: list(f())

def coroutines():
    async def pause():
        await asyncio.sleep(0)
        return LIMIT

    class Manager:
        async def __aenter__(self):
            return self, 1

        async def __aexit__(self, *error):
            return True

    async def numbers():
        for i in range(3):
            await pause()
            yield i

    async def main():
        out = [i async for i in numbers() if i] + [await pause() for _ in range(2)]
        async for i in numbers():
            out.append(i)
        async with Manager() as (m, one):
            out.append(one)
            raise ValueError
        return out + [x for x in [await pause()]]

    def f():
        return asyncio.run(main())

    return f

def marked_as_a_coroutine():
    def f():
        def gen():
            yield 1

        before = gen.__code__
        marked = types.coroutine(gen)
        same = marked is gen and gen.__code__ is not before and gen.__code__.co_flags - before.co_flags
        return same, inspect.isawaitable(marked()), gen.__code__.co_name, list(gen())

    return f

def nonlocals():
    n, deleted = 1, 2

    def f():
        nonlocal n, deleted
        n += 1
        before = n
        for n in range(5):
            pass
        loop = n

        def inner():
            nonlocal n
            n = n * 2
            return [(n := n + 1) for _ in range(2)]

        del deleted
        try:
            deleted
        except NameError as error:
            text = str(error)
        return before, loop, inner(), n, text

    return f

def globals_():
    def f():
        global COUNT, MADE
        COUNT = 0
        COUNT += 1
        import math as MADE

        class MADE2:
            global COUNT
            COUNT = COUNT + 5

        with warnings.catch_warnings(record=True) as MADE:
            pass
        MADE = 3
        del MADE
        return COUNT, "MADE" in globals()

    return f

def imports():
    def f():
        import os.path
        import os.path as path
        from collections import OrderedDict as O, deque
        from . import constructs
        from .constructs import LIMIT as limit

        return os.path is path, O.__name__, deque([1]), constructs.LIMIT, limit

    return f

def classes():
    k = 2

    def f():
        LIMIT_2 = 5

        def tag(c):
            c.tag = k
            return c

        class Meta(type):
            def __new__(cls, name, bases, space, **options):
                made = super().__new__(cls, name, bases, space)
                made.options = options
                return made

        @tag
        class A(Point, metaclass=Meta, option=k):
            """doc"""

            LIMIT = LIMIT + 1
            twice = [LIMIT for _ in range(2)]
            __hidden = k
            x: int = LIMIT_2
            if LIMIT > 2:
                y = k

            def __init__(self):
                super().__init__(1, 2)
                self.__secret = 3
                self.__secret += 1

            def who(self):
                return __class__.__name__, self.__secret, self.__hidden, super(A, self).norm, self._A__secret

            @classmethod
            def made(cls, __x=1):
                return cls.__qualname__, __x

            @staticmethod
            def still():
                return k

            @property
            def p(self):
                return self._p

            @p.setter
            def p(self, value):
                self._p = value

        a = A()
        a.p = 7
        return a.who(), A.made(), A.still(), A.LIMIT, A.twice, A.__doc__, A.options, A.tag, a.p, sorted(A.__annotations__), A.x, A.y

    return f

class Method:
    def __init__(self):
        self.__v = 1

    def run(self):
        self.__v += 1
        return self.__v, super().__init__, __class__.__name__

    @property
    def v(self):
        return self.__v

def methods():
    return lambda: (Method.run(Method())[0], Method.run(Method())[2])

def names_seen():
    z = 1

    def f(a, b=2, *args, c, **kwargs):
        d = z
        seen = sorted(locals())
        return seen, vars(), sorted(dir())

    return lambda: f(1, c=3, e=4)

def frames():
    def f():
        def g():
            return sys._getframe(0).f_code.co_name, sys._getframe(1).f_code is f.__code__, sys._getframe(0).f_code is g.__code__

        return g(), f.__code__.co_name, f.__code__.co_consts[1:2] == f.__code__.co_consts[1:2], f.__name__, f.__qualname__

    return f

def strings():
    def f():
        x, w = 3.14159, 8
        return f"{x:.2f} {x!r:>{w}} {x=} {x + 1:{w}.1f} {'a' 'b'} {{}} {[y for y in (1, 2)]}", "a" f"{LIMIT}", f"{f'{x:.1f}'}"

    return f

def handlers():
    def f():
        out = []
        try:
            try:
                {}["no"]
            except (KeyError, ValueError) as error:
                out.append(error.args)
                raise RuntimeError("again") from error
            else:
                out.append("else")
            finally:
                out.append("finally")
        except RuntimeError as error:
            out.append((type(error.__cause__).__name__, type(error.__context__).__name__))
        try:
            raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
        except* ValueError as group:
            out.append([e.args for e in group.exceptions])
        except* TypeError:
            out.append("type")
        for i in range(3):
            try:
                continue
            finally:
                out.append(lambda: i)
        return [o() if callable(o) else o for o in out]

    return f

def managers():
    log = []

    class M:
        def __init__(self, n, swallow=False):
            self.n, self.swallow = n, swallow

        def __enter__(self):
            log.append(("in", self.n))
            return self.n, [self.n]

        def __exit__(self, kind, error, traceback):
            log.append(("out", self.n, kind and kind.__name__))
            return self.swallow

    def f():
        p = Point(0, 0)
        with M(1) as (a, [b]), M(2) as p.x, M(3, True):
            log.append((a, b, p.x))
            raise KeyError
        with (M(4) as c,):
            pass
        return log, c

    return f

def patterns():
    class Colour:
        RED = 1
        GREEN = 2

    def which(x):
        match x:
            case Colour.RED:
                return "red"
            case -1 | 7:
                return "number"
            case [Colour.GREEN, *rest] if len(rest) > 1:
                return "green", rest
            case Point(0, y=y) | Point(y, 0):
                return "axis", y
            case Point(x=a, y=b) if a == b:
                return "diagonal", a
            case {"k": v, Colour.RED: w, **others}:
                return v, w, others
            case str() as s:
                return s
            case (1, 2, [3, z]):
                return z
            case None | True:
                return "single"
            case Missing.never():
                return "never"
            case _:
                return "other"

    def f():
        things = [1, -1, [2, 1, 1], Point(0, 5), Point(6, 0), Point(3, 3), {"k": 1, 1: 2, "z": 3}, "s", (1, 2, [3, 4]), None, True]
        return [which(t) for t in things]

    return f

def decorators():
    def twice(f):
        @functools.wraps(f)
        def g(*args):
            return f(*args), f(*args)

        return g

    def by(n):
        return lambda f: lambda *args: (n, f(*args))

    def f():
        @by(LIMIT)
        @twice
        def g(x, y=LIMIT):
            return x + y

        return g(1)

    return f

def lambdas():
    one, two = (lambda x: x + LIMIT), (lambda x: x - LIMIT)
    same = [lambda x: x, lambda x: x]
    return lambda: (one(1), two(1), same[0](1), (lambda x, y=one(2): x * y)(3), [g(2) for g in (lambda x: x * 2, lambda x: x * 3)])

def recursion():
    def f(n=10):
        return 1 if n < 2 else n * f(n - 1)

    return f

def annotated():
    def f():
        x: int = 1
        y: "nothing"
        p = Point(1, 2)
        p.x: int = 5
        p.y: Undefined

        def g(a: int, *b: str, c: float = 1.0) -> list:
            return a

        return x, p.x, g.__annotations__, g.__kwdefaults__, g.__defaults__

    return f

def attributes_of_functions():
    def f():
        f.count = getattr(f, "count", 0) + 1

        def g(x, *, y=1):
            "of g"

        g.own = 2
        return f.count, g.__doc__, g.__name__, g.__qualname__, g.__module__, g.__dict__, g.__kwdefaults__

    return f

def deleted():
    def f():
        a, d, p = 1, {1: 2, 3: 4}, Point(1, 2)
        del a, d[1], p.x
        try:
            a
        except UnboundLocalError as error:
            text = str(error)
        return d, vars(p), text

    return f

def star_expressions():
    def f():
        a = 1, *(2, 3)
        d = {}
        d[0, *a] = 5
        for x in *a, 4:
            pass
        return a, d[0, *a], x, (yield_ := [*a]), {**d}

    return f

def evaluated():
    def f():
        a = 2
        return eval("a + LIMIT"), [eval("LIMIT") for _ in range(1)]

    return f

# -- what raises: the exception and the lines of its traceback are compared

def raises_name():
    def f():
        return (
            LIMIT
            + missing_name
        )

    return f

def raises_unbound():
    def f():
        if not LIMIT:
            x = 1
        return [
            1,
            x,
        ]

    return f

def raises_free():
    def make():
        def f():
            return late

        if not LIMIT:
            late = 1
        return f

    return make()

def raises_attribute():
    def f():
        p = Point(1, 2)
        return (
            p
            .x
            .nothing
        )

    return f

def raises_in_chain():
    def f():
        return (
            "a"
            .upper()
            .nothing()
            .lower()
        )

    return f

def raises_in_method_of_chain():
    class A:
        def a(self):
            return self

        def b(self, *args):
            raise ValueError("b")

    def f():
        return (
            A()
            .a()
            .b(
                1,
            )
        )

    return f

def raises_in_starred_chain():
    class A:
        def b(self, *args):
            raise ValueError("b")

    def f():
        return (
            A()
            .b(
                *[1],
            )
        )

    return f

def raises_operator():
    def f():
        x = 1
        return (
            x
            + x
            + "a"
        )

    return f

def raises_argument():
    def f():
        def g(a):
            return a

        return g(
            1,
            2,
        )

    return f

def raises_not_callable():
    def f():
        x = 3
        return x(
            1
        )

    return f

def raises_not_iterable():
    def f():
        g = len
        return g(*3)

    return f

def raises_not_a_mapping():
    def f():
        g = dict
        return g(**3)

    return f

def raises_unpack():
    def f():
        a, b = [
            1, 2, 3,
        ]

    return f

def raises_assertion():
    def f():
        x = 0
        assert (
            x
        ), f"x is {x}"

    return f

def raises_store():
    def f():
        p = (1, 2)
        p[
            0
        ] = 3

    return f

def raises_store_attribute():
    def f():
        (3).x = 4

    return f

def raises_in_augmented():
    def f():
        d = {"a": 1}
        d["a"] += (
            "b"
        )

    return f

def raises_in_property():
    class A:
        @property
        def p(self):
            return {}["p"]

    def f():
        return A().p

    return f

def raises_in_comprehension():
    def f():
        return [
            1 // x
            for x in (1, 0)
            if x < 2
        ]

    return f

def raises_in_with():
    def f():
        with 3:
            pass

    return f

def raises_from_handler():
    def f():
        try:
            1 / 0
        except ZeroDivisionError as error:
            raise KeyError("k") from error

    return f

def raises_in_lambda():
    return lambda: (lambda x: x.y)(
        3
    )

def raises_in_match():
    def f():
        match 3:
            case Point.nothing:
                pass

    return f

def raises_in_import():
    def f():
        from os import nothing_at_all

    return f

def raises_too_deep():
    def f(n=0):
        return f(n + 1)

    return f

MAKERS = [value for value in list(globals().values()) if type(value).__name__ == "function" and value.__module__ == __name__]
