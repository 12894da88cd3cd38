"""`python -m tests.old_processor [arguments of pytest]`: the tests as they come out on an older processor.

Idea: NumPy, OpenBLAS, the C library and funcad's own compiler each choose code for the processor that they find, and each
rounds by the instructions that it has. Here all four are told to do without the newer ones, so a test that holds on this
machine and fails so depends on a processor. They read the environment when they start: hence a new process.
"""

from __future__ import annotations

import os
import platform
import sys

from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

from funcad.backends.native import target

__all__ = ["environment"]


def environment() -> dict[str, str]:
    """What to add to the environment: no more than x86-64-v2 (SSE 4.2; no AVX, no FMA), elsewhere NumPy's plain loops."""
    beyond = [feature for feature in __cpu_dispatch__ if __cpu_features__.get(feature)]
    settings = {"NPY_DISABLE_CPU_FEATURES": " ".join(beyond)} if beyond else {}
    if platform.machine().lower() in ("x86_64", "amd64"):
        settings["OPENBLAS_CORETYPE"] = "Nehalem"
        settings["GLIBC_TUNABLES"] = "glibc.cpu.hwcaps=-AVX512F,-AVX2,-FMA"
        settings[target.OVERRIDE] = "x86-64-v2"
    return settings


if __name__ == "__main__":
    settings = environment()
    print(*[f"{name}={value!r}" for name, value in settings.items()], flush=True)
    os.execve(sys.executable, [sys.executable, "-m", "pytest", *sys.argv[1:]], {**os.environ, **settings})
