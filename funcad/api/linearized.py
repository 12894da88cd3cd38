"""The first half of `vjp`, `linearize`, `jacfwd` and `jacrev`: f has run, and its tangent program was recorded, or found.

f runs once, on its real values (following.py). Where a Jacobian is wanted, a tape may have found the program that computes it:
`results` are its.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from funcad.api.border import OutTree, check_leaves, flat_function, flat_values, name_of, own_memory, with_aux
from funcad.host.locks import Locks
from funcad.ir.aval import aval_of, is_inexact
from funcad.unjitted import tape_ends
from funcad.unjitted.linearizing import linearize_following
from funcad.unjitted.tape import Tape

__all__ = ["Linearized", "linearized", "seed_of"]


class Linearized(NamedTuple):
    """One call of f."""

    leaves: list[Any]
    in_tree: Any  # of the tuple of arguments
    differentiable: list[bool]
    outs: list[Any]  # the differentiated outputs
    out_tree: Any
    aux: list[Any]  # the auxiliary output, if f has one
    nonzero: list[bool]  # which outputs depend on the arguments
    jaxpr: Any
    residuals: list[Any]
    locks: Locks
    results: Any  # of the program that was found; None: there is `jaxpr`

    @property
    def out(self) -> Any:
        return self.out_tree.unflatten(self.outs)


def seed_of(out: Any) -> Any:
    """The cotangent of a number, of which the gradient is wanted."""
    return aval_of(out).dtype.type(1)


def linearized(
    f: Callable[..., Any],
    primals: Sequence[Any],
    has_aux: bool,
    name: str,
    kind: str | Callable[[Sequence[Any]], str] = "linear",
) -> Linearized:
    """`kind` says what is wanted, see `linearize_following`."""
    leaves, in_tree = flat_values((tuple(primals), {}))
    check_leaves(leaves, f"{name}: argument", primals)
    differentiable = [is_inexact(aval_of(x)) for x in leaves]
    store = OutTree()
    box: dict[str, Any] = {}
    flat = flat_function(with_aux(f, has_aux, box), in_tree, store)
    outs, nonzero, jaxpr, residuals, locks = linearize_following(flat, leaves, differentiable, name, box, kind)
    n, results = box.get("n", len(outs)), None
    check_leaves(outs[:n], f"{name}: output of {name_of(f)}")
    if type(jaxpr) is Tape:
        locks.check()
        results = list(tape_ends.pull(jaxpr, [] if kind == "columns" else [seed_of(outs[0])], outs))
        locks.release()
    outs = own_memory(outs, leaves + residuals)
    out_tree, aux = store.tree, []
    if has_aux:
        out_tree = store.tree.children()[0]
        aux = [store.tree.unflatten(outs)[1]]
    return Linearized(
        leaves,
        in_tree.children()[0],
        differentiable,
        outs[:n],
        out_tree,
        aux,
        nonzero[:n],
        jaxpr,
        residuals,
        locks,
        results,
    )
