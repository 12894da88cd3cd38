"""Random draws as CUDA C++, run on the CPU (tests/cuda_shim.py)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from funcad import config, jit, random, scan, vmap
from funcad.backends.cuda.cuda_loops import draw_text
from funcad.backends.plans.element_plan import Unsupported
from tests import cuda_shim, nvrtc_units
from tests.standin import registered, to_device, to_host

pytestmark = pytest.mark.skipif(not cuda_shim.available(), reason="there is no g++ to run kernels with")
DRAWS = {
    "bits of 8": lambda k: random.bits(k, (70,), np.uint8),
    "bits of 16": lambda k: random.bits(k, (7, 3), np.uint16),
    "bits of 32": lambda k: random.bits(k, (1025,), np.uint32),
    "bits of 64": lambda k: random.bits(k, (3, 5, 2)),
    "uniform": lambda k: random.uniform(k, (5001,)),
    "uniform of 32": lambda k: random.uniform(k, (5001,), np.float32),
    "normal": lambda k: random.normal(k, (50_001,)),
    "normal of 32": lambda k: random.normal(k, (50_001,), np.float32),
    "one": lambda k: random.normal(k),
    "none": lambda k: random.normal(k, (0, 3)),
    "keys": lambda k: random.split(k, 7),
    "lanes": lambda k: vmap(lambda q: random.normal(q, (9,)))(random.split(k, 11)),
    "keys that are columns": lambda k: vmap(lambda q: random.uniform(q, (3,)), in_axes=1)(random.split(k, 5).T[::-1]),
    "integers": lambda k: random.randint(k, (100,), -3, 17),
    "in a loop": lambda k: scan(lambda c, q: (c + random.normal(q, (4,)), random.uniform(q)), np.zeros(4), random.split(k, 6)),
}


@pytest.fixture(autouse=True)
def device() -> Iterator[None]:
    with registered(), config.set(engine="cuda"):
        yield


@pytest.mark.share(6)
@pytest.mark.parametrize("name", DRAWS)
def test_numpys_numbers(name: str) -> None:
    f = DRAWS[name]
    g = jit(f)
    for seed in (0, 3, 2**40 + 1):
        key = random.key(seed)
        expected = f(key)
        for _ in range(2):
            found = g(to_device(key))
            for x, y in zip(*[a if isinstance(a, (tuple, list)) else (a,) for a in (found, expected)], strict=True):
                x, y = to_host(x), np.asarray(y)
                assert (x.dtype, x.shape) == (y.dtype, y.shape)
                if "normal" not in name and name not in ("one", "lanes", "in a loop"):
                    np.testing.assert_array_equal(x, y)
                else:  # the logarithm is another one
                    np.testing.assert_allclose(x, y, rtol=0, atol=8 * np.finfo(y.dtype).eps)


def test_a_draw_is_one_kernel() -> None:
    g, key = jit(lambda k: random.normal(k, (1000,))), to_device(random.key(0))
    assert "kernels: 1 starts a run" in str(g.explain(key)) and "alone" not in str(g.explain(key))


def test_what_has_no_kernel_runs_as_lines() -> None:
    g, key = jit(lambda k: random.normal(k, (40,), np.float16)), random.key(1)
    for _ in range(3):
        np.testing.assert_array_equal(to_host(g(to_device(key))), random.normal(key, (40,), np.float16))
    assert "draws of float16" in str(g.explain(to_device(key)))
    with pytest.raises(Unsupported, match="float16"):
        draw_text("unit", np.dtype(np.float16))


@pytest.mark.nvrtc
@pytest.mark.skipif(not nvrtc_units.available(), reason="NVRTC is not installed")
@pytest.mark.parametrize("architecture", nvrtc_units.ARCHITECTURES)
def test_nothing_spills(architecture: str) -> None:
    kinds = zip(("bits", "bits", "unit", "unit", "normal", "normal", "keys"), "BLfdfdI")
    texts = [draw_text(kind, np.dtype(char)) for kind, char in kinds]
    for kernels in nvrtc_units.facts_of_all(texts, architecture).values():
        assert not any([facts.spills for facts in kernels.values()])
