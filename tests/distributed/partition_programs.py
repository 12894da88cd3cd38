"""Functions of parameters and a partition, at the top level of a module, so that other processes find them."""

import os
import signal
import threading
import time

import numpy as np

import funcad as fc
from tests.unseen import Noted

traces = Noted()


def loss(w, part):
    x, y = part
    return np.sum((np.tanh(x @ w["a"]) * w["b"] - y) ** 2)


def _noted(w, x):
    traces.note()
    return np.sum(np.cos(x @ w))


jitted = fc.jit(_noted)


def with_traces(w, x):
    """The value, and how often this process has traced the function until now."""
    value = jitted(w, x)
    return {"value": value, "traces": np.int64(len(traces))}


def fails_at_row(w, x):
    if x[0, 0] > 100:
        raise ZeroDivisionError("mine")
    return np.sum(x @ w)


class Unpicklable(Exception):
    def __init__(self, one, two):
        super().__init__("odd")


def fails_oddly(w, x):
    raise Unpicklable(1, 2)


def kills_once(w, part):
    """Its process ends at once, without a word, the first time that somebody comes here."""
    path, x = part
    if not os.path.exists(path):
        open(path, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return np.sum(np.cos(x @ w))


def kills_always(w, x):
    os.kill(os.getpid(), signal.SIGKILL)


def notes(w, path):
    """Takes its time, and leaves a file."""
    time.sleep(0.1)
    open(path, "w").close()
    return 1.0 * w


def fails_twice(w, part):
    path, x = part
    with open(path, "a+", encoding="utf8") as log:
        log.write("x")
        log.seek(0)
        if len(log.read()) < 3:
            raise OSError("not yet")
    return np.sum(x @ w)


def end_soon():
    """This process ends, after it has answered."""
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGKILL)).start()
