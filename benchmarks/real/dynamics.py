"""Dynamics: the fit of an ordinary differential equation, and the control of a pendulum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.real.program import ALL, Library, Program

RANDOM = numpy.random.default_rng(8)
STEPS, H = 30, 0.2
FIRST = numpy.array([10.0, 5.0])
MOVES, DT = 40, 0.05


def _data() -> Any:
    """A noisy trajectory of hares and lynxes."""
    slope = lambda z: numpy.array([0.6 * z[0] - 0.03 * z[0] * z[1], -0.8 * z[1] + 0.03 * z[0] * z[1]])
    z, found = FIRST, []
    for _ in range(STEPS):
        middle = z + 0.5 * H * slope(z)
        z = z + H * slope(middle)
        found.append(z)
    return numpy.log(numpy.array(found)) + 0.05 * RANDOM.normal(size=(STEPS, 2))


LOG_SEEN = _data()


def predators(library: Library) -> Callable[[Any], Any]:
    """Lotka and Volterra's equations by the classical Runge-Kutta method, fitted to logarithms."""
    np, vector = library.np, library.vector

    def slope(z: Any, params: Any) -> Any:
        a, b, c, d = params
        hares, lynxes = z
        return vector([a * hares - b * hares * lynxes, -c * lynxes + d * hares * lynxes])

    def step(z: Any, params: Any) -> Any:
        k1 = slope(z, params)
        k2 = slope(z + 0.5 * H * k1, params)
        k3 = slope(z + 0.5 * H * k2, params)
        k4 = slope(z + H * k3, params)
        return z + H / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)

    def loss(log_params: Any) -> Any:
        params = np.exp(log_params)
        z, total = FIRST, 0.0
        for seen in LOG_SEEN:
            z = step(z, params)
            total = total + np.sum((np.log(z) - seen) ** 2)
        return total

    return loss


def torch_predators(torch: Any) -> Callable[[Any], Any]:
    seen, first = torch.from_numpy(LOG_SEEN), torch.from_numpy(FIRST)

    def loss(log_params: Any) -> Any:
        a, b, c, d = log_params.exp().unbind()
        growth, meeting = torch.stack([a, -c]), torch.stack([-b, d])
        slope = lambda z: growth * z + meeting * z.prod()
        z, path = first, []
        for _ in range(STEPS):
            k1 = slope(z)
            k2 = slope(z + 0.5 * H * k1)
            k3 = slope(z + 0.5 * H * k2)
            k4 = slope(z + H * k3)
            z = z + H / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
            path.append(z)
        return (torch.stack(path).log() - seen).square().sum()

    return loss


def pendulum(library: Library) -> Callable[[Any], Any]:
    """The torques that swing a pendulum up: scalars, one torque of the vector at each step."""
    np = library.np

    def loss(torques: Any) -> Any:
        angle, speed, cost = 0.1, 0.0, 0.0
        for t in range(MOVES):
            torque = torques[t]
            speed = speed + DT * (torque - 9.81 * np.sin(angle) - 0.1 * speed)
            angle = angle + DT * speed
            cost = cost + 0.01 * torque**2
        return cost + (np.cos(angle) + 1.0) ** 2 + 0.1 * speed**2

    return loss


def torch_pendulum(torch: Any) -> Callable[[Any], Any]:
    def loss(torques: Any) -> Any:
        angle, speed = torch.tensor(0.1, dtype=torch.float64), 0.0
        for torque in torques.unbind():
            speed = speed + DT * (torque - 9.81 * torch.sin(angle) - 0.1 * speed)
            angle = angle + DT * speed
        return 0.01 * torques.square().sum() + (torch.cos(angle) + 1.0) ** 2 + 0.1 * speed**2

    return loss


PROGRAMS = [
    Program("ODE fit, 30 steps of Runge-Kutta", predators, numpy.log([0.5, 0.02, 0.7, 0.02]), ALL, torch_predators),
    Program(
        "pendulum's torques, 40 steps", pendulum, 0.5 * RANDOM.normal(size=MOVES), ("value_and_grad", "hvp"), torch_pendulum
    ),
]
