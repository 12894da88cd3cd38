"""The tour: a small network learns to read handwritten digits, in plain NumPy and funcad's transformations.

Four stops: jit(value_and_grad(loss)) trains it; vmap(grad(loss)) gives the gradient of every single example, which finds the
labels that were made wrong on purpose; hvp, the Hessian times a vector, drives Newton's method by conjugate gradients; a plot
shows what happened. The model, between the two rules below, knows nothing of funcad.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from funcad import grad, hvp, jit, tree, value_and_grad, vmap

# -- the model: plain NumPy -------------------------------------------------------------------------------------------


def logits(params: Any, x: np.ndarray) -> np.ndarray:
    *hidden, (w, b) = params
    for v, c in hidden:
        x = np.tanh(x @ v + c)
    return x @ w + b


def loss(params: Any, x: np.ndarray, y: np.ndarray) -> Any:
    """Mean cross-entropy with weight decay; x is one image or a batch of them, y its labels as 0 and 1."""
    z = logits(params, x)
    z = z - np.max(z, axis=-1, keepdims=True)
    log_likelihood = np.sum(z * y, axis=-1) - np.log(np.sum(np.exp(z), axis=-1))
    return 1e-4 * sum(np.sum(w * w) for w, _ in params) - np.mean(log_likelihood)


def accuracy(params: Any, x: np.ndarray, labels: np.ndarray) -> float:
    return 100 * float(np.mean(np.argmax(logits(params, x), axis=-1) == labels))


# ---------------------------------------------------------------------------------------------------------------------

N_WRONG = 20
FILE = "funcad-tour.png"


def make_data(random: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Images as rows between 0 and 1 with their labels, shuffled: 4 in 5 to learn from, the others to test on."""
    images, labels = load_digits(return_X_y=True)
    order = random.permutation(len(images))
    images, labels = images[order] / 16, labels[order]
    n = len(images) * 4 // 5
    return images[:n], labels[:n], images[n:], labels[n:]


def make_params(random: np.random.Generator, *sizes: int) -> list:
    return [(random.normal(size=(m, n)) / np.sqrt(m), np.zeros(n)) for m, n in zip(sizes, sizes[1:])]


def descend(params: Any, x: np.ndarray, y: np.ndarray, epochs: int, random: np.random.Generator) -> tuple[Any, list]:
    """Minibatch gradient descent with momentum: the parameters, and the loss at every step."""
    step = jit(value_and_grad(loss))
    velocity = tree.map(np.zeros_like, params)
    losses = []
    batches = [rows for _ in range(epochs) for rows in np.array_split(random.permutation(len(x)), len(x) // 32)]
    with tqdm(batches, desc="   training", unit=" steps", leave=False, disable=None) as bar:
        for rows in bar:
            value, gradient = step(params, x[rows], y[rows])
            velocity = tree.map(lambda v, g: 0.9 * v - 0.05 * g, velocity, gradient)
            params = tree.map(np.add, params, velocity)
            losses.append(float(value))
            if len(losses) % 50 == 0:
                bar.set_postfix(loss=f"{value:.3f}")
    return params, losses


def dot(a: Any, b: Any) -> float:
    return sum(float(np.vdot(x, y)) for x, y in zip(tree.leaves(a), tree.leaves(b)))


def add(a: Any, scale: float, b: Any) -> Any:
    return tree.map(lambda x, y: x + scale * y, a, b)


def conjugate_gradients(product: Callable[[Any], Any], b: Any, steps: int) -> Any:
    """x with product(x) near b, for a symmetric product; stops where the curvature is no longer positive."""
    x, r, p = tree.map(np.zeros_like, b), b, b
    start = rr = dot(r, r)
    tolerance = min(0.1, start**0.25)  # Newton's steps become exact as the gradient vanishes
    for _ in range(steps):
        hp = product(p)
        curvature = dot(p, hp)
        if curvature <= 0:
            break
        x, r = add(x, rr / curvature, p), add(r, -rr / curvature, hp)
        rr, before = dot(r, r), rr
        if rr <= tolerance**2 * start:
            break
        p = add(r, rr / before, p)
    return x


def polish(params: Any, x: np.ndarray, y: np.ndarray, steps: int) -> tuple[Any, list, list, int]:
    """Damped Newton steps on all examples: parameters, losses, gradient norms, and the number of Hessian products."""
    value_and_gradient = jit(value_and_grad(loss))
    hessian_times = jit(lambda params, v: hvp(lambda p: loss(p, x, y), (params,), (v,)))
    value, gradient = value_and_gradient(params, x, y)
    losses, norms = [float(value)], [dot(gradient, gradient) ** 0.5]
    products, damping = 0, 0.1

    def product(v: Any) -> Any:
        nonlocal products
        products += 1
        return add(hessian_times(params, v), damping, v)

    for _ in tqdm(range(steps), desc="   polishing", unit=" Newton steps", leave=False, disable=None):
        direction = conjugate_gradients(product, gradient, 60)
        candidate = add(params, -1.0, direction)
        value, candidate_gradient = value_and_gradient(candidate, x, y)
        fulfilled = (losses[-1] - value) / (dot(direction, gradient) / 2)  # of what the quadratic model promised
        if fulfilled > 0:
            params, gradient = candidate, candidate_gradient
            losses.append(float(value))
            norms.append(dot(gradient, gradient) ** 0.5)
        damping *= 0.2 if fulfilled > 0.75 else 1 if fulfilled > 0.25 else 5
    return params, losses, norms, products


def median_ms(functions: list[Callable[[], Any]], repeats: int) -> list[float]:
    """Median milliseconds of each function, measured in turns so that a busy machine is as unfair to all."""
    seconds: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for f, found in zip(functions, seconds):
            start = time.perf_counter()
            f()
            found.append(time.perf_counter() - start)
    return [1000 * float(np.median(found)) for found in seconds]


def draw(path: str, losses: list, newton: list, norms: np.ndarray, wrong: np.ndarray, mistakes: list) -> None:
    """Loss curve, histogram of gradient norms, some of the digits that were misread."""
    blue, orange, grey = "#3465a4", "#e0732a", "#555555"
    figure = Figure(figsize=(13, 4), layout="constrained")
    curve, histogram, gallery = figure.subfigures(1, 3, width_ratios=[1.2, 1.2, 1])

    axes = curve.subplots()
    n = len(losses)
    smooth = np.convolve(losses, np.ones(25) / 25, mode="valid")
    axes.plot(np.arange(n), losses, color=blue, alpha=0.2, linewidth=0.8)
    axes.plot(np.arange(n - len(smooth), n), smooth, color=blue, label="descent, one minibatch a step")
    label = f"Newton-CG without the suspects, {len(newton) - 1} steps"
    axes.plot(n + np.linspace(0, n / 3, len(newton)), newton, ".-", color=orange, label=label)
    axes.set(yscale="log", xlabel="step", ylabel="loss", title="hvp takes over where descent slows down")
    axes.legend(frameon=False, fontsize=8)

    axes = histogram.subplots()
    bins = np.geomspace(max(norms.min(), 1e-4), norms.max(), 50)
    axes.hist(np.clip(norms[~wrong], bins[0], None), bins, color=blue, label="true labels")
    axes.hist(norms[wrong], bins, color=orange, label="labels made wrong")
    axes.set(xscale="log", yscale="log", xlabel="norm of one example's gradient", ylabel="examples")
    axes.set_title("vmap(grad) finds the wrong labels")
    axes.legend(frameon=False, fontsize=8)

    gallery.suptitle("test digits still misread" if mistakes else "no test digit was misread")
    if mistakes:
        for cell in gallery.subplots(2, 3).flat:
            cell.axis("off")
            if mistakes:
                image, label, said = mistakes.pop(0)
                cell.imshow(image.reshape(8, 8), cmap="gray_r")
                cell.set_title(f"{label}, read as {said}", fontsize=9, color=grey)
    for axes in (*curve.axes, *histogram.axes):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)


@threadpool_limits.wrap(limits=1)  # matrices as small as these are multiplied fastest by one thread
def main(arguments: list[str] | None = None) -> int:
    """Run the tour; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m funcad tour", description="A tour of funcad on handwritten digits.")
    parser.add_argument("--output", default=FILE, metavar="PATH", help=f"where the plot goes (default: {FILE})")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random numbers (default: 0)")
    parser.add_argument("--quick", action="store_true", help="fewer steps: a look rather than a fit")
    options = parser.parse_args(arguments)
    random = np.random.default_rng(options.seed)
    began = time.perf_counter()

    print(f"funcad on NumPy {np.__version__}, Python {platform.python_version()}\n")

    x, labels, x_test, labels_test = make_data(random)
    wrong = np.zeros(len(x), bool)
    wrong[random.choice(len(x), N_WRONG, replace=False)] = True
    given = np.where(wrong, (labels + random.integers(1, 10, len(x))) % 10, labels)
    y = np.eye(10)[given]
    print(f"1  Handwritten digits, 8 x 8 pixels: {len(x):,} to learn from, {len(x_test):,} to test on.")
    print(f"   {N_WRONG} of the labels to learn from are made wrong, on purpose.\n")

    params = make_params(random, 64, 48, 10)
    start = time.perf_counter()
    params, losses = descend(params, x, y, 4 if options.quick else 20, random)
    seconds = time.perf_counter() - start
    plain, jitted = value_and_grad(loss), jit(value_and_grad(loss))
    slow, fast = median_ms([lambda f=f: f(params, x[:32], y[:32]) for f in (plain, jitted)], 20 if options.quick else 100)
    before = accuracy(params, x_test, labels_test)
    print(f"2  jit(value_and_grad(loss)): {len(losses)} steps of descent in {seconds:.1f} s.")
    first, last = np.mean(losses[:20]), np.mean(losses[-20:])
    print(f"   Loss {first:.2f} at first, {last:.3f} at last; {before:.1f} % of the test digits read.")
    print(f"   One step: {fast:.2f} ms jitted, {slow:.2f} ms not: jit is {slow / fast:.1f} times as fast.\n")

    per_example = jit(vmap(grad(loss), in_axes=(None, 0, 0)))
    start = time.perf_counter()
    gradients = per_example(params, x, y)
    norms = np.sqrt(sum(np.sum(g * g, axis=tuple(range(1, g.ndim))) for g in tree.leaves(gradients)))
    seconds = time.perf_counter() - start
    suspects = np.argsort(norms)[-N_WRONG:]
    found = int(np.sum(wrong[suspects]))
    print(f"3  vmap(grad(loss)): the gradients of all {len(x):,} examples, one by one, in {seconds:.2f} s.")
    print(f"   Of the {N_WRONG} largest, {found} belong to the {N_WRONG} wrong labels. These examples are left out.\n")

    keep = np.delete(np.arange(len(x)), suspects)
    start = time.perf_counter()
    params, newton, gradient_norms, products = polish(params, x[keep], y[keep], 4 if options.quick else 15)
    seconds = time.perf_counter() - start
    after = accuracy(params, x_test, labels_test)
    print(f"4  hvp: {len(newton) - 1} Newton steps by conjugate gradients, {products} Hessian products in {seconds:.1f} s.")
    print(f"   Loss {newton[0]:.4f} before, {newton[-1]:.4f} after; {after:.1f} % of the test digits read.")
    print(f"   Norm of the gradient {gradient_norms[0]:.0e} before, {gradient_norms[-1]:.0e} after.\n")

    said = np.argmax(logits(params, x_test), axis=-1)
    missed = np.flatnonzero(said != labels_test)
    draw(options.output, losses, newton, norms, wrong, [(x_test[i], labels_test[i], said[i]) for i in missed[:6]])
    print(f"The plot is in {options.output}; the code of this tour is in {__file__}.")
    print(f"All in {time.perf_counter() - began:.1f} s.")
    return 0
