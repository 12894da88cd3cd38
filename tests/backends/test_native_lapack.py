"""Matrices that native programs hand to SciPy's LAPACK: values, what it refuses, its threads, and what is kept on disk."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any

import numpy as np
import pytest

from tests.forked import in_a_process

pytest.importorskip("llvmlite")
pytest.importorskip("scipy.linalg.cython_lapack")

import funcad
from funcad.backends.native import lapack, target
from funcad.backends.native.program import compile_program, program_text
from funcad.backends.plans.element_plan import Unsupported
from funcad.passes.pipeline import optimize
from funcad.primitives.linear_systems import pivot_permutation, triangular_inverse
from funcad.scipy.linalg import cho_factor, cho_solve, lu, lu_factor, lu_solve, solve_triangular
from tests.backends.test_native_matrices import check, normal, positive

if not target.available():
    pytest.skip(f"no native engine: {target.why_not()}", allow_module_level=True)

FLOAT64 = np.dtype(np.float64)
try:
    lapack.lapack_table(FLOAT64)
except Unsupported as reason:
    pytest.skip(str(reason), allow_module_level=True)


@pytest.mark.parametrize("shape", [(17, 17), (50, 50), (2, 33, 33), (9, 65, 65), (2, 5, 65, 65)], ids=str)
def test_values(shape: tuple[int, ...]) -> None:
    n = shape[-1]
    a, b = normal(*shape) + 2 * np.eye(n), normal(*shape[:-1], 3)
    for given in (b, b[..., :1], b[..., ::-1], b.astype(np.float32)):
        check(np.linalg.solve, a.astype(given.dtype), given)
    check(lambda a, b: np.linalg.solve(np.swapaxes(a, -1, -2), b), a, b)
    for f in (np.linalg.inv, np.linalg.det, np.linalg.slogdet):
        check(f, a / n + np.eye(n))
    check(np.linalg.cholesky, positive(*shape))
    check(np.linalg.cholesky, positive(*shape, dtype=np.float32))
    for lower in (True, False):
        check(lambda a: triangular_inverse(a, lower=lower), a / n + np.eye(n))  # noqa: B023
        check(lambda a: triangular_inverse(a, lower=lower), (a / n + np.eye(n)).astype(np.float32))  # noqa: B023


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("lower", [True, False])
def test_triangles(lower: bool, transposed: int, unit: bool) -> None:
    for shape in ((20, 20), (3, 20, 20)):
        a, b = normal(*shape) / 20 + np.eye(20), normal(*shape[:-1], 4)
        for given in (b, b[..., :1], b.astype(np.float32)):
            f = lambda a, b: solve_triangular(a, b, lower=lower, trans=transposed, unit_diagonal=unit)
            check(f, a.astype(given.dtype), given)


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (40, 40), (5, 40), (40, 5), (2, 3, 6, 4)], ids=str)
def test_lu(shape: tuple[int, ...]) -> None:
    a = normal(*shape)
    check(lu, a)
    check(lu, a.astype(np.float32))
    check(lambda a: lu(a, permute_l=True), a[..., ::-1, :])
    if shape[-1] == shape[-2]:
        check(lu_factor, a)
        for trans in (0, 1):
            check(lambda a, b: lu_solve(lu_factor(a), b, trans=trans), a, normal(*shape[:-1], 2))  # noqa: B023
        check(funcad.grad(lambda a: np.sum(np.sin(lu(a)[2]))), a)


def test_derivatives_with_factors_that_are_kept() -> None:
    a, b, s = normal(40, 40) + 9 * np.eye(40), normal(40, 2), positive(40, 40)
    for k in (1, 2):
        check(funcad.grad(lambda a, b: np.sum(np.sin(np.linalg.solve(a, b))), argnums=(0, 1)), a, b[:, :k])
    check(funcad.jacfwd(lambda t: np.linalg.solve(a + t, b)), 0.5)
    check(funcad.grad(lambda s: np.sum(np.sin(np.linalg.cholesky(s)))), s)
    check(funcad.grad(lambda s: np.sum(cho_solve(cho_factor(s), b))), s)
    check(funcad.vmap(lambda b: np.linalg.solve(a, b)), normal(3, 40))


def test_inside_loops() -> None:
    a, b = positive(4, 30, 30), normal(4, 30)

    def filtered(a: Any, b: Any) -> Any:
        def step(p: Any, given: Any) -> Any:
            a, b = given
            p = np.linalg.solve(a + p, a) + np.outer(b, b) / 30
            return p, np.linalg.slogdet(p + np.eye(30))[1]

        last, each = funcad.scan(step, np.eye(30), (a, b))
        return np.sum(last) + np.sum(each)

    check(filtered, a, b)
    check(funcad.grad(filtered, argnums=(0, 1)), a, b)


def test_what_it_refuses() -> None:
    """At the first call and at later ones, and the next matrix is worked on."""
    singular = np.eye(50)
    singular[20] = singular[10]
    b = np.ones(50)
    for f, a in (
        (np.linalg.inv, singular),
        (lambda a: np.linalg.solve(a, b), singular),
        (np.linalg.cholesky, -np.eye(50)),
        (np.linalg.cholesky, np.stack([np.eye(70), singular[0, 0] * np.eye(70) - 2 * np.eye(70)])),
        (lambda a: solve_triangular(a, b), singular * 0.0),
    ):
        with funcad.config.set(engine="native"):
            g = funcad.jit(f)
            right = g(np.broadcast_to(np.eye(a.shape[-1]), a.shape) * 1.0)
            for _ in range(4):
                with pytest.raises(np.linalg.LinAlgError):
                    g(a)
            np.testing.assert_array_equal(g(np.broadcast_to(np.eye(a.shape[-1]), a.shape) * 1.0), right)
    check(np.linalg.slogdet, singular)
    check(np.linalg.det, singular)
    check(lambda a: triangular_inverse(a, lower=False), singular * (np.arange(50) < 49))


def test_no_address_is_in_the_code() -> None:
    """What is kept on disk is made of the text, and the text is that of any process."""
    jaxpr = optimize(funcad.jit(np.linalg.cholesky).lower(np.eye(50)).jaxpr)
    (words, _), place = lapack.lapack_table(FLOAT64)
    text = program_text(jaxpr)
    assert not any(str(address) in text for address in (place, *words.tolist()) if address > 10**6)


def test_another_signature_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    module, parameters = lapack._ROUTINES["potrf"]
    monkeypatch.setitem(lapack._ROUTINES, "potrf", (module, ("char *", "long *", *parameters[2:])))
    with pytest.raises(Unsupported, match="signature"):
        lapack._routine("potrf", "d")
    monkeypatch.setitem(lapack._ROUTINES, "potrf", ("cython_nothing", parameters))
    with pytest.raises(Unsupported, match="hand out"):
        lapack._routine("potrf", "d")


# -- threads


def _blas_threads() -> tuple[Any, Any]:
    get, set_ = lapack._threads().functions
    if not get:
        pytest.skip("this BLAS does not tell how many threads it has")
    return ctypes.CFUNCTYPE(ctypes.c_int)(get), ctypes.CFUNCTYPE(None, ctypes.c_int)(set_)


def test_one_thread_while_a_routine_runs() -> None:
    """The count inside, nested, and that the number of threads before comes back with the last caller."""
    get, set_ = _blas_threads()
    before = get()
    (words, shared), place = lapack.lapack_table(FLOAT64)
    alone = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(shared.code.address["alone"])
    try:
        set_(2)
        several = get()  # 1, if it was built without threads
        alone(place, 1)
        alone(place, 1)
        assert get() == 1 and shared.words.tolist()[:2] == [0, 2]
        alone(place, 0)
        assert get() == 1
        alone(place, 0)
        assert get() == several and shared.words.tolist()[:2] == [0, 0]
    finally:
        set_(before)


def test_threads_of_python() -> None:
    """Many programs at once: right results, and BLAS has its threads again."""
    get, set_ = _blas_threads()
    before = get()
    a = positive(120, 120)
    program = compile_program(optimize(funcad.jit(np.linalg.cholesky).lower(a).jaxpr))
    right, wrong = program([a])[0], []

    def work() -> None:
        for _ in range(40):
            if not np.array_equal(program([a])[0], right):
                wrong.append(1)

    try:
        set_(2)
        several = get()
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not wrong and get() == several
    finally:
        set_(before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_after_a_fork() -> None:
    """A child that was made while a caller was inside of BLAS: nobody is, there."""
    text = """
import os, sys
import numpy as np, funcad
from funcad.backends.native import lapack
from funcad.backends.native.program import compile_program
from funcad.passes.pipeline import optimize
a = np.eye(60) * 4.0
program = compile_program(optimize(funcad.jit(np.linalg.cholesky).lower(a).jaxpr))
program([a])
lapack._threads().words[:2] = 1
child = os.fork()
if not child:
    os._exit(0 if np.array_equal(program([a])[0], np.eye(60) * 2.0) else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    in_a_process(text)


def test_pivots_that_are_no_rows() -> None:
    """As NumPy: negative ones count from the end, and beyond the last row there is none."""
    order = lambda pivots: pivot_permutation(pivots)
    check(order, np.array([[2, 1, 2], [0, 2, 2]], np.int32))
    check(order, np.array([-1, 1, 2], np.int32))
    program = compile_program(optimize(funcad.jit(order).lower(np.zeros(3, np.int32)).jaxpr))
    with pytest.raises(IndexError):
        program([np.array([0, 3, 2], np.int32)])
