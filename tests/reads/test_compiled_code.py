"""Functions and classes of the user's that are machine code: nobody sees what they read, so what calls them runs un-jitted."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcad
from funcad.reads.code_reads import is_compiled

needs_cython = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

MODULE = """
import numpy as np

SCALE = 2.0
COUNT = {"n": 0}

def scaled(x):
    return SCALE * np.sin(x).sum()

def counted(x):
    COUNT["n"] += 1
    return x * COUNT["n"]

def chosen(x):
    return x * 2.0 if x[0] > SCALE - 2.0 else x

def told():
    return SCALE

def inside(c):
    def times(x):
        return c * x * SCALE
    return times

class Model:
    kind = 3.0
    def __init__(self, scale):
        self.scale = scale * SCALE
    def times(self, x):
        return self.scale * x * SCALE
    def __call__(self, x):
        return self.scale * x * SCALE
    def __add__(self, other):
        return self.scale * SCALE + other
    @staticmethod
    def of(x):
        return x * SCALE
    @classmethod
    def by(cls, x):
        return x * cls.kind * SCALE
    @property
    def twice(self):
        return 2.0 * self.scale * SCALE

cdef class Extension:
    cdef public double scale
    def __init__(self, scale):
        self.scale = scale * SCALE
    def times(self, x):
        return self.scale * x * SCALE
    def __call__(self, x):
        return self.scale * x * SCALE
    def __add__(self, other):
        return self.scale * SCALE + other
    def __getitem__(self, i):
        return self.scale * SCALE * i
    def __len__(self):
        return int(SCALE)
    def __contains__(self, x):
        return x < SCALE

model, extension = Model(1.0), Extension(1.0)
"""

PROGRAMS = """
import functools, sys, warnings
import numpy as np
import funcad as fc
import compiled as c

calls = {
    "function": lambda x: c.scaled(x),
    "counter": lambda x: c.counted(x),
    "branch": lambda x: c.chosen(x),
    "no traced value": lambda x: x * c.told(),
    "made by one": lambda x: c.inside(2.0)(x),
    "method": lambda x: c.model.times(x),
    "object": lambda x: c.model(x),
    "operator": lambda x: (c.model + 1.0) * x,
    "static method": lambda x: c.Model.of(x),
    "class method": lambda x: c.model.by(x),
    "property": lambda x: c.model.twice * x,
    "class": lambda x: c.Model(2.0).scale * x,
    "method of an extension": lambda x: c.extension.times(x),
    "extension": lambda x: c.extension(x),
    "its operator": lambda x: (c.extension + 1.0) * x,
    "its item": lambda x: c.extension[2] * x,
    "its length": lambda x: len(c.extension) * x,
    "its truth": lambda x: x if c.extension else 2.0 * x,
    "its question": lambda x: x if 3.5 in c.extension else 2.0 * x,
    "extension class": lambda x: c.Extension(2.0).scale * x,
    "map": lambda x: sum(map(c.scaled, [x, x])),
    "key": lambda x: x * max([1.0, 2.0], key=lambda v: v * c.told()),
    "gradient": lambda x: fc.grad(c.scaled)(x),
    "lanes": lambda x: fc.vmap(c.scaled)(np.outer(x, x)),
    "itself": c.scaled,
    "bound": c.model.times,
    "partial": functools.partial(c.model.times),
    "object itself": c.extension,
    "gradient of it": fc.grad(c.scaled),
}
placed = {  # what is read by a name that can be read again
    "global": lambda x: c.SCALE * x,
    "attribute": lambda x: c.model.scale * x,
    "field": lambda x: c.extension.scale * x,
}
without_source = {"__name__": "made"}
exec('''
import compiled as c, time
from compiled import scaled as own
calls = [lambda x: c.scaled(x), lambda x: sum(map(c.scaled, [x, x])), lambda x: c.model.times(x),
         lambda x: len(c.extension) * x,
         lambda x: own(x), lambda x, h=own: h(x), lambda x: c.Model(2.0).scale * x, lambda x: c.told() * x]
''', without_source)
calls.update({f"without a source, {i}": f for i, f in enumerate(without_source["calls"])})
x = np.arange(1.0, 4.0)
for name, f in {**calls, **placed}.items():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        c.SCALE, c.COUNT["n"] = 2.0, 0
        jitted = fc.jit(lambda x: f(x)) if len(sys.argv) > 1 and sys.argv[1] == "inside" else fc.jit(f)
        for i in range(8):
            state = dict(c.COUNT)
            found = jitted(x)
            c.COUNT.update(state)
            if not np.array_equal(found, f(x)):
                print("wrong:", name, i, found)
            if i % 2:
                c.SCALE += 1.0
                c.model.scale += 1.0
                c.extension.scale += 1.0
    texts = [str(w.message) for w in caught]
    if name in calls and jitted.cache_info().currsize or name in placed and texts:
        print("compiled or not:", name, texts)
print("done")
"""


def build(folder: Path, binding: bool) -> None:
    """The module, by Cython and gcc; `binding`: its functions look like Python's, or like those written in C."""
    source = folder / "compiled.pyx"
    source.write_text(f"# cython: language_level=3, binding={binding}\n{MODULE}")
    subprocess.run([sys.executable, "-m", "cython", str(source)], check=True)
    library = folder / f"compiled{sysconfig.get_config_var('EXT_SUFFIX')}"
    include = f"-I{sysconfig.get_path('include')}"
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", include, str(folder / "compiled.c"), "-o", str(library)], check=True)


@needs_cython
@pytest.mark.parametrize("binding", [True, False])
def test_what_calls_compiled_code_is_not_compiled(tmp_path: Path, binding: bool):
    pytest.importorskip("Cython")
    build(tmp_path, binding)
    (tmp_path / "programs.py").write_text(PROGRAMS)
    checkout = Path(funcad.__file__).parent.parent
    env = {"PYTHONPATH": f"{checkout}:{tmp_path}", "PATH": "/usr/bin:/bin"}
    for how in ("itself", "inside"):
        ran = subprocess.run([sys.executable, str(tmp_path / "programs.py"), how], env=env, capture_output=True, text=True)
        assert (ran.stdout, ran.returncode) == ("done\n", 0), ran.stdout + ran.stderr[-2000:]


class Numbers(list):
    def first(self) -> float:
        return self[0]


@pytest.mark.parametrize("f", [
    np.sin, np.sum, np.ndarray, np.zeros(3).sum, np.random.default_rng().normal, len, [].append, dict.get, "a".join, int,
    object.__init__, Numbers, Numbers().append, Numbers().first, float.__add__, (1.0).__add__, type, ValueError, funcad.grad,
    funcad.jit(len),
], ids=range(20))  # fmt: skip
def test_libraries_and_pythons_own_code_are_not_the_users(f: Any):
    assert not is_compiled(f)


def test_a_function_that_is_handed_over_is_looked_at():
    jitted = funcad.jit(lambda x: [*map(time.sleep, [0.0])] and 2.0 * x, not_compiled="raise")
    with pytest.raises(funcad.NotCompiledWarning, match="time.sleep waits at each call"):
        [jitted(1.0) for _ in range(3)]
