"""Survival: a censored Weibull likelihood, an accelerated failure time regression, Cox's partial likelihood."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.real.program import ALL, Library, Program

RANDOM = numpy.random.default_rng(1)
N = 250
DURATIONS = 10.0 * RANDOM.weibull(1.4, N)
OBSERVED = (RANDOM.uniform(size=N) < 0.7).astype(float)
COVARIATES = RANDOM.normal(size=(N, 5))
BY_DURATION = numpy.argsort(DURATIONS)


def weibull(library: Library) -> Callable[[Any], Any]:
    """The fitter of a censored Weibull distribution, by hazard and cumulative hazard."""
    np = library.np

    def log_hazard(params: Any, times: Any) -> Any:
        scale, shape = params
        return np.log(shape) - np.log(scale) + (shape - 1.0) * (np.log(times) - np.log(scale))

    def cumulative_hazard(params: Any, times: Any) -> Any:
        scale, shape = params
        return (times / scale) ** shape

    def loss(params: Any) -> Any:
        likelihood = OBSERVED * np.clip(log_hazard(params, DURATIONS), -1e25, 1e25) - cumulative_hazard(params, DURATIONS)
        return -np.mean(likelihood)

    return loss


def torch_weibull(torch: Any) -> Callable[[Any], Any]:
    times, observed = torch.from_numpy(DURATIONS), torch.from_numpy(OBSERVED)
    log_times = times.log()

    def loss(params: Any) -> Any:
        scale, shape = params[0], params[1]
        log_scale = scale.log()
        log_hazard = shape.log() - log_scale + (shape - 1.0) * (log_times - log_scale)
        return -(observed * log_hazard - (times / scale) ** shape).mean()

    return loss


def failure_times(library: Library) -> Callable[[Any], Any]:
    """Log-logistic regression with named coefficients and a ridge penalty."""
    np = library.np

    def loss(params: Any) -> Any:
        scale = np.exp(np.dot(COVARIATES, params["scale"]) + params["intercept"])
        shape = np.exp(params["shape"])
        ratio = (DURATIONS / scale) ** shape
        log_hazard = np.log(shape / scale) + (shape - 1.0) * np.log(DURATIONS / scale) - np.log1p(ratio)
        likelihood = OBSERVED * log_hazard - np.log1p(ratio)
        return -np.sum(likelihood) / N + 0.01 * np.sum(params["scale"] ** 2)

    return loss


def cox(library: Library) -> Callable[[Any], Any]:
    """The partial likelihood with Breslow's ties: sums over who is at risk are a cumulative sum from the end."""
    np = library.np
    x, observed = COVARIATES[BY_DURATION], OBSERVED[BY_DURATION]

    def loss(beta: Any) -> Any:
        score = np.dot(x, beta)
        at_risk = np.cumsum(np.exp(score)[::-1])[::-1]
        return -np.sum(observed * (score - np.log(at_risk))) + 0.1 * np.sum(beta**2)

    return loss


def torch_cox(torch: Any) -> Callable[[Any], Any]:
    x, observed = torch.from_numpy(COVARIATES[BY_DURATION]), torch.from_numpy(OBSERVED[BY_DURATION])

    def loss(beta: Any) -> Any:
        score = x @ beta
        at_risk = score.flip(0).logcumsumexp(0).flip(0)
        return -(observed * (score - at_risk)).sum() + 0.1 * (beta * beta).sum()

    return loss


PROGRAMS = [
    Program("Weibull likelihood", weibull, numpy.array([8.0, 1.2]), ALL, torch_weibull),
    Program(
        "failure time regression, dict",
        failure_times,
        {"scale": 0.1 * numpy.arange(5.0), "intercept": numpy.array(2.0), "shape": numpy.array(0.3)},
        ("value_and_grad", "hvp"),
    ),
    Program("Cox partial likelihood", cox, numpy.array([0.3, -0.2, 0.1, 0.4, -0.5]), ("value_and_grad", "hessian"), torch_cox),
]
