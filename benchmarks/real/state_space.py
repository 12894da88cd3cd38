"""Series: a Kalman filter, the forward algorithm of a hidden Markov model, the volatility of a GARCH model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.real.program import ALL, Library, Program

RANDOM = numpy.random.default_rng(7)
STEPS, STATES, SEEN = 40, 4, 2
MOVE = numpy.kron(numpy.array([[1.0, 0.3], [0.0, 1.0]]), numpy.eye(SEEN))
SEE = numpy.kron(numpy.array([[1.0, 0.0]]), numpy.eye(SEEN))
TRACK = numpy.cumsum(RANDOM.normal(size=(STEPS, SEEN)), axis=0)
HIDDEN, SYMBOLS, LENGTH = 4, 6, 60
SEQUENCE = RANDOM.integers(0, SYMBOLS, LENGTH)
RETURNS = 0.01 * RANDOM.standard_t(5, size=150)


def kalman(library: Library) -> Callable[[Any], Any]:
    """The likelihood of a track, by the logarithms of three variances."""
    np = library.np

    def loss(params: Any) -> Any:
        place, speed, noise = np.exp(params[0]), np.exp(params[1]), np.exp(params[2])
        shaking = place * np.diag([1.0, 1.0, 0.0, 0.0]) + speed * np.diag([0.0, 0.0, 1.0, 1.0])
        measured = noise * np.eye(SEEN)
        mean, covariance = np.zeros(STATES), 10.0 * np.eye(STATES)
        total = 0.0
        for seen in TRACK:
            mean = np.dot(MOVE, mean)
            covariance = np.dot(np.dot(MOVE, covariance), MOVE.T) + shaking
            away = seen - np.dot(SEE, mean)
            spread = np.dot(np.dot(SEE, covariance), SEE.T) + measured
            gain = np.linalg.solve(spread, np.dot(SEE, covariance)).T
            total = total + np.linalg.slogdet(spread)[1] + np.dot(away, np.linalg.solve(spread, away))
            mean = mean + np.dot(gain, away)
            covariance = covariance - np.dot(gain, np.dot(SEE, covariance))
        return 0.5 * total

    return loss


def torch_kalman(torch: Any) -> Callable[[Any], Any]:
    move, see, track = map(torch.from_numpy, (MOVE, SEE, TRACK))
    first = torch.diag(torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64))
    second = torch.eye(STATES, dtype=torch.float64) - first
    eye, start = torch.eye(SEEN, dtype=torch.float64), 10.0 * torch.eye(STATES, dtype=torch.float64)

    def loss(params: Any) -> Any:
        place, speed, noise = params.exp().unbind()
        shaking, measured = place * first + speed * second, noise * eye
        mean, covariance, total = torch.zeros(STATES, dtype=torch.float64), start, 0.0
        for seen in track:
            mean = move @ mean
            covariance = move @ covariance @ move.T + shaking
            away, reduced = seen - see @ mean, see @ covariance
            spread = reduced @ see.T + measured
            gain = torch.linalg.solve(spread, reduced).T
            total = total + torch.logdet(spread) + away.dot(torch.linalg.solve(spread, away))
            mean = mean + gain @ away
            covariance = covariance - gain @ reduced
        return 0.5 * total

    return loss


def markov(library: Library) -> Callable[[Any], Any]:
    """Logits of the start, the moves and the symbols in one dictionary; the forward algorithm in logarithms."""
    logsumexp = library.special.logsumexp

    def loss(params: Any) -> Any:
        start = params["start"] - logsumexp(params["start"])
        moves = params["moves"] - logsumexp(params["moves"], axis=1, keepdims=True)
        symbols = params["symbols"] - logsumexp(params["symbols"], axis=1, keepdims=True)
        alpha = start + symbols[:, SEQUENCE[0]]
        for symbol in SEQUENCE[1:]:
            alpha = logsumexp(alpha[:, None] + moves, axis=0) + symbols[:, symbol]
        return -logsumexp(alpha)

    return loss


def torch_markov(torch: Any) -> Callable[[Any], Any]:
    sequence = torch.from_numpy(SEQUENCE)

    def loss(params: Any) -> Any:
        moves = params["moves"].log_softmax(1)
        seen = params["symbols"].log_softmax(1).T[sequence].unbind()
        alpha = params["start"].log_softmax(0) + seen[0]
        for step in seen[1:]:
            alpha = torch.logsumexp(alpha[:, None] + moves, 0) + step
        return -alpha.logsumexp(0)

    return loss


def garch(library: Library) -> Callable[[Any], Any]:
    """Scalars only: the variance of each day from the last day's return and variance."""
    np = library.np

    def loss(params: Any) -> Any:
        base, shock, memory = np.exp(params[0]), np.exp(params[1]), np.exp(params[2])
        variance, total = base / (1.0 - shock - memory), 0.0
        for r in RETURNS:
            total = total + np.log(variance) + r**2 / variance
            variance = base + shock * r**2 + memory * variance
        return 0.5 * total

    return loss


def torch_garch(torch: Any) -> Callable[[Any], Any]:
    returns = RETURNS.tolist()
    squares = torch.from_numpy(RETURNS**2)

    def loss(params: Any) -> Any:
        base, shock, memory = params.exp().unbind()
        variance, variances = base / (1.0 - shock - memory), []
        for r in returns:
            variances.append(variance)
            variance = base + shock * (r * r) + memory * variance
        variance = torch.stack(variances)
        return 0.5 * (variance.log() + squares / variance).sum()

    return loss


LOGITS = {
    "start": RANDOM.normal(size=HIDDEN),
    "moves": RANDOM.normal(size=(HIDDEN, HIDDEN)),
    "symbols": RANDOM.normal(size=(HIDDEN, SYMBOLS)),
}
PROGRAMS = [
    Program("Kalman filter, 40 steps", kalman, numpy.array([-2.0, -1.0, 0.1]), ALL, torch_kalman),
    Program("hidden Markov model, 60 steps", markov, LOGITS, ("value_and_grad", "hvp"), torch_markov),
    Program("GARCH, 150 days", garch, numpy.log([2e-6, 0.08, 0.9]), ("value_and_grad", "hessian"), torch_garch),
]
