"""Kinds of surroundings that a program may depend on: the parts of which tests/histories.py makes programs with a history.

A `Kind` is one way to depend on something beside the arguments, or to be interrupted. A program has the kind that it is asked
for and a few of PLAIN.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["KINDS", "PLAIN", "Kind"]


class Kind(NamedTuple):
    """One way to depend on something; NUM, INT and BOOL in its texts are drawn."""

    declared: str  # in the module
    lines: list[str]  # of f, which has x and y: one is drawn
    changes: list[str]  # between calls: one is drawn each time
    static: list[str]  # values of a further argument n, which is static
    arguments: list[str]  # of one that is not
    threads: bool  # is `f` called from several at once?


# [kind], what the module says, then by their first words: lines of f, what happens between calls, values of a static argument n
# ("n"), or of one that is not ("arg")
TABLE = """
## what f reads: numbers, containers, objects, functions

[number]
K = NUM
f: y = y * K
f: y = y + K * x
f: y = np.where(x > K, y, -y)
then: K = NUM
then: K = INT
then: K = NUM

[type of a number]
K = 1
f: y = y * K if type(K) is int else y + K
then: K = 1
then: K = 1.0
then: K = True
then: K = 2.0

[sign of zero]
K = 0.0
f: y = y * math.copysign(2.0, K)
then: K = 0.0
then: K = -0.0
then: K = NUM

[flag]
K = True
f: y = y + 1.0 if K else y * 2.0
f: y = y if not K else -y
then: K = BOOL
then: K = None
then: K = 0
then: K = 'a'

[is a flag]
K = True
f: y = y + 1.0 if K is True else y * 2.0
then: K = BOOL
then: K = 1
then: K = 1.0
then: K = INT

[text]
K = 'a'
f: y = y + len(K) if K.startswith('a') else y
then: K = 'ab'
then: K = 'b'
then: K = 'a'
then: K = ''

[NumPy number]
K = np.float64(NUM)
f: y = y * K
then: K = np.float64(NUM)
then: K = np.float32(NUM)
then: K = NUM
then: K = np.int64(INT)

[entry]
D = {'a': NUM, 'b': NUM}
f: y = y * D['a'] + D['b']
f: y = y * D.get('c', 0.5)
then: D['a'] = NUM
then: D['c'] = NUM
then: D.pop('c', 0)

[entries in order]
D = {'a': NUM, 'b': NUM}
f: y = y * next(iter(D.values()))
then: D['a'] = NUM
then: D['a'] = D.pop('a')
then: D['b'] = NUM

[key]
D = {1: NUM}
f: y = y * (2.0 if type(next(iter(D))) is bool else 3.0)
then: D = {True: NUM}
then: D = {1: NUM}
then: D = {1.0: NUM}

[is in]
D = {'a': NUM}
f: y = y + 1.0 if 'c' in D else y
then: D['c'] = NUM
then: D.pop('c', 0)

[list]
L = [NUM, NUM]
f: y = y * sum(L)
f: for v in L:
       y = y + v
f: y = y * L[-1]
then: L.append(NUM)
then: L[0] = NUM
then: del L[1:]

[length]
L = [NUM, NUM]
f: y = y * len(L)
then: L.append(NUM)
then: del L[1:]
then: L[0] = NUM

[long list]
L = [0.5] * 80
f: y = y * L[70]
then: L[70] = NUM
then: L[3] = NUM

[nested list]
L = [[NUM], {'a': [NUM]}]
f: y = y * L[0][0] + L[1]['a'][0]
then: L[0][0] = NUM
then: L[1]['a'][0] = NUM
then: L[1] = {'a': [NUM]}

[set]
S = {1, 2}
f: y = y + 1.0 if 3 in S else y
then: S.add(3)
then: S.discard(3)

[named tuple]
P = types.SimpleNamespace(w=NUM)
f: y = y * P.w
then: P.w = NUM
then: P = types.SimpleNamespace(w=NUM)

[attribute]
B = Box(NUM)
f: y = y * B.w
f: y = B.scaled(y)
then: B.w = NUM
then: B = Box(NUM)
then: B.w = INT

[property]
B = Box(NUM)
f: y = y * B.double
then: B.w = NUM
then: B = Box(NUM)

[class attribute]
B = Box(NUM)
f: y = y * B.k
then: Box.k = NUM
then: B.k = NUM

[identity]
B = Box(NUM)
C = B
f: y = y + 1.0 if B is C else y
then: B = Box(NUM)
then: C = B

[attribute by name]
B = Box(NUM)
NAME = 'w'
f: y = y * getattr(B, NAME)
then: NAME = 'k'
then: NAME = 'w'
then: B.w = NUM

[attrgetter]
B = Box(NUM)
get = operator.attrgetter('w')
f: y = y * get(B)
then: B.w = NUM

[missing attribute]
B = Box(NUM)
f: y = y * getattr(B, 'z', 2.0)
then: B.z = NUM
then: B.__dict__.pop('z', 0)

[attribute of a function]
def h(x):
    return x
h.k = NUM
f: y = y * h.k
then: h.k = NUM

[function redefined]
def h(x):
    return x * NUM
f: y = h(y)
then: def h(x):
          return x + NUM
then: h = lambda x: x * NUM

[default]
def h(x, k=NUM):
    return x * k
f: y = h(y)
then: h.__defaults__ = (NUM,)

[keyword default]
def h(x, *, k=NUM):
    return x * k
f: y = h(y)
then: h.__kwdefaults__['k'] = NUM

[code]
def h(x):
    return x * 2.0
def other(x):
    return x + 1.0
f: y = h(y)
then: h.__code__, other.__code__ = other.__code__, h.__code__

[closure]
def made():
    k = NUM
    def h(x):
        return x * k
    def put(v):
        nonlocal k
        k = v
    return h, put
h, put = made()
f: y = h(y)
then: put(NUM)

[partial]
h = functools.partial(lambda k, x: x * k, NUM)
f: y = h(y)
then: h = functools.partial(lambda k, x: x * k, NUM)

[method replaced]
B = Box(NUM)
f: y = B.scaled(y)
then: B.scaled = lambda y: y + NUM
then: B.__dict__.pop('scaled', 0)

[remembering function]
K = NUM
@functools.lru_cache
def h():
    return K
f: y = y * h()
then: K = NUM
      h.cache_clear()
then: h.cache_clear()

[globals()]
K = NUM
f: y = y * globals()['K']
then: K = NUM

[eval]
K = NUM
f: y = y * eval('K')
then: K = NUM

[environment]
os.environ['FUNCAD_HISTORY'] = '1.5'
f: y = y * float(os.environ['FUNCAD_HISTORY'])
then: os.environ['FUNCAD_HISTORY'] = 'NUM'

[context variable]
K = contextvars.ContextVar('K')
K.set(NUM)
f: y = y * K.get()
then: K.set(NUM)

[thread's variable]
K = threading.local()
K.v = NUM
f: y = y * K.v
then: K.v = NUM

[default dict]
D = collections.defaultdict(float)
f: y = y + D['a']
then: D['a'] = NUM
then: D.pop('a', 0)

[mapping proxy]
_D = {'a': NUM}
D = types.MappingProxyType(_D)
f: y = y * D['a']
then: _D['a'] = NUM

[weak reference]
B = Box(NUM)
R = weakref.ref(B)
f: y = y * R().w
then: B.w = NUM

## arrays

[array]
A = np.array([NUM, NUM, NUM])
f: y = y * A
f: y = y + np.sum(A * x)
f: y = y + A @ x
then: A[1] = NUM
then: A *= NUM
then: A = np.array([NUM, NUM, NUM])

[array by NumPy]
A = np.array([NUM, NUM, NUM])
f: y = y * np.exp(A)
f: y = y + A.sum()
f: y = y + A[0]
f: y = y * (A * 2.0)
then: A[0] = NUM
then: A[:] = NUM

[mask]
A = np.array([True, False, True])
f: y = y + np.sum(x[A])
then: A[1] = BOOL
then: A[0] = BOOL

[number of an array]
A = np.array([1.0, 2.0])
f: y = y * float(A[0])
f: y = y + 1.0 if A[0] > 1.0 else y
then: A[0] = NUM
then: A[0] = 0.5
then: A[0] = 1.5

[indices]
A = np.array([0, 2, 1])
f: y = y[A]
then: A[:] = [2, 1, 0]
then: A[0] = 1
then: A = np.array([1, 1, 1])

## arguments, which are static

[static number]
f: y = y * n
n: 2.5
n: 2
n: 3.0
n: 3
n: True
n: 1

[static zero]
f: y = y * math.copysign(3.0, n)
n: 0.0
n: -0.0
n: 1.0

[static kind]
f: y = y + 1.0 if n is True else y * 2.0
n: True
n: 1
n: 1.0
n: False
n: 0

[static tuple]
f: y = y * n[0] if type(n[0]) is int else y + n[0]
n: (1, 2)
n: (1.0, 2)
n: (True, 2)
n: (2, 2)

[static frozen set]
f: y = y + (1.0 if type(min(n)) is int else 2.0)
n: frozenset([1])
n: frozenset([True])
n: frozenset([1.0])

[static data class]
@dataclasses.dataclass(frozen=True)
class C:
    v: object
f: y = y + (1.0 if type(n.v) is int else 2.0)
n: C(1)
n: C(True)
n: C(1.0)
n: C(2)

[static object]
B = Box(NUM)
f: y = y * n.w
then: B.w = NUM
n: B

[order of an argument]
f: y = y * next(iter(n.values()))
f: for v in n.values():
       y = y * v + 1.0
arg: {'a': 2.0, 'b': 3.0}
arg: {'b': 3.0, 'a': 2.0}
arg: {'b': 1.5, 'a': 2.0}

[keys of an argument]
f: y = y + (1.0 if type(next(iter(n))) is bool else 2.0)
arg: {1: 2.0}
arg: {True: 2.0}
arg: {1.0: 2.0}

[Python's numbers as arguments]
f: y = y * n
f: y = np.where(x > n, y, n)
arg: 2.0
arg: 3
arg: True
arg: np.float32(2.0)
arg: np.int64(2)

## control flow, errors, writes

[branch]
f: y = y * 2.0 if np.sum(x) > NUM else y + 1.0
f: if x[0] > x[1]:
       y = y + x[1]
   else:
       y = y * x[0]

[loop]
N = 2
f: for i in range(N):
       y = y * 0.5 + i
f: while np.sum(np.abs(y)) > 3.0:
       y = y * 0.5
then: N = INT
then: N = 1
then: N = 4

[index]
f: y = y * x[int(np.abs(x[0])) % 3]

[raise]
K = NUM
f: if x[0] > 1.0:
       raise ValueError('too large')
then: K = NUM

[caught]
f: try:
       if x[0] > 0.5:
           raise KeyError('k')
       y = y + 1.0
   except KeyError:
       y = y * 2.0

[caught key]
D = {'a': NUM}
f: try:
       y = y * D['c']
   except KeyError:
       y = y + 1.0
then: D['c'] = NUM
then: D.pop('c', 0)

[caught division]
K = 2.0
f: try:
       y = y * (1.0 / K)
   except ZeroDivisionError:
       y = y + 1.0
then: K = 0.0
then: K = NUM
then: K = 0

[caught domain]
K = 2.0
f: try:
       y = y * math.sqrt(K)
   except ValueError:
       y = y + 1.0
then: K = -1.0
then: K = NUM
then: K = -NUM

[domain of a value]
f: try:
       y = y * math.sqrt(x[0])
   except ValueError:
       y = y + 1.0

[power]
K = 2.0
f: y = y + abs(K ** 0.5)
then: K = -2.0
then: K = NUM
then: K = -NUM

[finally]
K = NUM
f: try:
       y = y * K
   finally:
       y = y + 1.0
then: K = NUM

[buffer]
f: b = np.zeros(3)
   b[0] = y[1]
   b[1:] += x[:2]
   y = y + b
f: b = np.empty_like(x)
   b[::-1] = y
   y = b

[view]
f: b = y.copy()
   v = b[1:]
   v *= 2.0
   b[0] = v[0]
   y = b
f: b = np.array(y)
   b.T[0] = 7.0
   y = b + y

[argument written]
f: x[0] = y[1]
f: x *= 2.0
   y = y + x

[argument written before an error]
f: x[0] = 7.0
   if x[1] > 0.5:
       raise ValueError('too large')

[state before an error]
D = {'n': 0}
f: D['n'] = 5
   if x[1] > 0.5:
       raise ValueError('too large')
then: D['n'] = 0
then: pass

[threads]
K = NUM
f: y = y * K + np.sum(x)
then: K = NUM
threads: 4

## state that f changes

[counter]
D = {'n': 0}
f: D['n'] += 1
   y = y * D['n']
then: pass
then: D['n'] = 0

[counter in an object]
B = Box(0)
f: B.w += 1
   y = y / B.w
then: pass
then: B.w = 3

[counter in a closure]
def made():
    n = 0
    def h():
        nonlocal n
        n += 1
        return n
    return h
h = made()
f: y = y * h()

[global counter]
K = 0
def h():
    global K
    K += 1
    return K
f: y = y + h()
then: pass
then: K = 0

[written global]
K = 0.0
def h(v):
    global K
    K = v
f: h(3.0)
   y = y + K
then: K = 1.0
then: pass

[appended]
L = []
f: L.append(1.0)
   y = y * len(L)
then: pass
then: L.clear()

[history of values]
L = []
f: L.append(float(np.sum(x)))

[array written]
A = np.zeros(3)
f: A[0] += 1.0
   y = y + A[0]
then: pass
then: A[:] = 0.0

[state of arrays]
B = Box(np.zeros(3))
f: B.w = 0.5 * B.w + x
   y = y + B.w
then: pass
then: B.w = np.zeros(3)

[own cache]
D = {}
f: if 'a' not in D:
       D['a'] = 2.0
   y = y * D['a']
then: pass
then: D.clear()
then: D['a'] = NUM

[mutable default]
def h(y, seen=[]):
    seen.append(1)
    return y * len(seen)
f: y = h(y)

[iterator]
I = itertools.count(1)
f: y = y * next(I)

[print]
K = NUM
f: print('y', K)
then: K = NUM

[print before an error]
D = {'a': NUM}
f: print('begin', y[0])
   y = y * D['a']
   print('end')
f: print('one')
   try:
       print(f'two {x[0]:.1f}')
       y = y + D['a'] * x[1]
   finally:
       print('three')
f: y = y * 2.0
   print(np.sum(y), math.sqrt(float(y[0])))
   y = y + D['a']
then: D.clear()
then: D['a'] = NUM
then: D['a'] = INT

[text]
K = NUM
L = []
f: print(f'{K:.2f} {y[0]:.3f} {y[1]!r:>30} {y}', str(K), '%s %g' % (K, y[1]), '{:.1f}'.format(y[2]))
f: t = f'{y[0]:.1f}'
   print(t + '|' + t.rjust(9), [t, K])
   y = y * len(t) if K > 1.0 else y
f: L.append(f'{y[0]:.1f}')
f: t = f'{K:.1f}'
   print(t, t.upper())
   y = y + 1.0 if t > '1.0' else y
f: try:
       if y[0] > K:
           raise ValueError(f'large: {y[0]:.2f} {K}')
   except ValueError as error:
       print(error, error.args)
f: y = y * {'0': 1.0, '1': 2.0}.get(f'{abs(y[0]):.0f}', 3.0)
f: print('; '.join([f'{i}: {v:.2f}' for i, v in enumerate(y)]))
then: K = NUM
then: L.clear()
then: K = INT

[random]
random.seed(5)
f: y = y * random.random()

[generator]
G = np.random.default_rng(5)
f: y = y * G.normal()
"""
PLAIN = ["number", "flag", "entry", "list", "attribute", "function redefined", "array", "branch", "loop", "buffer"]


def _parsed(table: str) -> dict[str, Kind]:
    found: dict[str, Kind] = {}
    for block in re.split(r"^\[", re.sub(r"^##.*\n", "", table, flags=re.M), flags=re.M)[1:]:
        name, _, text = block.partition("]\n")
        parts: dict[str, list[str]] = {word: [] for word in ("", "f", "then", "n", "arg", "threads")}
        here, depth = "", 0
        for line in text.rstrip().split("\n"):
            word = re.match(r"(f|then|n|arg|threads): ", line)
            if word:
                here, depth = word[1], word.end()
                parts[here].append(line[depth:])
            elif here:
                parts[here][-1] += "\n" + line[depth:]
            else:
                parts[""].append(line)
        declared, changes = "\n".join(parts[""]), parts["then"] or ["pass"]
        found[name] = Kind(declared, parts["f"], changes, parts["n"], parts["arg"], bool(parts["threads"]))
    return found


KINDS = _parsed(TABLE)
