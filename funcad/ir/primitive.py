"""A primitive is one expression: all its rules are constructor arguments; there are no rule registries.

The contract, rule by rule (array data positional, metadata by keyword; a primitive with `multiple=True` has lists where the
others have one value):

* `impl(xp, *arrays, **params)` computes, with `xp` numpy or cupy.
* `abstract_eval(*avals, **params)` gives the aval(s) of the output(s), or raises what NumPy would raise.
* `jvp(tangents, out, *primals, **params)` gives the tangent of `out`; `None` is a zero tangent. It receives `out`, so primal
  work is done once. It must be linear in the tangents and must not touch those that are `None`.
* `transpose(ct, *inputs, **params)`, for primitives that are linear in some inputs: one cotangent per input, `None` for the
  inputs that are known; linear inputs arrive as `Undefined(aval)`, see `is_linear`.
* `batch(size, args, batched, **params) -> (out, out_batched)`: the batch axis is axis 0 of every batched argument.
* `emit(e, *operands, **params)`: code for one element, for every code generator. Having it *is* being fusible.
* `over(xp, x, *operands, **params)`, for primitives whose result is their first operand with some elements written: does so
  in x itself and returns it. Whoever calls it owns x (see backends/memory.py). `transpose_over` is `transpose` in an array ct
  that nobody else holds: the first operand's cotangent is ct, written over, and the others share nothing with it.
* `adds(ct, x, *operands, **params) -> (primitive, operands, params)`, for primitives that read elements of x: what adds the
  cotangent that `transpose` gives to one that is there, which is the first operand of that primitive.
* `square(*operands, **params)`: the square of the result in operations that have all derivatives, or None; `turns` says that
  the slope of the result turns at 0, so that the square is worth asking for. See primitives/squares.py.
* `reach`: how elements of linear operands get to the result, by which structural zeros behind masks are found; `elementwise`
  says "pointwise" itself, the words are in masks/masks.py; tests/masks/test_mask_facts.py holds them against derivatives.
* `paths(position, factor, shape, **params) -> (rows, columns)`, for products: which elements of the result are reached by which
  of the operand of that position and shape, where the other operand has the nonzero elements `factor` (sparse/index_sets.py).

Higher-order primitives (jit's call, scan, cond ...) have instead of `jvp` a `primal_and_jvp(primals, tangents, **params)`, and
a `linearize` of the same signature, which runs the program once, keeps residuals and returns tangents computed by a linear
program. `partial_eval(unknown, **params) -> (out_unknown, run)` says which outputs need an unknown (a linear) input, and
`run(inputs)` computes the others (None in the place of those). `split(unknown, args, **params)` runs such a program in two:
first what needs nothing unknown, which leaves residuals, then the rest on them; a primitive with `partial_eval` alone runs all
of it again. Both serve transforms/partial.py. `masked` is `transpose` with masks in and out, `needs` says which of them it can
use, `push` runs a linear program forwards.

A missing rule raises `MissingRuleError` naming the primitive; a zero tangent is never made up.

Beside the rules stand facts, which passes and engines ask for instead of keeping lists of names: `ufunc`, `commutes`,
`reduction`, `may_share`, `free` and the others that the constructor names. What can be derived from these is derived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from funcad.errors import MissingRuleError
from funcad.ir.jaxpr import Equation, Jaxpr, Var
from funcad.ir.trace import bind
from funcad.ir.types import Number, Params

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = ["Primitive", "Reduction", "Undefined", "is_linear", "may_share", "not_linear"]


Undefined = Var  # in a transpose rule, a linear input is its own variable: it has an aval and no value


def is_linear(x: object) -> TypeIs[Var]:
    return type(x) is Var


def not_linear(name: str) -> MissingRuleError:
    """For transpose rules that are reached with operands in which the operation is not linear."""
    return MissingRuleError(
        f"{name} is not linear in these operands, so it has no transpose.\n"
        "linear_transpose takes functions that are linear in all their arguments; use funcad.vjp for others."
    )


class Reduction(NamedTuple):
    """A fold over the parameter `axes`: the ufunc that combines two elements, in any order, and what no elements give (None:
    an error). `element` is the formula of what is combined, as `emit`: the element itself if there is none.
    """

    ufunc: np.ufunc
    identity: Number | None = None
    element: Callable[..., Any] | None = None


class Primitive:
    """An operation and all its rules, called like a function; see the module's text for the contract of each."""

    __slots__ = (
        *("name", "impl", "abstract_eval", "jvp", "transpose", "batch", "emit"),  # the rules that most have
        *("primal_and_jvp", "linearize", "partial_eval", "split"),  # of operations that call programs
        *("over", "transpose_over", "adds"),  # of those that write or read elements of an array
        *("reach", "paths", "needs", "masked", "push", "takes_masks", "levels", "calm", "square", "turns"),  # zeros, squares
        *("multiple", "effect", "fresh", "barrier", "structural", "silent", "passive", "collective", "moves", "layout"),
        "fails",
        *("ufunc", "inplace", "ready", "commutes", "reduction", "lowering", "may_share", "free", "label"),  # the computation
    )

    def __init__(
        self,
        name: str,
        impl: Callable[..., Any],
        abstract_eval: Callable[..., Any],
        *,
        jvp: Callable[..., Any] | None = None,
        transpose: Callable[..., Any] | None = None,
        batch: Callable[..., Any] | None = None,
        emit: Callable[..., Any] | None = None,
        primal_and_jvp: Callable[..., Any] | None = None,
        linearize: Callable[..., Any] | None = None,
        partial_eval: Callable[..., Any] | None = None,
        split: Callable[..., Any] | None = None,
        over: Callable[..., Any] | None = None,
        transpose_over: Callable[..., Any] | None = None,
        adds: Callable[..., tuple[Primitive, tuple[Any, ...], Params]] | None = None,
        multiple: bool = False,
        effect: bool = False,
        fresh: bool = False,
        fails: bool = False,
        barrier: bool = False,
        ufunc: np.ufunc | None = None,
        collective: Callable[..., Any] | None = None,
        inplace: Callable[..., Any] | None = None,
        structural: bool = False,
        silent: bool = False,
        ready: Callable[..., Any] | None = None,
        layout: Callable[..., Any] | None = None,
        moves: Callable[..., str] | None = None,
        square: Callable[..., Any] | None = None,
        turns: bool | Callable[[int, Jaxpr], bool] = False,
        reach: str | Callable[..., str | None] | None = None,
        paths: Callable[..., tuple[np.ndarray, np.ndarray]] | None = None,
        calm: bool = False,
        needs: Callable[..., tuple[int, ...]] | None = None,
        masked: Callable[..., Any] | None = None,
        push: Callable[..., Any] | None = None,
        takes_masks: bool = False,
        passive: bool = False,
        commutes: str | None = None,
        reduction: Reduction | None = None,
        lowering: Callable[..., Any] | None = None,
        may_share: bool | Callable[..., bool] = False,
        free: bool = False,
        label: str | None = None,
    ):
        self.name = name
        self.impl = impl
        self.abstract_eval = abstract_eval
        self.jvp = jvp
        self.transpose = transpose
        self.batch = batch
        self.emit = emit
        self.over = over
        self.transpose_over = transpose_over
        self.adds = adds
        self.primal_and_jvp = primal_and_jvp
        self.linearize = linearize
        self.partial_eval = partial_eval
        self.split = split
        self.multiple = multiple
        self.effect = effect  # never removed, duplicated or reordered
        self.fresh = fresh  # an effect whose results differ from run to run: vmap asks its rule though no operand is mapped
        self.fails = fails  # may refuse values of its operands, with an error that users catch
        self.barrier = barrier  # CSE and inlining stop here (checkpoint)
        self.ufunc = ufunc  # the NumPy ufunc that computes it, if there is one
        self.collective = collective  # batch rule over the named axis that is being removed
        self.structural = structural  # linear in its only operand: tangents go through the same operation
        self.silent = silent  # moves or compares numbers: NumPy has nothing to warn of
        self.ready = ready  # ready(*avals, **params): `impl` on NumPy for exactly these operands, worked out beforehand
        self.layout = layout  # the memory order that NumPy gives the result, from those of the operands (host/layout.py)
        self.moves = moves  # moves(**params): "cpu" or "cuda", where the result is, wherever the operands are
        self.square = square  # with `multiple`, the number of the result comes first
        self.turns = turns  # with `multiple`, turns(i, jaxpr)
        self.paths = paths
        self.reach = reach  # how elements of the operands reach the result, see masks/masks.py
        self.needs = needs  # needs(linear, wanted, **params): how much of the masks of its results' cotangents it can use
        self.masked = masked  # masked(cts, masks, wanted, *inputs, **params): `transpose` with masks, see masks/masks.py
        self.push = push  # push(tangents, known, **params): its results, if it is linear; it takes masks
        self.takes_masks = takes_masks or push is not None  # so does primal_and_jvp
        self.levels: dict[object, int] = {}  # by kinds of operands, what its rule does to masks of tangents
        self.calm = calm or structural and reach in (None, "pointwise", "sums", "reads")  # its jvp begins no mask, ever
        self.passive = passive or jvp is None and primal_and_jvp is None and linearize is None  # gives no tangent, ever
        self.commutes = commutes  # swapped operands give the same "bits", or the same "value" (but for the sign of a zero)
        self.reduction = reduction
        self.lowering = lowering  # lowering(*operands, **params): the same in operations that fuse; None where it is not
        self.may_share = may_share or free  # see the function `may_share`
        self.free = free  # always a view of its first operand, which costs nothing
        self.label = label or (ufunc and ufunc.__name__) or name  # what NumPy calls it in its warnings
        self.inplace = inplace  # ufunc-like callable that takes out=, if the result may be written into an operand

    def __repr__(self) -> str:
        return self.name

    __call__ = bind  # sin(x) is bind(sin, x), without a frame in between

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"primitive {self.name} is not pickled; pickle the function that uses it")


def may_share(equation: Equation) -> bool:
    """May a result share memory with an operand or another result? `Primitive.may_share` says it, or finds it by the avals."""
    fact = equation.primitive.may_share
    return fact(*[a.aval for a in equation.inputs]) if callable(fact) else fact
