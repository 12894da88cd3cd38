"""What stands for a GPU in tests of kernels, tests/cuda_shim.py: what it computes, and which bugs it sees.

CUDA's own exp, log and sin are not executed by it, the C library's are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from funcad.backends.cuda.elements import PRELUDE
from tests import cuda_shim
from tests.cuda_shim import Module, compiled
from tests.standin import to_device, to_host

pytestmark = pytest.mark.skipif(not cuda_shim.available(), reason="there is no g++ to run kernels with")
HEAD = 'extern "C" __global__ void __launch_bounds__(256) kernel(const float* in, float* out, const long long n) {\n'
PARTS = {"S": "__shared__ float held[256];", "D": "extern __shared__ float held[];", "T": "const int t = threadIdx.x;"}

class Case(NamedTuple):
    """A launch, and what it gives of 0.0, 1.0, ... 63.0, or what is said of it."""

    body: str  # "S", "D" and "T" stand for static and dynamic memory and the number of the thread
    expected: Any
    threads: int = 64
    blocks: tuple = (1,)
    dynamic: int = 0


LANE, FIRST = np.arange(64) % 32, np.arange(64) // 32 * 32
WRITTEN = "S T for (int k = 0; k < 3; k++) { if (t == k) held[0] = in[k]; __syncthreads(); s += held[0]; __syncthreads(); }"
RIGHT = {
    "a barrier": Case("S T held[t] = in[t]; __syncthreads(); out[t] = held[n - 1 - t];", lambda x: x[::-1]),
    "a barrier of a warp": Case("S T held[t] = in[t]; __syncwarp(); out[t] = held[t ^ 1];", lambda x: x[FIRST + (LANE ^ 1)]),
    "an exchange": Case("T out[t] = __shfl_xor_sync(0xffffffffu, in[t], 1);", lambda x: x[FIRST + (LANE ^ 1)]),
    "from one lane": Case("T out[t] = __shfl_sync(0xffffffffu, in[t], 3);", lambda x: x[FIRST + 3]),
    "down": Case("T out[t] = __shfl_down_sync(0xffffffffu, in[t], 8);", lambda x: x[FIRST + LANE + 8 * (LANE < 24)]),
    "up": Case("T out[t] = __shfl_up_sync(0xffffffffu, in[t], 8);", lambda x: x[FIRST + LANE - 8 * (LANE > 7)]),
    "dynamic memory": Case("D T held[t] = in[t]; __syncthreads(); out[t] = held[n - 1 - t];", lambda x: x[::-1], dynamic=256),
    "written again": Case(WRITTEN.replace("T for", "T float s = 0; for") + " out[t] = s;", lambda x: 0 * x + 3),
    "a grid of two axes": Case(
        "out[(blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x] = blockIdx.y;", lambda x: x // 16, 8, (2, 4)
    ),
    "in place": Case("T float y = out[t] + in[t]; out[t] = y; out[t] += 1;", lambda x: x + 1),
}
FILLED = "T __shared__ float held[16000]; for (int i = t; i < 16000; i += 64) held[i] = 0; out[t] = held[t];"
TURNS = "T __shared__ unsigned next; if (t == 0) next = 0; __syncthreads(); out[t] = shim_turn(&next);"
ADDED = "const int i = blockIdx.x * 32 + threadIdx.x; out[i] = in[i]; __syncthreads(); if (i < 32) out[i] += out[i + 32];"
EXCHANGED = "S T held[t] = in[t]; float y = __shfl_xor_sync(~0u, in[t], 1); out[t] = y + held[t ^ 1];"
WRONG = {
    "no barrier": Case("S T held[t] = in[t]; out[t] = held[t ^ 1];", "nobody wrote|without a barrier"),
    "no barrier in a warp": Case("S T held[t] = in[t]; __syncwarp(); held[t ^ 1] = 1; out[t] = held[t];", "without a barrier"),
    "an exchange is no barrier": Case(EXCHANGED, "without a barrier"),
    "a warp's barrier": Case("S T held[t] = in[t]; __syncwarp(); out[t] = held[t ^ 32];", "nobody wrote|without a barrier"),
    "written while read": Case("S T held[t] = 1; __syncthreads(); out[t] = held[0]; held[t] = 2;", "another thread reads"),
    "all write one number": Case("T out[0] = 1;", "without a barrier"),
    "blocks write one number": Case("if (threadIdx.x == 0) out[0] = 1;", "another block", 32, (2,)),
    "blocks read what others write": Case(ADDED, "another block|another thread reads", 32, (2,)),
    "blocks read what one writes": Case("T if (blockIdx.x == 2) out[t] = 1; else out[t + 32] = out[t];", "another", 1, (3,)),
    "memory that nobody wrote": Case("S T if (t) held[t] = 1; __syncthreads(); out[t] = held[t];", "nobody wrote"),
    "one element too far": Case("T out[t] = in[t + 1];", "outside all arrays, 1 bytes"),
    "one element too early": Case("T out[t - 1] = in[t];", "outside all arrays, -4 bytes"),
    "a pack over the end": Case("T if (t < 17) ((fc_pack<float, 4>*)out)[t] = ((const fc_pack<float, 4>*)in)[0];", "outside"),
    "a pack not aligned": Case("T ((fc_pack<float, 4>*)out)[t] = *(const fc_pack<float, 4>*)(in + 1);", "not aligned", 8),
    "a barrier for some": Case("T if (t < 9) __syncthreads(); out[t] = in[t];", "not all threads reach"),
    "two barriers": Case("T if (t < 9) {\n__syncthreads();\n} else {\n__syncthreads();\n} out[t] = 1;", "different barriers"),
    "an exchange for some": Case("T out[t] = t < 9 ? __shfl_xor_sync(~0u, in[t], 1) : 0;", "not all threads reach"),
    "a lane that is not there": Case("T out[t] = __shfl_sync(~0u, in[t], 20);", "which is not there", 36),
    "too little dynamic memory": Case("D T held[t] = in[t]; out[t] = held[t];", "252 bytes", dynamic=252),
    "too much dynamic memory": Case("D T held[t] = in[t]; out[t] = held[t];", "asks for 50000", dynamic=50000),
    "too much static memory": Case(FILLED, "48 KiB"),
    "too many threads": Case("T if (t < n) out[t] = in[t];", "compiled for 256", 512),
    "an order of threads": Case(TURNS, "order of its threads"),
}


def text_of(body: str) -> str:
    # what counts threads as an atomic operation would, unseen by the checks
    turn = '__attribute__((no_sanitize("thread"), noinline)) static unsigned shim_turn(unsigned* p) { return (*p)++; }\n'
    written = " ".join([PARTS.get(word, word) for word in body.split(" ")])
    return PRELUDE + (turn if "shim_turn" in body else "") + HEAD + written + "\n}\n"


@pytest.fixture(scope="module", autouse=True)
def together() -> None:
    compiled([text_of(case.body) for case in (*RIGHT.values(), *WRONG.values())])


def launch(case: Case, x: Any) -> np.ndarray:
    out = to_device(np.zeros(64, np.float32))
    function = Module(text_of(case.body)).get_function("kernel")
    function(case.blocks, (case.threads,), (x, out, np.int64(64)), shared_mem=case.dynamic)
    return to_host(out)


X = np.arange(64, dtype=np.float32)


@pytest.mark.share(3)
@pytest.mark.parametrize("name", RIGHT)
def test_kernels(name: str) -> None:
    np.testing.assert_array_equal(launch(RIGHT[name], to_device(X)), RIGHT[name].expected(X))


@pytest.mark.parametrize("name", WRONG)
def test_bugs_are_seen(name: str) -> None:
    with pytest.raises(AssertionError, match=WRONG[name].expected):
        launch(WRONG[name], to_device(X))
    for after in ("a barrier", "an exchange"):  # what comes after an error is as ever
        np.testing.assert_array_equal(launch(RIGHT[after], to_device(X)), RIGHT[after].expected(X))


def test_dynamic_memory_that_is_asked_for() -> None:
    body = "D T for (int i = t; i < 50000; i += 64) held[i] = i; __syncthreads(); out[t] = held[t * 700];"
    kernel = Module(text_of(body)).get_function("kernel")
    kernel.max_dynamic_shared_size_bytes = 200000
    out = to_device(np.zeros(64, np.float32))
    kernel((1,), (64,), (to_device(X), out, np.int64(64)), shared_mem=200000)
    np.testing.assert_array_equal(to_host(out), X * 700)


def test_what_lies_between_the_elements_of_a_view_is_not_touched() -> None:
    wide = to_device(np.arange(128, dtype=np.float32))
    found = launch(Case("T if (t < n / 2) out[t] = in[t * 4];", None), wide[::4])
    np.testing.assert_array_equal(found[:32], 4.0 * np.arange(32))
    with pytest.raises(AssertionError, match="between those of a view"):
        launch(Case("T out[t] = in[t];", None), wide[::4])


def test_arrays_that_overlap() -> None:
    x = to_device(np.arange(65, dtype=np.float32))
    kernel = Module(text_of("T out[t] = in[t] + 1;")).get_function("kernel")
    kernel((1,), (64,), (x, x, np.int64(64)))
    np.testing.assert_array_equal(to_host(x), np.r_[np.arange(64) + 1, 64])
    with pytest.raises(AssertionError, match="without a barrier"):
        kernel((1,), (64,), (x[1:], x[:-1], np.int64(64)))
