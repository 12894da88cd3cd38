"""A workload: one function, a transform of it, its data, and the same for each library that can do it.

Idea: a workload says what to compute once, `function(np)`, and each library gets it through its own NumPy and its own
transforms; torch, numexpr, numba and NumPy by hand get a version of their own where there is one. Before anything is
measured, every candidate's result is compared with funcad's. Traps: torch's and JAX's first calls compile; JAX's calls return
before the work is done; both are waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

import funcad
from benchmarks.harness import ENGINES, Row, Target, measure, native_engine, peer, using_engine

__all__ = ["Workload", "rows"]


class Workload(NamedTuple):
    """What to compute, how each library does it, and the target."""

    what: str
    function: Callable[[Any], Callable[..., Any]]
    data: Callable[[Any], tuple]
    transform: str = "value"  # value, grad, value_and_grad, hvp, hessian, vmap_grad
    target: Target | None = None
    torch: Callable[[Any], Callable[..., Any]] | None = None  # the function, written with torch
    by_hand: Callable[..., Any] | None = None  # NumPy, derivative included
    others: dict[str, Callable[[Any], Callable[..., Any]]] = {}  # peer -> module -> function, derivative included
    jitted: bool = True
    tolerance: float = 1.0


def _hvp(grad: Any, library: Any, f: Any) -> Any:
    return lambda x, v, *rest: library.jvp(lambda y: grad(f)(y, *rest), (x,), (v,))[1]


TRANSFORMS: dict[str, Callable[[Any, Any], Any]] = {
    "value": lambda library, f: f,
    "grad": lambda library, f: library.grad(f),
    "value_and_grad": lambda library, f: library.value_and_grad(f),
    "hvp": lambda library, f: _hvp(library.grad, library, f),
    "hessian": lambda library, f: library.hessian(f),
    "vmap_grad": lambda library, f: library.vmap(library.grad(f)),
}


def _autograd(autograd: Any, workload: Workload) -> Any:
    import autograd.numpy as anp

    f = workload.function(anp)
    if workload.transform == "hvp":
        return lambda x, v, *rest: autograd.make_jvp(lambda y: autograd.grad(f)(y, *rest))(x)(v)[1]
    if workload.transform == "vmap_grad":  # the batch as one array: autograd has no vmap
        return autograd.elementwise_grad(f)
    return TRANSFORMS[workload.transform](autograd, f)


def _torch(torch: Any, f: Any, transform: str) -> Any:
    """The transform by torch.func, or by its tape where that is what its users write."""
    if transform == "value":
        return f
    if transform in ("grad", "value_and_grad"):

        def tape(x: Any, *rest: Any) -> Any:
            leaves = [p.detach().requires_grad_() for p in x] if isinstance(x, (tuple, list)) else [x.detach().requires_grad_()]
            value = f(type(x)(leaves) if isinstance(x, (tuple, list)) else leaves[0], *rest)
            grads = torch.autograd.grad(value, leaves)
            grads = tuple(grads) if isinstance(x, (tuple, list)) else grads[0]
            return (value.detach(), grads) if transform == "value_and_grad" else grads

        return tape
    func = torch.func
    if transform == "hvp":
        return lambda x, v, *rest: func.jvp(lambda y: func.grad(f)(y, *rest), (x,), (v,))[1]
    return func.hessian(f) if transform == "hessian" else func.vmap(func.grad(f))


def _map(g: Callable[[Any], Any], tree: Any) -> Any:
    return type(tree)(_map(g, t) for t in tree) if isinstance(tree, (tuple, list)) else g(tree)


def _leaves(tree: Any) -> list[Any]:
    return [leaf for t in tree for leaf in _leaves(t)] if isinstance(tree, (tuple, list)) else [tree]


def candidates(workload: Workload, dtype: Any, compiled_torch: bool) -> dict[str, Callable[[], Any]]:
    """Calls without arguments, by library."""
    arguments = workload.data(dtype)
    found: dict[str, Callable[[], Any]] = {}
    ours = TRANSFORMS[workload.transform](funcad, workload.function(numpy))
    for engine in ENGINES if workload.jitted else ENGINES[:1]:
        if engine == "native" and not native_engine():
            continue
        name = {"native": "funcad", "numpy": "funcad numpy"}[engine] if workload.jitted else "funcad"
        call = funcad.jit(ours) if workload.jitted else ours
        found[name] = using_engine(engine, lambda call=call: call(*arguments))
    if workload.by_hand is not None:
        found["numpy"] = lambda: workload.by_hand(*arguments)
    autograd = peer("autograd")
    if autograd and dtype == numpy.float64:
        theirs = _autograd(autograd, workload)
        found["autograd"] = lambda: theirs(*arguments)
    jax = peer("jax")
    if jax:
        f = TRANSFORMS[workload.transform](jax, workload.function(jax.numpy))
        f = jax.jit(f) if workload.jitted else f
        on_device = _map(jax.numpy.asarray, arguments)
        found["jax"] = lambda: jax.block_until_ready(f(*on_device))
    torch = peer("torch")
    if torch and workload.torch is not None:
        tensors = _map(lambda a: torch.from_numpy(numpy.array(a)), arguments)
        eager = _torch(torch, workload.torch(torch), workload.transform)
        found["torch"] = lambda: eager(*tensors)
        if compiled_torch and workload.jitted and workload.transform in ("value", "grad", "value_and_grad"):
            inner = _torch(torch, torch.compile(workload.torch(torch)), workload.transform)
            found["torch.compile"] = lambda: inner(*tensors)
    for name, make in workload.others.items():
        module = peer(name)
        if module:
            g = make(module)
            found[name] = lambda g=g: g(*arguments)
    _check(found, dtype, workload)
    return found


def _check(found: dict[str, Callable[[], Any]], dtype: Any, workload: Workload) -> None:
    """All results equal, but for rounding."""
    name = next(iter(found))
    expected = [numpy.asarray(x) for x in _leaves(found[name]())]
    tolerance = (1e-8 if dtype == numpy.float64 else 2e-3) * workload.tolerance
    for other, call in found.items():
        results = [numpy.asarray(x) for x in _leaves(call())]
        assert len(results) == len(expected), f"{workload.what}: {other} gives {len(results)} results, {name} {len(expected)}"
        for a, b in zip(results, expected):
            scale = float(numpy.max(numpy.abs(b), initial=1e-30))
            numpy.testing.assert_allclose(a, b, rtol=0, atol=tolerance * scale, err_msg=f"{workload.what}: {other}")


def rows(workloads: list[Workload], rounds: int, compiled_torch: bool = True) -> list[Row]:
    """One row per workload and precision."""
    result = []
    for workload in workloads:
        for dtype in (numpy.float64, numpy.float32):
            if dtype == numpy.float32 and not workload.jitted:
                continue
            what = f"{workload.what}, {numpy.dtype(dtype).name}" if workload.jitted else workload.what
            row = measure(what, candidates(workload, dtype, compiled_torch), rounds)
            result.append(row._replace(target=workload.target))
    return result
