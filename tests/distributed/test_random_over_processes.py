"""500 random programs with collectives: over threads that stand for processes they are vmap on the stacked arguments."""

import numpy as np
import pytest

import funcad as fc
from funcad import lax
from tests.distributed.programs_over_processes import W, data, derivatives, expected, over_processes
from tests.distributed.random_over_processes import WRAPPERS, random_program, steps
from tests.distributed.test_spmd import N, close, threads

KINDS = list(derivatives(len))


def agrees(seed, kinds):
    program = random_program(seed, N)
    for kind in kinds:
        g = over_processes(program, kind)
        close(threads(lambda r, g=g: g(W, data(N)[r])), expected(program, kind, N), rtol=1e-7)


@pytest.mark.parametrize("seed", [*range(3), *[pytest.param(n, marks=pytest.mark.slow) for n in range(3, 30)]])
def test_random_programs(seed):
    """Each kind has its turn."""
    agrees(seed, [KINDS[(3 * seed + i) % len(KINDS)] for i in range(3)])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(500))
def test_random_programs_in_all_kinds(seed):
    agrees(seed, KINDS)


def test_they_hold_everything():
    """The programs of the default run and those of the slow one."""
    few, many = [[random_program(seed, N).__name__ for seed in range(n)] for n in (30, 500)]
    for wrapper in WRAPPERS:
        assert any(f"{wrapper}(" in name for name in few), wrapper
    for step in steps(N):
        assert sum(step in name for name in many) >= 5, step


@pytest.mark.parametrize("kind", [pytest.param(k, marks=[] if k == "vmap grad" else pytest.mark.slow) for k in KINDS])
def test_rules_whose_collectives_the_function_does_not_have(kind):
    for rule in (fc.custom_jvp, fc.custom_vjp):
        for inside in (False, True):
            program = _ruled(rule, inside)
            g = over_processes(program, kind)
            close(threads(lambda r, g=g: g(W, data(N)[r])), expected(program, kind, N), rtol=1e-9)


def _ruled(rule, inside):
    """A function with a rule in which collectives stand that the function has or has not."""
    @rule
    def f(v):
        return lax.psum(v**2, "i") if inside else v**2

    if rule is fc.custom_jvp:
        f.defjvp(lambda p, t: (f(*p), lax.psum(3.0 * p[0] * t[0], "i")))
    else:
        f.defvjp(lambda v: (f(v), v), lambda v, ct: (lax.psum(3.0 * v * ct, "i"),))
    return lambda w, x: lax.pmean(np.sum(f(np.sin(w * x))), "i")


def test_named_lanes_with_a_sum_over_processes_inside_a_mapped_gradient():
    def program(w, x):
        v = fc.vmap(lambda a: a / (1.0 + lax.psum(a**2, ("i", "j"))), axis_name="j")(w * x)
        return lax.pmean(np.sum(np.tanh(v)), "i")

    g = over_processes(program, "vmap grad")
    close(threads(lambda r: g(W, data(N)[r])), expected(program, "vmap grad", N), rtol=1e-9)
