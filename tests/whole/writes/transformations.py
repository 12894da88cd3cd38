"""What every program must be under every transformation: NumPy's values, NumPy's arguments afterwards, NumPy's slopes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import funcad
from tests.whole.writes.program import Program
from tests.whole.writes.reference import LANES, Reference, direction, lane, leaves, reference, scalar, seen

__all__ = ["TRANSFORMATIONS", "ABSTRACT"]

TRANSFORMATIONS: dict[str, Callable[[Program], None]] = {}
ABSTRACT: set[str] = set()  # those that trace without values
COPYING, GIVEN = True, False  # whether the program writes into copies that the caller made, or into what it was given


def _transformation(abstract: bool) -> Callable[[Callable], Callable]:
    def register(check: Callable[[Program], None]) -> Callable[[Program], None]:
        name = check.__name__.strip("_")
        TRANSFORMATIONS[name] = check
        if abstract:
            ABSTRACT.add(name)
        return check

    return register


# ---------------------------------------------------------------- comparisons


def _equal(found: Any, expected: Any, what: str, rtol: float) -> None:
    assert np.shape(found) == np.shape(expected), f"{what}: shape {np.shape(found)}, NumPy's is {np.shape(expected)}"
    kinds = np.result_type(found), np.result_type(expected)
    assert kinds[0] == kinds[1], f"{what}: dtype {kinds[0]}, NumPy's is {kinds[1]}"
    size = float(np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected)))
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * size, err_msg=what)


def _same_values(found: Sequence[Any], expected: Sequence[Any], what: str, single: bool = False) -> None:
    assert len(found) == len(expected), what
    for i, (a, b) in enumerate(zip(found, expected)):
        _equal(a, b, f"{what}, number {i} of results and arguments", 1e-5 if single else 1e-9)


def _same_slopes(found: Sequence[Any], expected: Sequence[Any], program: Program, what: str) -> None:
    for i, (a, b) in enumerate(zip(found, expected)):
        if b is not None:
            size = float(np.max(np.abs(b), initial=1e-2))
            rtol = 2e-3 if program.single else 1e-6
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * size, err_msg=f"{what}, number {i}")


def _same_slope(gradients: Sequence[Any], point: Reference, copying: bool, what: str) -> None:
    """Gradients (one for each floating argument) along the reference's direction."""
    assert [np.shape(g) for g in gradients] == [np.shape(v) for v in point.along()], what
    found = sum([float(np.real(np.sum(g * v))) for g, v in zip(gradients, point.along())])
    size = sum([float(np.sum(np.abs(g * v))) for g, v in zip(gradients, point.along())])
    rtol = 2e-3 if point.program.single else 1e-7
    expected = point.slope(copying)
    assert abs(found - expected) <= rtol * max(size, abs(expected), 1e-2), f"{what}: {found}, by differences {expected}"


def _unchanged(arrays: Sequence[np.ndarray], program: Program, k: int = 0) -> None:
    for i, (x, y) in enumerate(zip(arrays, lane(program, k))):
        assert x.tobytes() == y.tobytes(), f"the transformation wrote into argument {i} of its caller"


# ---------------------------------------------------------------- arguments


def _layouts(x: np.ndarray) -> list[np.ndarray]:
    """The same numbers in C order, in Fortran's, with gaps, and backwards."""
    if not x.ndim:
        return [x.copy()] * 4
    wide = np.zeros([2 * n for n in x.shape], x.dtype)
    gaps = wide[tuple([slice(None, None, 2)] * x.ndim)]
    gaps[...] = x
    return [np.array(x, order="C"), np.array(x, order="F"), gaps, np.flip(np.flip(x).copy())]


def _stacked(program: Program) -> list[np.ndarray]:
    """The lanes' arguments in one array each, where a lane lies as the argument does."""
    stacked = []
    for xs in zip(*[lane(program, k) for k in range(LANES)]):
        swapped = xs[0].flags.f_contiguous and not xs[0].flags.c_contiguous
        stacked.append(np.stack([x.T for x in xs]).transpose(0, *range(xs[0].ndim, 0, -1)) if swapped else np.stack(xs))
    return stacked


def _losses(program: Program, copying: bool, wrapped: Callable = lambda f: f) -> Callable[..., Any]:
    return scalar(seen(program, copying, wrapped))


def _grad(loss: Callable, program: Program) -> Callable[..., tuple]:
    return funcad.grad(loss, argnums=tuple(program.floating))


# ---------------------------------------------------------------- values


@_transformation(abstract=False)
def jit(program: Program) -> None:
    """Values, and the caller's arrays afterwards; all layouts through one function; an argument that is returned is itself."""
    compiled = funcad.jit(program.call)
    for k in (0, 0, 1):
        for i in range(4):
            arrays = [_layouts(x)[i] for x in lane(program, k)]
            plain = [_layouts(x)[i] for x in lane(program, k)]
            expected = program.call(*plain)
            found = compiled(*arrays)
            _same_values([*leaves(found), *arrays], [*leaves(expected), *plain], f"call {k}, layout {i}", program.single)
            for a, b in zip(leaves(found), leaves(expected)):
                for given, own in zip(arrays, plain):
                    assert (a is given) == (b is own), "an argument is returned as another object"


@_transformation(abstract=False)
def jit_of_a_caller(program: Program) -> None:
    """A jitted function that copies its arguments and has the copies written into."""
    compiled = funcad.jit(seen(program, COPYING))
    for k in (0, 1):
        arrays = lane(program, k)
        _same_values(compiled(*arrays), reference(program.name, k).values(COPYING), f"call {k}", program.single)
        _unchanged(arrays, program, k)


@_transformation(abstract=False)
def vmap(program: Program) -> None:
    for copying in (COPYING, GIVEN):
        stacked = _stacked(program)
        found = funcad.vmap(seen(program, copying))(*stacked)
        for k in range(LANES):
            expected = reference(program.name, k).values(copying)
            _same_values([y[k] for y in found], expected, f"lane {k}, copying {copying}", program.single)
        for i, x in enumerate(stacked):
            assert x.tobytes() == _stacked(program)[i].tobytes(), f"vmap wrote into argument {i} of its caller"


@_transformation(abstract=True)
def jit_vmap(program: Program) -> None:
    compiled = funcad.jit(funcad.vmap(seen(program, COPYING)))
    inside = funcad.vmap(seen(program, COPYING, funcad.jit))
    for mapped in (compiled, inside):
        found = mapped(*_stacked(program))
        for k in range(LANES):
            expected = reference(program.name, k).values(COPYING)
            _same_values([y[k] for y in found], expected, f"lane {k}", program.single)


@_transformation(abstract=True)
def scan(program: Program) -> None:
    run = seen(program, COPYING)
    _, found = funcad.scan(lambda carry, xs: (carry, run(*xs)), 0.0, tuple(_stacked(program)))
    for k in range(LANES):
        expected = reference(program.name, k).values(COPYING)
        _same_values([y[k] for y in found], expected, f"turn {k}", program.single)


# ---------------------------------------------------------------- slopes


@_transformation(abstract=False)
def grad(program: Program) -> None:
    for copying in (COPYING, GIVEN):
        arrays = lane(program, 0)
        value, gradients = funcad.value_and_grad(_losses(program, copying), argnums=tuple(program.floating))(*arrays)
        point = reference(program.name)
        _equal(value, scalar(lambda: point.values(copying))(), "value", 1e-5 if program.single else 1e-9)  # noqa: B023
        _same_slope(gradients, point, copying, f"copying {copying}")
        _unchanged(arrays, program)


@_transformation(abstract=False)
def jvp(program: Program) -> None:
    """Of all that can be seen, not of one number."""
    for copying in (COPYING, GIVEN):
        point = reference(program.name)
        arrays = lane(program, 0)
        rest = {i: x for i, x in enumerate(arrays) if i not in program.floating}

        whole = seen(program, copying)

        def run(*floating: Any, whole=whole, rest=rest) -> list[Any]:
            left = iter(floating)
            return whole(*[np.array(rest[i]) if i in rest else next(left) for i in range(len(program.arrays))])

        primals = tuple([arrays[i] for i in program.floating])
        values, tangents = funcad.jvp(run, primals, tuple(point.along()))
        _same_values(values, point.values(copying), f"values, copying {copying}", program.single)
        _same_slopes(tangents, point.slopes(copying), program, f"tangents, copying {copying}")
        _unchanged(arrays, program)


@_transformation(abstract=False)
def jit_grad(program: Program) -> None:
    for copying in (COPYING, GIVEN):
        compiled = funcad.jit(_grad(_losses(program, copying), program))
        for k in (0, 1):
            arrays = lane(program, k)
            _same_slope(compiled(*arrays), reference(program.name, k), copying, f"call {k}, copying {copying}")
            _unchanged(arrays, program, k)


@_transformation(abstract=False)
def grad_jit(program: Program) -> None:
    """The kernel is compiled, its caller is differentiated: writes come out of the compiled program."""
    for copying in (COPYING, GIVEN):
        gradient = _grad(_losses(program, copying, funcad.jit), program)
        for k in (0, 1):
            _same_slope(gradient(*lane(program, k)), reference(program.name, k), copying, f"call {k}, copying {copying}")


def _same_slopes_of_lanes(program: Program, wrapped: Callable[[Callable], Callable]) -> None:
    found = wrapped(funcad.vmap(_grad(_losses(program, GIVEN), program)))(*_stacked(program))
    for k in range(LANES):
        _same_slope([g[k] for g in found], reference(program.name, k), GIVEN, f"lane {k}")


@_transformation(abstract=False)
def vmap_grad(program: Program) -> None:
    _same_slopes_of_lanes(program, lambda f: f)


@_transformation(abstract=True)
def jit_vmap_grad(program: Program) -> None:
    _same_slopes_of_lanes(program, funcad.jit)


@_transformation(abstract=True)
def grad_scan(program: Program) -> None:
    """The gradient of a loop whose body is the program."""
    loss = _losses(program, COPYING)
    fixed = {i: x for i, x in enumerate(_stacked(program)) if i not in program.floating}

    def total(*floating: Any) -> Any:
        left = iter(floating)
        xs = tuple([fixed[i] if i in fixed else next(left) for i in range(len(program.arrays))])
        return funcad.scan(lambda carry, x: (carry + loss(*x), None), 0.0, xs)[0]

    stacked = [x for i, x in enumerate(_stacked(program)) if i not in fixed]
    found = funcad.grad(total, argnums=tuple(range(len(stacked))))(*stacked)
    for k in range(LANES):
        _same_slope([g[k] for g in found], reference(program.name, k), COPYING, f"turn {k}")


@_transformation(abstract=True)
def checkpoint(program: Program) -> None:
    gradient = _grad(funcad.checkpoint(_losses(program, COPYING)), program)
    _same_slope(gradient(*lane(program, 0)), reference(program.name), COPYING, "checkpoint")


# ---------------------------------------------------------------- second order


def _curvature(program: Program, gradient_of: Callable, forward: bool) -> None:
    point = reference(program.name)
    arrays = lane(program, 0)
    floating = [arrays[i] for i in program.floating]
    along, across = direction(floating), direction(floating, seed=1)
    whole, active = _losses(program, GIVEN), program.floating

    def loss(*xs: Any) -> Any:
        left = iter(xs)
        return whole(*[next(left) if i in active else np.array(x) for i, x in enumerate(arrays)])

    def slope(*xs: Any) -> Any:
        gradients = funcad.grad(loss, argnums=tuple(range(len(floating))))(*xs)
        return sum([np.real(np.sum(g * v)) for g, v in zip(gradients, along)])

    if forward:
        found = gradient_of(lambda *xs: funcad.jvp(slope, xs, tuple(across))[1])(*floating)
    else:
        gradients = gradient_of(funcad.grad(slope, argnums=tuple(range(len(floating)))))(*floating)
        found = sum([float(np.real(np.sum(g * v))) for g, v in zip(gradients, across)])
    expected = point.curvature(GIVEN)
    scale = max(abs(expected), abs(point.slope(GIVEN)), 1e-1)
    assert abs(found - expected) <= (5e-2 if program.single else 2e-5) * scale, f"{found}, by differences {expected}"


@_transformation(abstract=False)
def grad_grad(program: Program) -> None:
    _curvature(program, lambda f: f, forward=False)


@_transformation(abstract=False)
def jvp_grad(program: Program) -> None:
    _curvature(program, lambda f: f, forward=True)


@_transformation(abstract=False)
def jit_grad_grad(program: Program) -> None:
    _curvature(program, funcad.jit, forward=False)


@_transformation(abstract=False)
def hessian(program: Program) -> None:
    """In the first floating argument alone; a symmetric matrix, and along two directions what differences say."""
    arrays = lane(program, 0)
    first = program.floating[0]

    whole = _losses(program, GIVEN)

    def loss(x: Any) -> Any:
        return whole(*[x if i == first else np.array(y) for i, y in enumerate(arrays)])

    n = arrays[first].size
    found = np.reshape(funcad.hessian(loss)(arrays[first]), (n, n))
    np.testing.assert_allclose(found, found.T, rtol=1e-7, atol=1e-7 * float(np.max(np.abs(found), initial=1.0)))
    point = reference(program.name)
    along, across = point.along()[0], point.across()[0]
    value = float(along.reshape(-1) @ found @ across.reshape(-1))
    expected = point.curvature(GIVEN, first=True)
    size = float(np.abs(along).reshape(-1) @ np.abs(found) @ np.abs(across).reshape(-1))
    assert abs(value - expected) <= (5e-2 if program.single else 2e-5) * max(size, abs(expected), 0.1), f"{value}, {expected}"
