"""numba beside doors: it is imported before, inside and after a trace, compiles there, and is called there."""

from __future__ import annotations

import pytest

from tests.forked import in_a_process

pytest.importorskip("numba")

COMMON = """
import math, threading, types
import numpy as np
import funcad

SOURCE = '''
import math, numba
import numpy as np

@numba.njit
def kernel(n, a):
    out = np.empty(n)
    table, b, zeros, full = np.array([1.0, 2.0]), np.asarray(a), np.zeros(3), np.full(2, 1.5)
    for i in range(n):
        out[i] = math.sin(i) + b[0] + table[1] + zeros[0] + full[1]
    return out

@numba.vectorize
def exponential(a):
    return math.exp(a)
'''

def module():
    made = types.ModuleType("kernels")
    exec(SOURCE, made.__dict__)
    return made

EXPECTED = np.array([math.sin(i) + 4.5 for i in range(4)])

def traced(x):
    kernels = module()
    weights = kernels.kernel(4, np.ones(2))
    return (weights * x).sum() + np.array([x, 1.0]).sum() * math.sin(x) + (kernels.exponential(np.zeros(3)) * x).sum()

def check():
    np.testing.assert_allclose(funcad.grad(traced)(0.0), EXPECTED.sum() + 1.0 + 3.0)
    np.testing.assert_allclose(funcad.jit(funcad.grad(traced))(0.0), EXPECTED.sum() + 1.0 + 3.0)
    np.testing.assert_allclose(module().kernel(4, np.ones(2)), EXPECTED)
"""
PROGRAMS = {
    "before": f"import numba\n{COMMON}\ncheck()",
    "inside": f"{COMMON}\ncheck()",
    "after": f"{COMMON}\nfuncad.grad(lambda x: np.array([x]).sum())(1.0)\nimport numba\ncheck()",
    "another thread": COMMON
    + """
found = []
def f(x):
    thread = threading.Thread(target=lambda: found.append(module().kernel(4, np.ones(2))))
    thread.start()
    thread.join()
    return np.array([x, x]).sum()
assert funcad.grad(f)(1.0) == 2.0
np.testing.assert_allclose(found[0], EXPECTED)
""",
    "compiled later": COMMON
    + """
kernel = module().kernel
kernel(4, np.ones(2))
f = funcad.grad(lambda x: (kernel(4, np.ones(2, np.float32)) * x).sum() * np.asarray(1.0))
np.testing.assert_allclose(f(1.0), EXPECTED.sum())
np.testing.assert_allclose(module().kernel(4, np.ones(2)), EXPECTED)
""",
}


@pytest.mark.parametrize("when", PROGRAMS)
def test_kernels(when):
    in_a_process(PROGRAMS[when])
