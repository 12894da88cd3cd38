"""Models with cases: taxes, losses, trees, options, queues, machines with states."""

from __future__ import annotations

import numpy as np

from tests.whole.control.program import draws, program

_BRACKETS = ((0.0, 0.0), (1.0, 0.1), (4.0, 0.25), (9.0, 0.4))


@program((0.5,), (2.0,), (5.0,), (12.0,), (3.5,))
def tax(income):
    total = 0.0 * income
    for k, (start, rate) in enumerate(_BRACKETS):
        if income <= start:
            break
        end = _BRACKETS[k + 1][0] if k + 1 < len(_BRACKETS) else np.inf
        total = total + rate * ((income if income < end else end) - start)
    return total


@program((np.array([0.2, -3.0, 0.9, 2.0]), 1.0), (np.array([0.1, 0.2, 0.3, 0.4]), 0.5), (np.array([5.0, -5.0, 7.0, 0.0]), 2.0))
def huber(errors, delta):
    total = 0.0
    for e in errors:
        if abs(e) <= delta:
            total = total + 0.5 * e * e
        else:
            total = total + delta * (abs(e) - 0.5 * delta)
    return total


@program((1.5,), (-0.5,), (0.0,), apart=(2,))
def leaky(x):
    return x if x > 0 else 0.1 * x


@program(
    (np.array([5.1, 3.5, 1.4, 0.2]),), (np.array([6.0, 2.2, 4.0, 1.0]),), (np.array([6.3, 3.3, 6.0, 2.5]),), (np.zeros(4),)
)
def decision_tree(x):
    """A small tree whose leaves are linear."""
    tree = (2, 2.45, (0.5, 0), (3, 1.75, (2, 4.95, (1.5, 1), (2.0, 2)), (3.0, 3)))
    node = tree
    while len(node) == 4:
        feature, threshold, low, high = node
        node = low if x[feature] < threshold else high
    scale, which = node
    return scale * x[which % 4] + x[0], which


_PLACES = draws(8, 15, 2)


@program(*[(p,) for p in draws(9, 5, 2)])
def nearest_in_a_tree(p):
    """A tree of medians with a bound that is looked at before the far side is."""

    def build(points, axis):
        if not len(points):
            return None
        points = points[np.argsort(points[:, axis])]
        m = len(points) // 2
        return points[m], axis, build(points[:m], 1 - axis), build(points[m + 1 :], 1 - axis)

    def search(node, best):
        if node is None:
            return best
        point, axis, low, high = node
        distance = np.sum((p - point) ** 2)
        if best is None or distance < best:
            best = distance
        beside = p[axis] - point[axis]
        near, far = (low, high) if beside < 0 else (high, low)
        best = search(near, best)
        return search(far, best) if beside * beside < best else best

    return search(build(_PLACES, 0), None)


@program((100.0, 100.0, 0.2), (80.0, 100.0, 0.3), (120.0, 100.0, 0.1), (100.0, 160.0, 0.2))
def american_put(spot, strike, volatility):
    """A binomial tree, node by node, with early exercise."""
    steps, rate = 6, 0.05
    dt = 1.0 / steps
    up = np.exp(volatility * dt**0.5)
    down = 1.0 / up
    p = (np.exp(rate * dt) - down) / (up - down)
    values = []
    for j in range(steps + 1):
        payoff = strike - spot * up ** (2 * j - steps)
        values.append(payoff if payoff > 0 else 0.0 * spot)
    for i in reversed(range(steps)):
        for j in range(i + 1):
            kept = np.exp(-rate * dt) * (p * values[j + 1] + (1.0 - p) * values[j])
            exercised = strike - spot * up ** (2 * j - i)
            values[j] = exercised if exercised > kept else kept
    return values[0]


_SHOCKS = draws(4, 8, low=-1.0)


@program((1.0, 0.7), (1.0, 0.99), (1.0, 0.2), (1.3, 1.29), (0.5, 0.7))
def knock_out(spot, barrier):
    """Worth nothing once the path has crossed the barrier."""
    s, knocked = spot, False
    for shock in _SHOCKS:
        s = s * np.exp(0.2 * shock)
        if s < barrier:
            knocked = True
            break
    if knocked:
        return 0.0
    return max(s - 0.9, 0.0 * s)


@program(
    (np.array([1.0, np.nan, 1.2, 0.9]), 0.1, 0.2),
    (np.array([1.0, 1.1, 1.2, 0.9]), 0.3, 0.2),
    (np.array([np.nan, np.nan, np.nan, 0.9]), 0.1, 0.5),
    apart=(0, 2),
)
def kalman_with_missing_data(ys, q, r):
    mean, variance, likelihood = 0.0, 1.0, 0.0
    for y in ys:
        variance = variance + q
        if np.isnan(y):
            continue
        s = variance + r
        gain = variance / s
        likelihood = likelihood - 0.5 * (np.log(2.0 * np.pi * s) + (y - mean) ** 2 / s)
        mean = mean + gain * (y - mean)
        variance = (1.0 - gain) * variance
    return likelihood, mean


_KNOTS, _HEIGHTS = np.array([0.0, 0.5, 1.2, 3.0, 3.1, 7.0]), draws(2, 6)


@program((0.2,), (1.5,), (3.05,), (6.9,), (-1.0,), (8.0,))
def table_lookup(x):
    """Bisection for the interval, then a parabola in it; outside it is an error."""
    if x < _KNOTS[0] or x > _KNOTS[-1]:
        raise ValueError(f"{x:.3f} is outside [{_KNOTS[0]}, {_KNOTS[-1]}]")
    low, high = 0, len(_KNOTS) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if x < _KNOTS[middle]:
            high = middle
        else:
            low = middle
    t = (x - _KNOTS[low]) / (_KNOTS[high] - _KNOTS[low])
    return _HEIGHTS[low] * (1.0 - t) + _HEIGHTS[high] * t + t * (1.0 - t)


@program((3.0, 0.0, 0.8), (1.0, 5.0, 0.5), (0.1, 0.0, 0.9), (2.0, -3.0, 0.3))
def bouncing_ball(height, velocity, restitution):
    """From event to event, until the time is over or it rests."""
    left, bounces = 2.0, 0
    while True:
        t = (velocity + np.sqrt(velocity**2 + 2.0 * 9.81 * height)) / 9.81
        if t >= left:
            return height + velocity * left - 0.5 * 9.81 * left * left, bounces
        left = left - t
        velocity = restitution * (9.81 * t - velocity)
        height = 0.0
        bounces += 1
        if velocity < 0.2:
            return 0.0, bounces


@program(*[(draws(i, 6, low=0.1), draws(i + 20, 6, low=0.05, high=0.3 + 0.5 * i)) for i in range(4)])
def queue(gaps, services):
    """One counter: each waits until the one before has gone; who would wait too long leaves."""
    now = free_at = waited = 0.0
    left = 0
    for gap, service in zip(gaps, services):
        now = now + gap
        if free_at > now:
            if free_at - now > 1.0:
                left += 1
                continue
            waited = waited + (free_at - now)
            free_at = free_at + service
        else:
            free_at = now + service
    return waited, left


@program(*[(draws(i, 4, low=0.1), 0.3 + 0.1 * i) for i in range(4)])
def event_loop(delays, period):
    """Events in a list, the next one taken out; an event makes another until it is late."""
    pending = [(delays[k], k) for k in range(4)]
    now, count = 0.0, [0, 0, 0, 0]
    while pending:
        nearest = min(pending, key=lambda event: event[0])
        pending = [event for event in pending if event is not nearest]
        now, kind = nearest
        count[kind] += 1
        if now < 1.0 and count[kind] < 3:
            pending.append((now + period * (kind + 1), kind))
    return now, count


@program(*[(draws(i, 8), 0.3 + 0.2 * i) for i in range(4)])
def gamble(luck, stake):
    """Doubles after a loss; ends when it is ruined or has enough."""
    money, bet = 2.0, stake
    for turn, u in enumerate(luck):
        if u < 0.5:
            money, bet = money + bet, stake
        else:
            money, bet = money - bet, 2.0 * bet
        if money <= 0:
            return 0.0, turn
        if money > 3.0:
            break
    return money, turn


@program(*[(draws(i, 12, 2), 0.5 + i) for i in range(4)])
def rejection_sampling(points, shape):
    """The first three points under the curve."""
    kept = []
    for x, y in points:
        if y < np.exp(-shape * x):
            kept.append(x)
        if len(kept) == 3:
            break
    if not kept:
        raise ValueError(f"none of {len(points)} points is under the curve")
    return sum(kept) * shape / len(kept)


@program(*[(draws(i, 10, low=-1.0, high=1.0 + 0.3 * i),) for i in range(4)])
def regimes(returns):
    """A machine with three states; each state has its own rule."""
    state, wealth = "calm", 1.0
    visits = {"calm": 0, "wild": 0, "closed": 0}
    for r in returns:
        visits[state] += 1
        match state:
            case "calm":
                wealth = wealth * (1.0 + 0.1 * r)
                if abs(r) > 0.6:
                    state = "wild"
            case "wild":
                wealth = wealth * (1.0 + 0.3 * r)
                if wealth < 0.9:
                    state = "closed"
                elif abs(r) < 0.3:
                    state = "calm"
            case "closed":
                if r > 0.5:
                    state = "calm"
    return wealth, visits["calm"], visits["closed"]


@program((15.0, 1.0), (25.0, 0.2), (18.9, 3.0), (21.5, 0.5))
def thermostat(temperature, power):
    """Hysteresis: what the switch does depends on what it was."""
    on = False
    for _ in range(12):
        if temperature < 19.0 and not on:
            on = True
        elif temperature > 21.0 and on:
            on = False
        temperature = temperature + (power if on else 0.0) - 0.05 * (temperature - 10.0)
    return temperature


@program((0.5, 0.0), (2.0, 1.0), (0.1, 0.5), (3.0, -1.0), apart=(0, 2))
def stick_slip(force, velocity):
    x = 0.0
    for turn in range(10):
        f = force * np.cos(0.3 * turn)
        if velocity == 0 and abs(f) < 0.8:
            continue
        friction = 0.6 if velocity > 0 else -0.6 if velocity < 0 else 0.6 * (1.0 if f > 0 else -1.0)
        new = velocity + 0.1 * (f - friction)
        velocity = 0.0 if new * velocity < 0 else new
        x = x + 0.1 * velocity
    return x, velocity


@program(
    (np.array([0.1, 0.7, 0.2]), np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.3, 0.5]]), np.array([0, 1, 2, 1])),
    (np.array([0.5, 0.3, 0.2]), np.array([[0.1, 0.8, 0.1], [0.4, 0.2, 0.4], [0.3, 0.3, 0.4]]), np.array([2, 2, 0, 0])),
    (np.array([0.2, 0.2, 0.6]), np.array([[0.3, 0.3, 0.4], [0.6, 0.2, 0.2], [0.1, 0.1, 0.8]]), np.array([1, 0, 1, 2])),
)
def viterbi(start, moves, seen):
    """The most likely states; back along argmax."""
    emission = np.array([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7]])
    score = np.log(start) + np.log(emission[:, seen[0]])
    back = []
    for o in seen[1:]:
        candidates = score[:, None] + np.log(moves)
        back.append(np.argmax(candidates, axis=0))
        score = np.max(candidates, axis=0) + np.log(emission[:, o])
    path = [int(np.argmax(score))]
    for choice in reversed(back):
        path.append(int(choice[path[-1]]))
    return np.max(score), np.array(path[::-1])


@program(
    ({"rate": 0.05, "amount": 100.0}, 3), ({"rate": 0.1, "amount": 50.0}, 8), ({"rate": 0.0, "amount": 70.0}, 1), apart=(2,)
)
def loan(terms, years):
    """Arguments in a dict; a rate of nothing has its own formula."""
    if terms["rate"] == 0:
        return {"payment": terms["amount"] / years, "interest": 0.0}
    growth = 1.0
    for _ in range(int(years)):
        growth = growth * (1.0 + terms["rate"])
    payment = terms["amount"] * terms["rate"] * growth / (growth - 1.0)
    return {"payment": payment, "interest": payment * years - terms["amount"]}
