"""What Python's language has that asks for values, one thing in each program."""

from __future__ import annotations

import numpy as np

from tests.whole.control.program import draws, program


@program((0, 2.0), (1, 2.0), (5, 2.0), (7, 3.0))
def matched(kind, x):
    match kind:
        case 0:
            return x
        case 1 | 2:
            return x * x
        case n if n > 6:
            return x * n
        case _:
            return -x


@program(*[(np.array(p),) for p in ([0.5, 0.5], [0.2, 0.9], [1.1, -0.1], [1.0, 0.0], [0.25, 0.75])], apart=(0, 1, 2, 3, 4))
def asserted(p):
    assert abs(np.sum(p) - 1.0) < 1e-9, "probabilities must sum to 1"
    assert (p >= 0).all()
    return -np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0)), 0.0))


@program((np.array([1.0, -2.0, 3.0]),), (np.array([-1.0, -2.0, -3.0]),), (np.array([1.0, 2.0, 0.5]),))
def comprehension_with_if(x):
    chosen = [v * v for v in x if v > 0]
    return sum(chosen), len(chosen)


@program((np.array([1.0, 2.0]),), (np.array([-1.0, 2.0]),), (np.array([-1.0, -2.0]),))
def any_and_all(x):
    if np.all(x > 0):
        return np.sum(np.log(x))
    if np.any(x > 0):
        return np.sum(x)
    if any([v < -5.0 for v in x]) or not all([v < 0 for v in x]):
        return x[0]
    return x[0] * x[1]


@program((np.array([1.0, 2.0, 3.0]), 1), (np.array([1.0, 2.0, 3.0]), 7), (np.array([4.0, 2.0, 3.0]), 2), (np.ones(3), 3))
def early_return(x, i):
    if i < 3:
        return x[i]
    if i == 3:
        return np.sum(x)
    return 0.5 * x[0]


@program(
    (np.eye(2) * 2.0,),
    (np.zeros((2, 2)),),
    (np.array([[1.0, 2.0], [2.0, 4.0]]),),
    (np.array([[1.0, 2.0], [3.0, 4.0]]),),
    asks=False,
    catches=True,
)
def singular_or_not(a):
    try:
        return np.linalg.inv(a)[0, 0]
    except np.linalg.LinAlgError:
        return -1.0 + 0.0 * a[0, 0]


@program(
    (np.eye(2),),
    (-np.eye(2),),
    (np.array([[2.0, 1.0], [1.0, 3.0]]),),
    (np.array([[1.0, 2.0], [2.0, 1.0]]),),
    asks=False,
    catches=True,
)
def cholesky_with_jitter(a):
    a = 0.5 * (a + a.T)
    jitter = 0.0
    while True:
        try:
            return 2.0 * np.sum(np.log(np.diag(np.linalg.cholesky(a + jitter * np.eye(2)))))
        except np.linalg.LinAlgError:
            jitter = 1.5 if jitter == 0 else 2.0 * jitter
            if jitter > 4.0:
                raise


@program((4.0,), (-1.0,), (-2.5,), (9.0,))
def raised_with_a_message(x):
    if x < -2.0:
        raise OverflowError(f"much too small: {x:.2f}")
    if x < 0:
        raise ValueError(f"negative: {x}")
    return np.sqrt(x)


class Refused(Exception):
    def __init__(self, what, code):
        super().__init__(what, code)
        self.code = code


@program((0.5, 2), (3.0, 2), (30.0, 2), (0.2, 0))
def errors_of_ones_own(x, tries):
    """Caught where its code says so, with `else` and `finally`."""
    done = []
    for _ in range(int(tries) + 1):
        try:
            if x > 10.0:
                raise Refused("large", 1)
            if x > 1.0:
                raise Refused("medium", 0)
        except Refused as error:
            if error.code:
                raise
            x = 0.5 * x
        else:
            x = x * x
            break
        finally:
            done.append(x)
    return x, len(done)


@program((1.0,), (10.0,), (100.0,))
def while_true(x):
    n = 0
    while True:
        x = 0.5 * x
        if x < 0.3:
            break
        n += 1
    return x, n


@program((2.0, 3), (0.5, 0), (1.5, 7))
def recursive_power(x, n):
    if n == 0:
        return 1.0 + 0.0 * x
    half = recursive_power(x, n // 2)
    return half * half * (x if n % 2 else 1.0)


@program((2.0, 3), (0.5, 0), (1.5, 7))
def range_of_a_value(x, n):
    total = 0.0 * x
    for k in range(n):
        total = total + x**k
    return total


@program((3.0, 2.5), (1.0, 0.2), (5.0, 1.0))
def generators(x, least):
    def halves(v):
        while v > least:
            yield v
            v = 0.5 * v

    def pairs(values):
        for k, v in enumerate(values):
            if k % 2 == 0:
                yield v * v

    return sum(pairs(halves(x)), 0.0 * x), next((v for v in halves(2.0 * x) if v < 4.0), None) is None


_ACTIONS = {0: np.sin, 1: np.cos, 2: lambda x: x * x}


@program((0.2, 0.5), (1.7, 0.5), (2.0, 3.0), (5.5, 1.0))
def dispatch(kind, x):
    return _ACTIONS.get(int(kind), np.tanh)(x)


@program((1.0, 2.0), (-1.0, 2.0), (1.0, -2.0), (0.0, 0.0))
def short_circuits(a, b):
    """`and` and `or` give operands; what is behind them does not run."""
    first = a > 0 and np.log(a + 1.0) > 0.5
    second = b > 0 or a > 0 and b < -1.0
    chosen = a or b or 7.0
    if first and not second or a == b:
        return chosen * 2.0
    return chosen + (1.0 if second else 0.0)


@program((0.5,), (1.5,), (2.5,), (-0.5,))
def chained_comparisons(x):
    return x if 0 < x < 1 else x * x if 1 <= x <= 2 else x * x * x if not x < 0 else -x


@program((np.array([3.0, 4.0, 5.0]), 4.0), (np.array([3.0, 4.0, 5.0]), 9.0), (np.array([1.0, 1.0, 1.0]), 1.0))
def for_else(x, wanted):
    for i, v in enumerate(x):
        if v == wanted:
            found = v * (i + 1.0)
            break
    else:
        found = -wanted
    return found


@program((7.0,), (0.5,), (2.0,))
def walrus(x):
    total = 0.0
    while (half := 0.5 * x) > 0.4:
        total, x = total + half, half
    return total + x


@program((1.0, 3.0, 2.0), (3.0, 2.0, 1.0), (0.1, 0.2, -0.3))
def builtins_compare(a, b, c):
    """min, max, sorted, and a key."""
    low, middle, high = sorted([a, b, c])
    furthest = max((a, b, c), key=lambda v: abs(v - 1.5))
    return low + 2.0 * middle + 4.0 * high + 8.0 * furthest + 16.0 * min(a, b)


@program((np.array([1.0, -2.0, 3.0, 0.0]),), (np.array([-1.0, -2.0, -3.0, -1.0]),), (np.array([1.0, 2.0, 3.0, 4.0]),))
def masked_mean(x):
    positive = x[x > 0]
    if positive.size == 0:
        raise ValueError("nothing is positive")
    return np.mean(positive), positive.size


@program((np.array([1.0, -2.0, 3.0]),), (np.array([-1.0, -2.0, -3.0]),), (np.array([1.0, 2.0, 3.0]),), ragged=True)
def masked(x):
    return x[x > 0] * 2.0


@program((np.array([3, 1, 3, 2]),), (np.array([5, 5, 5, 5]),), (np.array([4, 3, 2, 1]),))
def distinct(x):
    values, counts = np.unique(x, return_counts=True)
    return len(values), values[np.argmax(counts)], np.sum(values)


@program((np.array([0.0, 2.0, 0.0, 3.0]),), (np.zeros(4),), (np.array([1.0, 2.0, 3.0, 4.0]),), apart=(0, 1))
def where_it_is_not_zero(x):
    (places,) = np.nonzero(x)
    total = 0.0
    for i in places:
        total = total + x[i] * (i + 1.0)
    return total, np.flatnonzero(x > 1.0).size


@program((np.array([1.0, 2.0, 3.0, 4.0]), 2), (np.array([1.0, 2.0, 3.0, 4.0]), 0), (np.array([4.0, 3.0, 2.0, 1.0]), 4))
def slices(x, n):
    """Bounds, repetitions and sizes that are values."""
    return np.sum(x[:n]) + 2.0 * np.sum(x[n:]), np.zeros(int(n)).size, len([0] * int(n))


@program((2, 0.5), (0, 0.5), (-1, 0.25))
def lists_by_index(i, x):
    """Lists, tuples and strings know Python's whole numbers only."""
    return [x, 2.0 * x, x * x][i] + (1.0, 2.0, 3.0)[i], "abc"[i] == "c"


@program((3, 0.5), (0, 0.5), (9, 0.25))
def indices_that_miss(i, x):
    try:
        return [x, 2.0 * x, x * x, x][i]
    except IndexError:
        return -x


@program((2.0, 1.0), (2.0, 0.0), (-3.0, 5.0))
def truth_of_numbers(a, b):
    if not b:
        raise ZeroDivisionError("b is 0")
    return a / b if a and b else 0.0


class Account:
    def __init__(self, balance):
        self.balance, self.fees = balance, 0

    def draw(self, amount):
        if amount > self.balance:
            self.fees += 1
            return
        self.balance = self.balance - amount


@program((np.array([1.0, 5.0, 2.0]), 4.0), (np.array([1.0, 1.0, 1.0]), 10.0), (np.array([9.0, 9.0, 9.0]), 1.0))
def objects_with_methods(amounts, balance):
    account = Account(balance)
    for amount in amounts:
        account.draw(amount)
    return account.balance, account.fees


@program((0.5, 3), (2.0, 4), (1.0, 0))
def closures_that_count(x, n):
    count = 0

    def step(v):
        nonlocal count
        count += 1
        return v + 0.1 if v < 1.0 else 0.5 * v

    while count < n:
        x = step(x)
    return x, count


@program((np.array([[1.0, 2.0], [3.0, 4.0]]),), (np.array([[1.0, 2.0], [2.0, 4.0]]),), (np.zeros((2, 2)),), asks=False)
def error_of_numpy(a):
    return np.linalg.solve(a, np.ones(2))


@program((np.array([1.0, 2.0, 3.0]),), (np.array([3.0, -2.0, 1.0]),), (np.array([-1.0, -1.0, -1.0]),))
def writes_on_one_way(x):
    """What a caller's array is afterwards depends on the way."""
    for i in range(len(x)):
        if x[i] < 0:
            x[i] = 0.0
            x[:i] *= 2.0
    if x[0] > 2.5:
        x += 1.0
        return np.sum(x)
    return np.sum(x * x)


@program((np.array([1.0, 2.0]), 5.0), (np.array([1.0, -2.0]), 5.0), (np.array([-1.0, -2.0]), 5.0))
def write_then_raise(x, v):
    """Arguments as they are where it stops."""
    x[0] = v * x[0]
    if x[1] < 0:
        raise ValueError(f"second is {x[1]:.1f}, first is {x[0]:.1f}")
    x[1] = v
    return np.sum(x)


@program(*[(draws(i, 5, low=-1.0), 3 - i) for i in range(3)])
def nested_loops_with_labels(x, n):
    """continue and break of the inner loop, a flag for the outer."""
    total, stop = 0.0, False
    for i in range(5):
        for j in range(i, 5):
            if x[i] * x[j] < 0:
                continue
            total = total + x[i] * x[j]
            if total > 0.5 * n:
                stop = True
                break
        if stop:
            break
    return total, i
