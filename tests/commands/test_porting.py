"""`python -m funcad port`: programs of JAX and autograd become funcad's, run, and say the same; what is left is named."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

from funcad.commands.command_line import main
from funcad.commands.porting import exists, port

JAX = '''"""A program."""
from functools import partial

import jax
import jax.numpy as jnp
from jax import grad, lax, random, numpy as other
from jax.experimental.ode import odeint  # a remark
import optax

jax.config.update("jax_enable_x64", True)


@partial(jax.jit, static_argnums=0)
def f(n, x):  # stays
    x = x.at[0].set(2.0)
    return jnp.sum(jnp.sin(x) ** n) + lax.cond(x[1] > 0, lambda: 1.0, lambda: other.zeros(()))


class Model:
    def __init__(self, key: jax.Array):
        self.w = jax.random.normal(key, (3,))


print(round(float(f(2, jnp.ones(3)).block_until_ready()), 6))
print(grad(lambda x: jax.nn.relu(x) + jax.lax.fori_loop(0, 3, lambda i, c: c * x, 1.0))(2.0))
print(jax.tree_util.tree_map(lambda x: x + 1, {"a": 1}), Model(random.PRNGKey(0)).w.shape)
optimizer = optax.sgd(0.5)
w = jnp.ones(2)
updates, state = optimizer.update(w, optimizer.init(w), w)
print(optax.apply_updates(w, updates), odeint(lambda y, t: -y, 1.0, jnp.array([0.0, 1.0]))[1].round(4))
'''

AUTOGRAD = """import autograd.numpy as np
import autograd.numpy.random as npr
import autograd.scipy.stats.norm as norm
from autograd import grad, elementwise_grad as egrad
from autograd import numpy as anp
from autograd.misc.optimizers import adam
from autograd.extend import primitive, defvjp

rs = npr.RandomState(0)
print(grad(lambda x: np.sum(norm.logpdf(x)))(np.ones(2)), egrad(anp.tanh)(np.zeros(2)))
print(adam(grad(lambda x, i: np.sum(x**2)), np.ones(1), num_iters=2).shape, grad(lambda x, y: x * y, 1)(2.0, 3.0))
"""


def run(text: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(text, "program.py", "exec"), {"__name__": "program"})
    return printed.getvalue()


def test_a_program_of_jax() -> None:
    ported = port(JAX)
    assert ported.left == []
    assert "jax" not in ported.text.replace("jax_enable_x64", "") and "  # a remark" in ported.text and "# stays" in ported.text
    assert len(ported.text.splitlines()) == len(JAX.splitlines())
    assert run(ported.text).splitlines() == ["3.242969", "13.0", "{'a': 2} (3,)", "[0.5 0.5] 0.3679"]


def test_a_program_of_autograd() -> None:
    ported = port(AUTOGRAD)
    assert ported.left == [] and "import numpy as np\n" in ported.text and "from scipy.stats import norm\n" in ported.text
    assert run(ported.text).splitlines() == ["[-1. -1.] [1. 1.]", "(1,) 2.0"]


def test_what_is_ported_has_nothing_to_port() -> None:
    for text in (JAX, AUTOGRAD, "import numpy as np\nprint(np.ones(3))\n", ""):
        once = port(text).text
        assert port(once).text == once


@pytest.mark.parametrize(("text", "line", "said"), [
    ("import jax\n\njax.pmap(f)\n", 3, "jax.pmap: one device"),
    ("from jax import pmap\n", 1, "from jax import pmap: one device"),
    ("import jax\njax.config.update('jax_debug_nans', True)\n", 2, "jax.config: funcad.config has the settings"),
    ("from jax.experimental import pallas\n", 1, "from jax.experimental import pallas: JAX's experiments"),
    ("import jax.numpy as jnp\njnp.no_such_name(1)\n", 2, "jax.numpy.no_such_name: funcad has no such name"),
    ("from jax import *\n", 1, "from jax import *"),
    ("import jax as j\nj.experimental.ode.odeint(f)\n", 2, "jax.experimental.ode.odeint: it is funcad.scipy.integrate.odeint"),
])  # fmt: skip
def test_what_is_left_is_named(text: str, line: int, said: str) -> None:
    left = port(text).left
    assert [(n, what.startswith(said)) for n, what in left] == [(line, True)], left


def test_layout_stays() -> None:
    text = "if True:\n    import jax, os  # both\n    y = [jax.grad(\n        f)(x), 'jax.grad', é, jax.vmap]\n"
    expected = "if True:\n    import funcad\n    import os  # both\n"
    expected += "    y = [funcad.grad(\n        f)(x), 'jax.grad', é, funcad.vmap]\n"
    assert port(text).text == expected


def test_every_name_that_is_written_exists() -> None:
    assert exists("funcad.scipy.integrate.odeint") and not exists("funcad.pmap") and not exists("nowhere.at.all")


def test_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "program.py"
    file.write_text("import jax\nprint(jax.grad(lambda x: x**2)(3.0))\n")
    assert main(["port", "--check", str(file)]) == 1
    assert "+print(funcad.grad(lambda x: x**2)(3.0))" in capsys.readouterr().out
    assert file.read_text().startswith("import jax\n")
    assert main(["port", str(file)]) == 0 and run(file.read_text()) == "6.0\n"
    assert main(["port", "--check", str(file)]) == 0
    file.write_text("import jax\njax.pmap(1\n")
    assert main(["port", str(file)]) == 2
    file.write_text("import jax\njax.pmap(1)\n")
    assert main(["port", str(file)]) == 1
    assert "program.py:2: left: jax.pmap" in capsys.readouterr().out
