"""`jax.extend`: `core` and `linear_util`, as far as programs that read other programs use them.

`core` has the classes of programs and of their parts, for isinstance, and `jaxpr_as_fun`. A program's parts have funcad's names
(`inputs`, `outputs`); captured values are the first inputs. `linear_util` has functions that are changed step by step: a
transformation is a generator that yields the arguments, is sent the results, and yields what they become.

>>> import funcad
>>> program = funcad.make_jaxpr(lambda x: x * 2.0)(1.0)
>>> isinstance(program, core.ClosedJaxpr), core.jaxpr_as_fun(program)(3.0)
(True, [6.0])
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from funcad.api.tools import ClosedJaxpr
from funcad.host.where import state
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.ir.primitive import Primitive

__all__ = ["core", "linear_util"]


def _as_fun(program: ClosedJaxpr) -> Callable[..., list[Any]]:
    """The program as a function of its arguments, which gives the list of its results."""
    return lambda *args: eval_jaxpr(program.jaxpr, [*program.consts, *args])


core = SimpleNamespace(
    ClosedJaxpr=ClosedJaxpr, Jaxpr=Jaxpr, JaxprEqn=Equation, Literal=Literal, Primitive=Primitive, Var=Var,
    jaxpr_as_fun=_as_fun, get_opaque_trace_state=lambda convention=None: (state.abstract, state.running),
)  # fmt: skip


class WrappedFun:
    """A function and the transformations around it, the outermost first; `call_wrapped` calls it.

    >>> @linear_util.transformation
    ... def doubled(*args):
    ...     out = yield args, {}
    ...     yield 2 * out
    >>> doubled(linear_util.wrap_init(lambda x: x + 1)).call_wrapped(3)
    8
    """

    def __init__(self, f: Callable[..., Any], transforms: tuple = (), params: dict[str, Any] | None = None):
        self.f, self.transforms, self.params = f, transforms, params or {}
        functools.update_wrapper(self, f, updated=())

    def wrap(self, generator: Callable[..., Iterator[Any]], args: tuple, store: Any = None) -> WrappedFun:
        return WrappedFun(self.f, ((generator, args, store), *self.transforms), self.params)

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        running = []
        for generator, given, store in self.transforms:
            steps: Any = generator(*given, *args, **kwargs)
            args, kwargs = next(steps)
            running.append((steps, store))
        out = self.f(*args, **self.params, **kwargs)
        for steps, store in reversed(running):
            out = steps.send(out)
            if store is not None:
                out, aux = out
                store.append(aux)
        return out


def _transformation(generator: Callable[..., Iterator[Any]]) -> Callable[..., WrappedFun]:
    return lambda fun, *args: fun.wrap(generator, args)


def _with_aux(generator: Callable[..., Iterator[Any]]) -> Callable[..., tuple[WrappedFun, Callable[[], Any]]]:
    def apply(fun: WrappedFun, *args: Any) -> tuple[WrappedFun, Callable[[], Any]]:
        store: list[Any] = []
        return fun.wrap(generator, args, store), lambda: store[-1]

    return apply


linear_util = SimpleNamespace(
    WrappedFun=WrappedFun, transformation=_transformation, transformation_with_aux=_with_aux,
    wrap_init=lambda f, params=None, *, debug_info=None: WrappedFun(f, (), params),
)  # fmt: skip
