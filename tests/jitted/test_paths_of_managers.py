"""Errors that end at a `with` block, as those of `contextlib.suppress`, under jit."""

from __future__ import annotations

import contextlib
import threading
from contextlib import suppress as quietly

import numpy as np
import pytest

from funcad import grad, jit

GOOD = np.array([[2.0, 0.5], [0.5, 1.0]])
SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])
LinAlgError = np.linalg.LinAlgError
lock = threading.Lock()


@contextlib.contextmanager
def forgiving():
    try:
        yield
    except LinAlgError:
        pass


class Forgiving:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        return kind is not None and issubclass(kind, LinAlgError)


def module(x):
    with contextlib.suppress(LinAlgError):
        return np.linalg.inv(x)
    return -x


def alias(x):
    y = x * 3
    with quietly(
        LinAlgError,
    ):
        y = np.linalg.inv(x)
    return y


def variable(x):
    manager = quietly(LinAlgError)
    with manager:
        x = np.linalg.inv(x)
    return x * 2


def second(x):
    with lock, quietly(ValueError, LinAlgError):
        return np.linalg.inv(x)
    return x + 1


def first(x):
    with quietly(LinAlgError) as _, lock:
        return np.linalg.inv(x)
    return x + 1


def generator(x):
    with forgiving():
        return np.linalg.inv(x)
    return x + 2


def own(x):
    with Forgiving() as _, np.errstate(all="ignore"):
        x = np.linalg.inv(x)
    return x + 2


def stack(x):
    with contextlib.ExitStack() as s:
        s.enter_context(quietly(LinAlgError))
        x = np.linalg.inv(x)
    return x + 2


def called(x):
    return module(x) * 2


@pytest.mark.share(3)
@pytest.mark.parametrize("f", [module, alias, variable, second, first, generator, own, stack, called])
def test_an_error_that_a_with_block_ends_ends_there(f):
    j = jit(f)
    for x in (GOOD, SINGULAR, 2 * GOOD, SINGULAR, GOOD):
        np.testing.assert_allclose(j(x), f(x))
        np.testing.assert_allclose(jit(grad(lambda x: np.sum(f(x))))(x), grad(lambda x: np.sum(f(x)))(x))


def test_a_block_that_ends_no_error_passes_it_on():
    def f(x):
        with lock, np.errstate(all="ignore"):
            return np.linalg.inv(x)

    j = jit(f)
    np.testing.assert_allclose(j(GOOD), f(GOOD))
    with pytest.raises(LinAlgError):
        j(SINGULAR)
    np.testing.assert_allclose(j(GOOD), f(GOOD))
    assert not lock.locked()
