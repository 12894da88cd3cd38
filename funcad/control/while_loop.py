"""`while_loop`: a loop of unknown length, differentiable in both modes. Its rules are in loop_rules.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.api.border import api, call_as, name_of, own_memory
from funcad.control.body import check_functions, check_structure, prepare, strengthened, trace_carry
from funcad.control.call import coerce, interned
from funcad.control.checkpoint import kept_by
from funcad.control.loop_rules import loop_p
from funcad.ir.aval import Aval, aval_of, said
from funcad.ir.trace import trace_function
from funcad.primitives.loop import Loop


@api
def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any, *, policy: Any = None) -> Any:
    """`while cond_fun(val): val = body_fun(val)`, for a condition that is known only when the program runs.

    Parameters
    ----------
    cond_fun : callable
        It takes the value and returns one bool.
    body_fun : callable
        It takes the value and returns the next, with the same structure, shapes and dtypes.
    init_val : array, number or container of them
        The first value. Python scalars take the dtype that body_fun returns.
    policy : checkpoint policy, optional
        What reverse mode keeps, as for `scan`.

    Returns
    -------
    like init_val
        The value for which the condition is false.

    Raises
    ------
    TypeError
        The value changes its structure, shapes or dtypes (the message names the path), or cond_fun does not return one
        bool.
    TracerBoolConversionError
        A function asks for a value: both are traced, with abstract values.

    Notes
    -----
    Reverse mode works (JAX's does not). It keeps residuals for each turn, or what `policy` says: with a
    `funcad.checkpoint_policies.memory_budget` states of the loop that lie ever further apart, and turns run again.
    Under `vmap` the loop runs until every example has stopped.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> newton = lambda a: funcad.while_loop(lambda x: abs(x * x - a) > 1e-12, lambda x: (x + a / x) / 2, a)
    >>> round(float(newton(2.0)), 6), round(float(funcad.grad(newton)(2.0)), 6)
    (1.414214, 0.353553)
    >>> halvings = lambda x: funcad.while_loop(lambda v: v[0] > 1.0, lambda v: (v[0] / 2, v[1] + 1), (x, 0))[1]
    >>> funcad.vmap(halvings)(np.array([1.0, 8.0, 100.0]))
    array([0, 3, 7])

    See also
    --------
    fori_loop, scan, cond
    """
    return run_while(
        "while_loop", cond_fun, body_fun, init_val, ("init_val", "the value returned by " + name_of(body_fun)), policy
    )


def run_while(what: str, cond_fun: Any, body_fun: Any, init: Any, names: tuple[str, str], policy: Any = None) -> Any:
    check_functions(what, "while_loop(cond_fun, body_fun, init_val)", cond_fun, body_fun)
    budget, body_fun = kept_by(policy, body_fun)
    carry, structure = prepare(what, init, names[0])

    def body(*values: Any) -> list[Any]:
        leaves, found = prepare(what, call_as(f"{what} calls body_fun(carry)", body_fun, structure.unflatten(values)), names[1])
        check_structure(what, found, structure, names[1], names[0])
        return leaves

    jaxpr, consts, avals = trace_carry(what, body, [aval_of(c) for c in carry], [], structure, True, carry)

    def test(*values: Any) -> list[Any]:
        out = call_as(f"{what} calls cond_fun(carry)", cond_fun, structure.unflatten(values))
        leaves, _ = prepare(what, out, f"the value returned by {name_of(cond_fun)}")
        if len(leaves) != 1 or leaves[0] is not out or aval_of(out).shape != () or aval_of(out).dtype.kind != "b":
            raise TypeError(
                f"{what}: {name_of(cond_fun)} must return one bool of shape (), got {said(out)}.\n"
                "Remedy: compare it (x > 0); reduce an array of bools with np.all or np.any."
            )
        return leaves

    name = f"the condition of {what}"
    cond, cond_consts = trace_function(test, avals, name=name, staging=True, errstate="refused", beside=carry)
    cond = interned(coerce(cond, [Aval((), np.dtype(bool))]))
    inputs = [*cond_consts, *consts, *strengthened(carry, avals)]
    outs = loop_p(*inputs, loop=Loop(jaxpr, len(consts), len(carry), budget=budget, cond=cond))
    return structure.unflatten(own_memory(outs[1 : 1 + len(carry)], inputs))
