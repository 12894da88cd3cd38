"""Small networks: a classifier with a list of layers, a recurrent network for characters with a dictionary of weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.real.program import Library, Program

RANDOM = numpy.random.default_rng(6)
LAYERS = (32, 64, 64, 10)
BATCH = 64
INPUTS = RANDOM.normal(size=(BATCH, LAYERS[0]))
LABELS = RANDOM.integers(0, LAYERS[-1], BATCH)
TARGETS = numpy.eye(LAYERS[-1])[LABELS]
STEPS, TEXTS, CHARACTERS, STATE = 20, 8, 24, 32
LETTERS = RANDOM.integers(0, CHARACTERS, (STEPS, TEXTS))
TEXT = numpy.eye(CHARACTERS)[LETTERS]


def classifier(library: Library) -> Callable[[Any], Any]:
    """A list of (weights, bias), a loss with the prior of the weights."""
    np, logsumexp = library.np, library.special.logsumexp

    def predict(params: Any, inputs: Any) -> Any:
        for weights, bias in params:
            outputs = np.dot(inputs, weights) + bias
            inputs = np.tanh(outputs)
        return outputs - logsumexp(outputs, axis=1, keepdims=True)

    def loss(params: Any) -> Any:
        prior = 0.0
        for weights, bias in params:
            prior = prior + np.sum(weights**2) + np.sum(bias**2)
        return -np.sum(predict(params, INPUTS) * TARGETS) / BATCH + 0.001 * prior

    return loss


def torch_classifier(torch: Any) -> Callable[[Any], Any]:
    given, labels = torch.from_numpy(INPUTS), torch.from_numpy(LABELS)

    def loss(params: Any) -> Any:
        x, prior = given, 0.0
        for i, (weights, bias) in enumerate(params):
            x = torch.addmm(bias, x, weights)
            x = torch.tanh(x) if i < len(params) - 1 else x
            prior = prior + weights.square().sum() + bias.square().sum()
        return torch.nn.functional.cross_entropy(x, labels) + 0.001 * prior

    return loss


def recurrent(library: Library) -> Callable[[Any], Any]:
    """Inputs, state and a one for the bias side by side in front of each matrix, step by step."""
    np, logsumexp = library.np, library.special.logsumexp

    def product(weights: Any, *given: Any) -> Any:
        return np.dot(np.hstack([*given, np.ones((TEXTS, 1))]), weights)

    def loss(params: Any) -> Any:
        state = np.zeros((TEXTS, 1)) + params["first"]
        total = 0.0
        for t in range(STEPS - 1):
            state = np.tanh(product(params["change"], TEXT[t], state))
            output = product(params["predict"], state)
            output = output - logsumexp(output, axis=1, keepdims=True)
            total = total + np.sum(TEXT[t + 1] * output)
        return -total / (STEPS * TEXTS)

    return loss


def torch_recurrent(torch: Any) -> Callable[[Any], Any]:
    text, letters = torch.from_numpy(TEXT), torch.from_numpy(LETTERS)

    def loss(params: Any) -> Any:
        change, predict = params["change"], params["predict"]
        given = text[:-1] @ change[:CHARACTERS] + change[-1]
        recurrent = change[CHARACTERS:-1]
        state, states = params["first"].expand(TEXTS, STATE), []
        for x in given:
            state = torch.tanh(torch.addmm(x, state, recurrent))
            states.append(state)
        outputs = torch.stack(states) @ predict[:-1] + predict[-1]
        summed = torch.nn.functional.cross_entropy(outputs.flatten(0, 1), letters[1:].flatten(), reduction="sum")
        return summed / (STEPS * TEXTS)

    return loss


def draw(*shape: int) -> Any:
    return RANDOM.normal(size=shape) / shape[0] ** 0.5


PROGRAMS = [
    Program(
        "classifier, list of layers",
        classifier,
        [(draw(m, n), 0.1 * draw(n)) for m, n in zip(LAYERS, LAYERS[1:])],
        ("value_and_grad", "hvp"),
        torch_classifier,
    ),
    Program(
        "recurrent network, 19 steps",
        recurrent,
        {"first": draw(1, STATE), "change": draw(CHARACTERS + STATE + 1, STATE), "predict": draw(STATE + 1, CHARACTERS)},
        ("value_and_grad", "hvp"),
        torch_recurrent,
    ),
]
