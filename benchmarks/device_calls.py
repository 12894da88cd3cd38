"""How often a warm run calls the device: W1 to W10, a scan and draws, before and after compiling, with kernels, and by hand.

Counted on the stand-in for CuPy (tests/standin.py), so no GPU is needed, and no time is measured: a call is what starts a
kernel or a library's function, a view is none. "sent" are values that are copied to the device, "waits" are those that Python
waits for. The arrays are smaller than those of the benchmarks of the same names; the programs are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, NamedTuple

import numpy

import funcad
from benchmarks import (
    w1_scalar,
    w2_mlp,
    w3_elementwise,
    w4_logistic,
    w6_softmax,
    w7_layernorm,
    w8_rnn,
    w9_vmap_grad,
    w10_hessian,
)
from benchmarks.workload import TRANSFORMS
from tests import standin

__all__ = ["Row", "cells", "rows", "table"]

STEPS = 100  # of the scans


class Program(NamedTuple):
    """What runs, on which data, and the same by hand."""

    what: str
    function: Callable[..., Any]
    data: tuple
    by_hand: Callable[..., Any] | None = None


class Row(NamedTuple):
    """What one warm run asks of the device: operations one by one, the compiled lines, with kernels of groups, CuPy by hand."""

    what: str
    before: Counter
    after: Counter
    kernels: Counter | None
    by_hand: Counter | None


def scalar_by_hand(x: Any) -> Any:
    e = numpy.exp(-2.0 * x)
    d = 1.0 + e
    t = (1.0 - e) / d
    slope = 4.0 * e / (d * d)
    return (2.0 * t * slope + numpy.cos(x) * 0.5) * t + (t * t + numpy.sin(x) * 0.5) * slope - 1.0


def polynomial_by_hand(x: Any) -> Any:
    coefficients = [k * c for k, c in enumerate(w3_elementwise.COEFFICIENTS)]
    y = x * coefficients[-1] + coefficients[-2]
    for c in coefficients[-3:0:-1]:
        y = y * x + c
    return y


def transcendental_by_hand(x: Any) -> Any:
    t, squared = numpy.tanh(x), x * x
    e = numpy.exp(-squared)
    return e * (1.0 - t * t - 2.0 * x * t) + 2.0 * x / (1.0 + squared)


def scanned(c: Any, xs: Any) -> Any:
    return numpy.sum(funcad.scan(lambda c, x: (numpy.sin(c) * 0.9 + x, None), c, xs)[0])


def softmax(z: Any, ct: Any) -> Any:
    e = numpy.exp(z - numpy.max(z, axis=1, keepdims=True))
    return numpy.sum(e / numpy.sum(e, axis=1, keepdims=True) * ct)


def programs() -> Iterator[Program]:
    double = numpy.float64
    elements = w3_elementwise.data(1000)(double)
    polynomial, transcendental = w3_elementwise.polynomial, w3_elementwise.transcendental
    w, X, y = w4_logistic.data(double)
    X, y = X[:1000], y[:1000]
    z, labels = w6_softmax.data(double)
    (x, gain, bias), c = w7_layernorm.data(double)
    parameters, xs = w8_rnn.data(double)
    points = w9_vmap_grad.data(double)[0][:1000]

    def of(transform: str, make: Callable[[Any], Any]) -> Callable[..., Any]:
        function: Callable[..., Any] = TRANSFORMS[transform](funcad, make(numpy))
        return function

    yield Program("W1 gradient", of("grad", w1_scalar.function), (numpy.array(0.5),), scalar_by_hand)
    yield Program("W2 network, value and gradient", of("value_and_grad", w2_mlp.function), w2_mlp.data(double), w2_mlp.by_hand)
    yield Program("W3a polynomial", of("value", polynomial), elements, polynomial(numpy))
    yield Program("W3a its gradient", of("grad", w3_elementwise.summed(polynomial)), elements, polynomial_by_hand)
    yield Program("W3b tanh exp log1p", of("value", transcendental), elements, transcendental(numpy))
    yield Program("W3b its gradient", of("grad", w3_elementwise.summed(transcendental)), elements, transcendental_by_hand)
    yield Program("W4 logistic regression", of("value_and_grad", w4_logistic.loss), (w, X, y), w4_logistic.by_hand)
    yield Program("W5 its HVP", of("hvp", w4_logistic.loss), (w, w * 2.0, X, y), w4_logistic.hvp_by_hand)
    yield Program("W6 softmax", of("value_and_grad", w6_softmax.loss), (z[:40], labels[:40]), w6_softmax.by_hand)
    normal = (x[:64], gain, bias), c[:64]
    yield Program("W7 layernorm", of("value_and_grad", w7_layernorm.weighted), normal, w7_layernorm.by_hand)
    yield Program(f"W8 RNN of {STEPS}, gradient", of("grad", w8_rnn.loss), (parameters, xs[:STEPS]), w8_rnn.by_hand)
    yield Program("W9 vmap(grad)", of("vmap_grad", w9_vmap_grad.rosenbrock), (points,), w9_vmap_grad.by_hand)
    yield Program("W10 Hessian", of("hessian", w9_vmap_grad.rosenbrock), w10_hessian.data(double), w10_hessian.by_hand)
    yield Program(f"scan of {STEPS}, gradient", funcad.grad(scanned), (numpy.ones(8), numpy.ones((STEPS, 8))))
    yield Program("softmax of rows, gradient", funcad.grad(softmax), (z[:40], labels[:40]))
    yield Program("random.normal", lambda key: funcad.random.normal(key, (1000,)), (funcad.random.key(0),))


def there(data: Any) -> Any:
    return tuple([there(x) for x in data]) if isinstance(data, tuple) else standin.to_device(numpy.asarray(data))


def counted(f: Callable[..., Any], data: tuple, runs: int) -> tuple[Any, Counter]:
    """(the result, what the last of so many runs asks of the device)."""
    for _ in range(runs - 1):
        f(*data)
    standin.work = found = Counter()
    try:
        return f(*data), found
    finally:
        standin.work = None


def leaves(result: Any) -> list[Any]:
    return [standin.to_host(x) for x in funcad.tree.leaves(result)]


def rows(kernels: bool = True) -> Iterator[Row]:
    """One row for each program; all ways agree. Kernels, which take a second to compile and run here, can be left out."""
    for program in programs():
        with standin.registered() as xp:
            data = there(program.data)
            with funcad.config.set(engine="interpreter"):
                expected, before = counted(funcad.jit(program.function), data, 3)
            found, after = counted(funcad.jit(program.function), data, 3)
            launched, results = None, [found]
            if kernels:
                with funcad.config.set(engine="cuda"):
                    grouped, launched = counted(funcad.jit(program.function), data, 3)
                results.append(grouped)
            hand = None
            if program.by_hand is not None:  # written with the module `numpy`, which the device's library takes the place of
                code, scope = program.by_hand.__code__, {**program.by_hand.__globals__, "numpy": xp}
                theirs, hand = counted(FunctionType(code, scope, None, None, program.by_hand.__closure__), data, 1)
                for a, b in zip(leaves(theirs), leaves(expected), strict=True):
                    numpy.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * max(1.0, float(numpy.max(numpy.abs(b)))))
            for result in results:
                for a, b in zip(leaves(result), leaves(expected), strict=True):
                    numpy.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * max(1.0, float(numpy.max(numpy.abs(b)))))
            yield Row(program.what, before, after, launched, hand)


def table(found: list[Row]) -> str:
    """The rows in Markdown."""
    lines = ["| a warm run of | one by one | compiled | with kernels | by hand | sent, before | sent | waits, before | waits |"]
    lines.append("|---|" + "---:|" * 8)
    lines += [f"| {row.what} | {' | '.join(cells(row))} |" for row in found]
    return "\n".join(lines)


def cells(row: Row) -> list[str]:
    """The numbers of a row of the table."""
    _, before, after, kernels, hand = row
    calls = ["" if ways is None else ways["calls"] for ways in (before, after, kernels, hand)]
    return [str(n) for n in (*calls, before["copies"], after["copies"], before["waits"], after["waits"])]


if __name__ == "__main__":
    print(table(list(rows())))
