"""`jit(f).cuda` and `explain` of kernels: what is shown without a GPU and without CuPy is what runs where they are."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import ShapeDtypeStruct, config, grad, jit, value_and_grad
from funcad.backends import profile as profiling
from funcad.backends.cuda import launches, sketches
from funcad.backends.cuda.sketches import modules_of
from funcad.errors import PathError
from tests import cuda_shim, standin
from tests.show.test_sight import read
from tests.standin import registered, to_device

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it finds no GPU
        importlib.import_module("cupy").cuda.nvrtc.getVersion()
    nvrtc = True
except Exception:  # each wheel and platform has an error of its own
    nvrtc = False

LARGE = ShapeDtypeStruct((1000, 1000), np.float64)


def bump(x: Any) -> Any:
    return np.sum(np.tanh(x) * np.exp(-x * x))


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True), np.sum(e, axis=0)


def recurrence(c: Any, xs: Any) -> Any:
    return funcad.scan(lambda c, x: (np.sin(c) * 0.9 + x, None), c, xs)[0]


@pytest.mark.share(3)
@pytest.mark.skipif(not cuda_shim.available(), reason="there is no g++ to run kernels with")
@pytest.mark.parametrize("how", ["adjacent", "turned", "unaligned", "rows", "rows turned"])
def test_what_is_shown_is_what_runs(how: str, monkeypatch: Any) -> None:
    ran: list[str] = []
    module = cuda_shim.Module
    monkeypatch.setattr(launches, "_modules", {})
    monkeypatch.setattr(cuda_shim, "Module", lambda code: ran.append(code) or module(code))
    with registered(), config.set(engine="cuda"):
        x = to_device(np.linspace(-1.0, 1.0, 41))
        turned = x[1:].reshape(5, 8).T
        rows = {"rows": x[1:].reshape(5, 8), "rows turned": turned}
        x = {"adjacent": x, "turned": turned, "unaligned": x[1:40], **rows}[how]
        f = jit(softmax if how in rows else lambda x: (bump(x), np.sqrt(np.abs(x)) * 2.0 + 1.0))
        for _ in range(3):
            f(x)
        shown = modules_of(f.cuda(x))
    assert ran and sorted(ran) == sorted(shown)


def test_no_gpu_no_cupy_and_no_values_are_needed() -> None:
    f = jit(value_and_grad(bump))
    text = f.cuda(LARGE)
    assert text == f.cuda(np.ones((1000, 1000))) and len(modules_of(text)) == 1
    assert "kernel<<<1024, 256>>>, finish0<<<1, 256>>>" in text and "test_cuda_shown.py" in text and "tanh(a0)" in text
    assert "expf(" in f.cuda(ShapeDtypeStruct((1000, 1000), np.float32))
    assert config.engine != "cuda" and jit(lambda x, n: x**n + 1.0, static_argnums=1).cuda(np.ones(3), 2)
    assert len(modules_of(jit(grad(lambda c, xs: np.sum(recurrence(c, xs)))).cuda(np.ones(8), np.ones((100, 8))))) == 2


def test_what_has_no_kernel_says_why() -> None:
    with pytest.raises(ValueError, match="cuda of jit of <lambda>: the program has no kernels\n  nothing could be fused"):
        jit(lambda x: x @ x).cuda(np.ones((3, 3)))
    with pytest.raises(ValueError, match=r"elementwise 3 at .*test_cuda_shown.py:.*: arcsin of complex128"):
        jit(lambda x: np.arcsin(1j * x) * 2.0 + x).cuda(np.ones(3))
    with pytest.raises(ValueError, match="moves arrays"):
        jit(lambda x: np.sin(funcad.device_get(x)) * 2.0).cuda(np.ones(3))
    split = jit(lambda x: x * 2.0 if x[0] > 0 else x + 1.0)
    split(np.ones(3))
    with pytest.raises(PathError, match="cuda of jit of"):
        split.cuda(np.ones(3))


def explained(f: Any, *args: Any) -> Any:
    with config.set(engine="cuda"):
        return jit(f).explain(*args)


def test_bytes_and_the_time_they_take() -> None:
    found = explained(value_and_grad(bump), LARGE)
    (group,) = found.groups
    assert found.engine == group["engine"] == "cuda" and found.bytes == group["bytes"] == 2 * 8_000_000 + 8
    assert [(k["name"], k["blocks"], k["threads"]) for k in group["kernels"]] == [
        ("kernel", (1024,), (256,)),
        ("finish0", (1,), (256,)),
    ]
    assert found.seconds is None and "TB/s" not in str(found)
    timed = found.at(3.2e12)
    assert timed.seconds == pytest.approx(5e-6, rel=1e-5) and "16,000,008 bytes moved: 5 us at 3.2 TB/s" in str(timed)
    assert found.bandwidth is None
    for shown in (found, timed):
        read(shown._repr_html_())
    assert "5 us at 3.2 TB/s" in timed._repr_html_() and "kernel&lt;&lt;&lt;1024, 256&gt;&gt;&gt;" in timed._repr_html_()
    for wrong in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="positive"):
            found.at(wrong)


def test_loops_count_their_turns() -> None:
    sorting = lambda c, xs: funcad.scan(lambda c, x: (np.sort(np.tanh(c * 0.5 + x)), None), c, xs)[0]  # no kernel of its own
    found = explained(sorting, ShapeDtypeStruct((8,), np.float64), ShapeDtypeStruct((100, 8), np.float64))
    (group,) = found.groups
    assert group["turns"] == 100 and group["bytes"] == 3 * 64 and found.bytes == 100 * 3 * 64
    assert "kernels: 100 starts a run, 19,200 bytes moved" in str(found)
    turned = lambda x: funcad.while_loop(lambda x: np.sum(x) < 1e3, lambda x: np.sort(np.exp(x) * 2.0 + x), x)
    unknown = explained(turned, ShapeDtypeStruct((8,), np.float64)).at(1e12)
    assert unknown.bytes is None and unknown.seconds is None and "nobody knows how often" in str(unknown)
    read(unknown._repr_html_())


def test_broadcast_arrays_are_read_once() -> None:
    shapes = [ShapeDtypeStruct(s, np.float32) for s in ((300, 200), (200,), (300, 1))]
    (group,) = explained(lambda x, row, column: np.exp(x) * row + column, *shapes).groups
    assert group["bytes"] == 4 * (2 * 300 * 200 + 200 + 300)
    square = ShapeDtypeStruct((50, 50), np.float32)
    assert explained(lambda x: np.exp(x) * 2.0 + x * x, square).bytes == 4 * 2 * 50 * 50


def test_without_nvrtc_it_says_so(monkeypatch: Any) -> None:
    monkeypatch.setattr(sketches, "target_of", lambda: ("", "CuPy is not installed."))
    found = explained(bump, LARGE)
    assert [k["registers"] for k in found.groups[0]["kernels"]] == [None, None] and found.target == ""
    assert "are not known: CuPy is not installed.\nRemedy: pip install cupy-cuda13x nvidia-cuda-nvrtc" in str(found)


@pytest.mark.nvrtc
@pytest.mark.skipif(not nvrtc, reason="NVRTC is not installed")
def test_registers_of_nvrtc() -> None:
    found = explained(value_and_grad(bump), LARGE)
    kernel, finish = found.groups[0]["kernels"]
    assert found.target.startswith("sm_") and 8 <= kernel["registers"] <= 255 and kernel["spills"] == finish["spills"] == 0
    assert kernel["shared"] == finish["shared"] == 256 * 8 and "registers, 0 bytes spilled, 2,048 bytes shared" in str(found)


def test_a_log_without_a_kernel_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="nothing of kernel"):
        sketches.read("ptxas info    : Compiling entry function 'kernel' for 'sm_90'\n")


def test_of_the_arrays_of_a_device() -> None:
    with registered():
        x = to_device(np.ones((30, 40)))
        with config.set(engine="cuda"):
            found = jit(lambda x: np.exp(x) * 2.0 + np.max(x, axis=1, keepdims=True)).explain(x)
        assert found.why == "the arrays are standin's, and config.engine is 'cuda'"
        assert [g["engine"] for g in found.groups].count("cuda") == len([g for g in found.groups if "kernels" in g])
        with config.set(engine="auto"):
            other = jit(bump).explain(x)
        assert other.engine == "cupy" and other.bytes == 0 and "kernels" not in str(other)
    assert explained(bump, np.ones(3)).engine != "cuda"  # NumPy's arrays run on the processor
    assert standin.work is None


@pytest.mark.skipif(not cuda_shim.available(), reason="there is no g++ to run kernels with")
def test_profile_times_the_kernels(monkeypatch: Any) -> None:
    monkeypatch.setattr(profiling, "BUDGET", 0.02)
    monkeypatch.setattr(profiling, "SHORT", 1e-6)
    with registered(), config.set(engine="cuda"):
        x = to_device(np.linspace(-1.0, 1.0, 12).reshape(3, 4))
        found = jit(lambda x: np.sin(x) * x + np.exp(x) @ np.ones((4, 4))).profile(x)
    assert found.engine == "cuda" and {line.engine for line in found.equations} == {"cuda", "cupy"}
    assert [line.engine for line in found.equations if "sin" in line.what] == ["cuda"]
