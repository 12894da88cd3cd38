"""New batch sizes: the first three calls of one, an epoch with a ragged last batch, and batches that are all of other sizes.

A step of gradient descent on the network of W2 with `mean` in its loss, float64, each library in a process of its own, which
has compiled other functions before and keeps no code on disk. Seconds are the processor's, of all threads.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from statistics import median

from benchmarks.harness import Row, Target, main, native_engine, peer

PROGRAM = """
import gc, itertools, json, sys, time
from statistics import median
import numpy
library, seed = sys.argv[1], int(sys.argv[2])
if library == "jax":
    import jax
    import jax.numpy as np
    jax.config.update("jax_enable_x64", True)
    ready = jax.block_until_ready
else:
    import funcad as jax
    import numpy as np
    jax.config.update("engine", "native" if library == "funcad" else "numpy")
    ready = lambda x: x
from benchmarks.w2_mlp import function, data

def stepper():
    loss = function(np)
    def step(params, x, y):
        value, gradient = jax.value_and_grad(loss)(params, x, y)
        return [p - 0.1 * g for p, g in zip(params, gradient)], value
    return jax.jit(step) if library != "plain" else step

params, _, _ = data(numpy.float64)
random = numpy.random.default_rng(seed)
examples, labels = random.normal(size=(4000, 64)), numpy.eye(10)[random.integers(0, 10, 4000)]

def timed(step, n):
    start = time.process_time()
    ready(step(params, examples[:n], labels[:n]))
    return time.process_time() - start

def gradient_of_jit():
    return jax.value_and_grad(jax.jit(function(np)))

def lanes_of_jit():
    loss = function(np)
    return jax.vmap(jax.jit(lambda params, x, y: loss(params, x[None], y[None])), in_axes=(None, 0, 0))

def new_size(known, sizes, made=stepper):
    '''What the first three calls of each size take over three calls of it later, after calls of the sizes that are known.'''
    step = made()
    for n in known:
        for _ in range(4):
            timed(step, n)
    found = []
    for n in sizes:
        first = sum([timed(step, n) for _ in range(3)])
        found.append(first - 3 * median([timed(step, n) for _ in range(5)]))
    return median(found)

def epoch(epochs, batch=64, total=1000):
    '''The first epochs of a new function: batches of one size and a smaller last one.'''
    step, state = stepper(), params
    start = time.process_time()
    for _ in range(epochs):
        for i in range(0, total, batch):
            state, value = step(state, examples[i : min(i + batch, total)], labels[i : min(i + batch, total)])
    ready(value)
    return time.process_time() - start

def any_sizes(batches=100):
    '''Batches of sizes from 12 to 60 as they come.'''
    step, state = stepper(), params
    sizes = random.integers(12, 61, batches)
    start = time.process_time()
    for n in sizes:
        state, value = step(state, examples[:n], labels[:n])
    ready(value)
    return time.process_time() - start

for n in (3, 1000):
    for _ in range(4):
        ready(jax.jit(lambda x: np.tanh(x) @ np.ones((n, 2)) + 1.0)(numpy.ones((4, n))))
gc.collect()
gc.freeze()  # or each collection looks at all of the library
print(json.dumps({
    "a new size among small ones (12 to 60), first three calls": new_size((32, 40, 50, 20, 25), range(33, 46, 2)),
    "a new size among large ones (150 to 250), first three calls": new_size((200, 210, 220, 180, 150), range(185, 240, 8)),
    "the same of value_and_grad(jit(loss)), small": new_size((32, 40, 50, 20, 25), range(33, 46, 2), gradient_of_jit),
    "the same of vmap(jit(loss of an example)), small": new_size((32, 40, 50, 20, 25), range(33, 46, 2), lanes_of_jit),
    "the first epoch, 15 batches of 64 and one of 40": epoch(1),
    "the first 50 epochs": epoch(50),
    "100 batches of sizes from 12 to 60": any_sizes(),
}))
"""
TARGETS = {"a new size among small ones (12 to 60), first three calls": Target("jax", 0.05, 0.05)}


def _seconds(library: str, seed: int) -> dict[str, float]:
    environment = {**os.environ, "FUNCAD_CACHE_DIR": "off", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PROGRAM, library, str(seed)]
    output = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    found: dict[str, float] = json.loads(output)
    return found


def run(rounds: int) -> list[Row]:
    libraries = ["funcad numpy", *(["funcad"] if native_engine() else []), *(["jax"] if peer("jax") else [])]
    found: dict[str, list[dict[str, float]]] = {library: [] for library in libraries}
    for seed in range(min(rounds, 5)):
        for library in libraries:
            found[library].append(_seconds(library, seed))
    return [
        Row(what, {library: median([one[what] for one in runs]) for library, runs in found.items()}, target=TARGETS.get(what))
        for what in found[libraries[0]][0]
    ]


if __name__ == "__main__":
    main(run, __doc__)
