"""Particles, filters, chains and optimisers, whose state is kept in arrays."""

from __future__ import annotations

import numpy as np

from tests.whole.writes.program import normal, program, symmetric, uniform


def _accelerations(acc, pos, mass, softening):
    x, y, z = pos[:, 0:1], pos[:, 1:2], pos[:, 2:3]
    dx, dy, dz = x.T - x, y.T - y, z.T - z
    inverse = dx**2 + dy**2 + dz**2 + softening**2
    inverse[inverse > 0] = inverse[inverse > 0] ** (-1.5)
    acc[:, 0:1] = (dx * inverse) @ mass
    acc[:, 1:2] = (dy * inverse) @ mass
    acc[:, 2:3] = (dz * inverse) @ mass


@program(uniform(3, 1), normal(3, 3), normal(3, 3), 2, 0.05)
def nbody(mass, pos, vel, steps, dt):
    vel -= np.mean(mass * vel, axis=0) / np.mean(mass)
    acc = np.empty((3, 3))
    energy = np.empty(steps + 1)
    _accelerations(acc, pos, mass, 0.1)
    energy[0] = 0.5 * np.sum(mass * vel**2)
    for i in range(steps):
        vel += acc * dt / 2.0
        pos += vel * dt
        _accelerations(acc, pos, mass, 0.1)
        vel += acc * dt / 2.0
        energy[i + 1] = 0.5 * np.sum(mass * vel**2)
    return energy


@program(normal(4, 2), 0.02, 3)
def pair_forces(pos, dt, steps):
    """Action and reaction, by pairs, added to both particles."""
    vel = np.zeros_like(pos)
    first, second = np.triu_indices(len(pos), 1)
    for _ in range(steps):
        apart = pos[first] - pos[second]
        push = apart / (0.5 + np.sum(apart * apart, axis=1, keepdims=True)) ** 2
        force = np.zeros_like(pos)
        np.add.at(force, first, push)
        np.subtract.at(force, second, push)
        vel += dt * force
        pos += dt * vel
    return vel


@program(normal(4), symmetric(4), normal(3, 2), uniform(2, 4), 0.3)
def kalman_in_place(mean, cov, observations, observe, noise):
    transition = np.eye(4)
    transition[0, 2] = transition[1, 3] = 0.1
    loglik = np.array(0.0)
    for z in observations:
        mean[:] = transition @ mean
        cov[:] = transition @ cov @ transition.T
        cov[np.diag_indices(4)] += 0.01
        s = observe @ cov @ observe.T
        s[np.arange(2), np.arange(2)] += noise**2
        gain = np.linalg.solve(s, observe @ cov).T
        innovation = z - observe @ mean
        loglik -= 0.5 * (np.linalg.slogdet(s)[1] + innovation @ np.linalg.solve(s, innovation))
        mean += gain @ innovation
        cov -= gain @ observe @ cov
    return loglik


@program(normal(2), normal(2), 0.1, 4)
def velocity_verlet(q, p, dt, steps):
    path = np.zeros((steps + 1, 2))
    path[0] = q
    for i in range(1, steps + 1):
        p -= 0.5 * dt * np.sin(q)
        q += dt * p
        p -= 0.5 * dt * np.sin(q)
        path[i] = q
    return path


def _lorenz(state, out):
    out[0] = 10.0 * (state[1] - state[0])
    out[1] = state[0] * (28.0 - state[2]) - state[1]
    out[2] = state[0] * state[1] - 8.0 / 3.0 * state[2]


@program(normal(3), 0.01, 3)
def runge_kutta(y, h, steps):
    k = np.empty((4, 3))
    work = np.empty(3)
    for _ in range(steps):
        _lorenz(y, k[0])
        work[:] = y + 0.5 * h * k[0]
        _lorenz(work, k[1])
        work[:] = y + 0.5 * h * k[1]
        _lorenz(work, k[2])
        work[:] = y + h * k[2]
        _lorenz(work, k[3])
        y += h / 6.0 * (k[0] + 2 * k[1] + 2 * k[2] + k[3])


@program(uniform(3), uniform(2), 4)
def epidemic(state, rates, days):
    record = np.zeros((days, 3))
    for day in range(days):
        infected = rates[0] * state[0] * state[1]
        recovered = rates[1] * state[1]
        state[0] -= infected
        state[1] += infected - recovered
        state[2] += recovered
        record[day, :] = state
    return record


class _Springs:
    """A chain of masses whose state is kept in arrays of its own."""

    def __init__(self, stiffness, n):
        self.stiffness = stiffness
        self.position = np.arange(float(n))
        self.velocity = np.zeros(n)
        self.force = np.zeros(n)

    def advance(self, dt):
        self.force.fill(0.0)
        stretch = self.stiffness * (np.diff(self.position) - 0.9)
        self.force[:-1] += stretch
        self.force[1:] -= stretch
        self.velocity += dt * self.force
        self.position += dt * self.velocity


@program(uniform(4), 3)
def class_with_arrays(stiffness, steps):
    chain = _Springs(stiffness, 5)
    for _ in range(steps):
        chain.advance(0.1)
    return chain.position, chain.velocity


@program(normal(3), 1.0, 0.3, 4, smooth=False)
def option_tree(parameters, strike, rate, steps):
    """An American option: values of the leaves, folded back in place."""
    up = np.exp(0.1 * np.exp(parameters[0]))
    p = 0.5 + 0.1 * np.tanh(parameters[1])
    spot = np.exp(0.1 * parameters[2]) * up ** (2.0 * np.arange(steps + 1) - steps)
    values = np.maximum(strike - spot, 0.0)
    for n in range(steps, 0, -1):
        values[:n] = np.exp(-0.01 * rate) * (p * values[1 : n + 1] + (1 - p) * values[:n])
        spot[:n] = spot[:n] * up
        np.maximum(values[:n], strike - spot[:n], out=values[:n])
    return values[0]


@program(normal(3), normal(3, 3), normal(5, 3))
def forward_algorithm(start, transition, scores):
    """A hidden chain's log likelihood; one row of the table after the other."""
    table = np.full((5, 3), -np.inf)
    table[0] = start + scores[0]
    for t in range(1, 5):
        for s in range(3):
            candidates = table[t - 1] + transition[:, s]
            top = candidates.max()
            table[t, s] = top + np.log(np.sum(np.exp(candidates - top))) + scores[t, s]
    return np.log(np.sum(np.exp(table[-1])))


@program(normal(3), normal(3, 3), normal(5, 3), smooth=False)
def best_path(start, transition, scores):
    score = np.zeros((5, 3))
    score[0] = start + scores[0]
    back = np.zeros((5, 3), dtype=int)
    for t in range(1, 5):
        every = score[t - 1][:, None] + transition
        back[t] = np.argmax(every, axis=0)
        score[t] = np.max(every, axis=0) + scores[t]
    return score, back


@program(normal(4), symmetric(4), 4)
def adam(w, a, steps):
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t in range(1, steps + 1):
        slope = a @ w - 1.0
        m *= 0.9
        m += 0.1 * slope
        v *= 0.99
        v += 0.01 * slope**2
        w -= 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-8)


@program(normal(3), normal(3), 3)
def momentum_in_a_dictionary(w, target, steps):
    state = {"w": w, "velocity": np.zeros(3), "losses": []}
    for _ in range(steps):
        residual = state["w"] - target
        state["losses"].append(np.sum(residual**2))
        state["velocity"] *= 0.8
        state["velocity"] -= 0.1 * residual
        state["w"] += state["velocity"]
    return np.array(state["losses"])


@program(normal(4, 4), 3)
def mean_field(coupling, sweeps):
    coupling[np.diag_indices(4)] = 0.0
    m = np.full(4, 0.1)
    for _ in range(sweeps):
        for i in range(4):
            m[i] = np.tanh(coupling[i] @ m + 0.1)
    return m


@program(normal(6), normal(6), uniform(1))
def garch(returns, shocks, parameters):
    variance = np.zeros(6)
    variance[0] = 0.1
    total = np.array(0.0)
    for t in range(1, 6):
        variance[t] = 0.05 + 0.2 * returns[t - 1] ** 2 + 0.5 * parameters[0] * variance[t - 1]
        total += 0.5 * (np.log(variance[t]) + (returns[t] - 0.1 * shocks[t]) ** 2 / variance[t])
    return total


@program(uniform(5, 2), uniform(3, 2), 2)
def k_means(points, centres, steps):
    """Soft assignment; each centre's row is written in its turn."""
    for _ in range(steps):
        weight = np.exp(-np.sum((points[:, None] - centres[None]) ** 2, axis=-1))
        weight /= weight.sum(axis=1, keepdims=True)
        for k in range(len(centres)):
            centres[k] = weight[:, k] @ points / weight[:, k].sum()


@program(uniform(4), uniform(4, 4), 4)
def page_rank(rank, links, steps):
    links /= links.sum(axis=0)
    for _ in range(steps):
        rank[:] = 0.85 * links @ rank
        rank += 0.15 / 4
        rank /= np.sum(rank)


@program(uniform(3, 3), uniform(3), uniform(3), 4)
def sinkhorn(kernel, rows, columns, steps):
    u, v = np.ones(3), np.ones(3)
    for _ in range(steps):
        np.divide(rows, kernel @ v, out=u)
        np.divide(columns, kernel.T @ u, out=v)
    kernel *= u[:, np.newaxis]
    kernel *= v


@program(normal(4), np.array([0, 2, 1, 3]), normal(4, 3))
def embedding_update(scale, tokens, table):
    """Rows that are read and written by an integer index that is an argument."""
    for i, t in enumerate(tokens):
        table[t] += scale[i] * table[tokens[i - 1]]
    return table[tokens[::2]]
