"""A primitive is one expression: all its rules are constructor arguments (but for `says`); there are no rule registries.

What may be said of one stands in three groups, `Rules`, `Code` and `Facts`, each word with its contract. Array data is
positional, metadata by keyword; a primitive with `multiple=True` has lists where the others have one value. Of all there are

* `impl(xp, *arrays, **params)`, which computes, with `xp` numpy or cupy, and
* `abstract_eval(*avals, **params)`, which gives the aval(s) of the output(s), or raises what NumPy would raise.

Higher-order primitives (jit's call, scan, cond ...) have `primal_and_jvp` and `linearize` instead of `jvp`. A missing rule
raises `MissingRuleError` naming the primitive; a zero tangent is never made up. Passes and engines ask for facts instead of
keeping lists of names; what can be derived from other facts is derived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Unpack

import numpy as np

from funcad.configuration import NamedTuple, TypedDict, nearest
from funcad.errors import MissingRuleError
from funcad.ir.aval import Number, Params
from funcad.ir.jaxpr import Equation, Jaxpr, Var
from funcad.ir.trace import bind

if TYPE_CHECKING:
    from typing_extensions import TypeIs


CALM = frozenset([None, "pointwise", "sums"])  # how elements of operands reach the result where no mask begins: `reach`
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


class Rules(TypedDict, total=False):
    """How it is derived, transposed and mapped."""

    # jvp(tangents, out, *primals, **params): the tangent of `out`; None is a zero tangent. It receives `out`, so primal work is
    # done once. It is linear in the tangents and does not touch those that are None
    jvp: Callable[..., Any] | None
    # transpose(ct, *inputs, **params), if it is linear in some inputs: one cotangent per input, None for the inputs that are
    # known; linear inputs arrive as `Undefined(aval)`, see `is_linear`
    transpose: Callable[..., Any] | None
    # batch(size, args, batched, **params) -> (out, out_batched): the batch axis is axis 0 of every batched argument
    batch: Callable[..., Any] | None
    collective: Callable[..., Any] | None  # batch rule over the named axis that is being removed
    # primal_and_jvp(primals, tangents, **params), of programs; linearize, of the same signature, runs the program once, keeps
    # residuals and returns tangents computed by a linear program
    primal_and_jvp: Callable[..., Any] | None
    linearize: Callable[..., Any] | None
    # halves(nonzero, **params), if it calls one `jaxpr`: the `Halves` to call in its place (transforms/partial.py), or None
    halves: Callable[..., Any] | None
    # partial_eval(unknown, **params) -> (out_unknown, run) says which outputs need an unknown (a linear) input; run(inputs)
    # computes the others (None in the place of those). Both this and `split` serve transforms/partial.py
    partial_eval: Callable[..., Any] | None
    # split(unknown, args, **params) runs such a program in two: first what needs nothing unknown, which leaves residuals, then
    # the rest on them; a primitive with `partial_eval` alone runs all of it again
    split: Callable[..., Any] | None
    # `transpose` in an array ct that nobody else holds: the first operand's cotangent is ct, the others share nothing with it
    transpose_over: Callable[..., Any] | None
    # adds(ct, x, *operands, **params), if it reads elements of x: (primitive, operands, params) of what adds the cotangent
    # that `transpose` gives to one that is there, which is the first operand of that primitive
    adds: Callable[..., tuple[Primitive, tuple[Any, ...], Params]] | None
    # square(*operands, **params): the square of the result in operations that have all derivatives, or None (with `multiple`,
    # the number of the result comes first). `turns`: the slope of the result turns at 0, so that the square is worth asking
    # for (with `multiple`, turns(i, jaxpr)). See primitives/families.py
    square: Callable[..., Any] | None
    turns: bool | Callable[[int, Jaxpr], bool]
    # how elements of (linear) operands reach the result, by which structural zeros behind masks are found; `elementwise` says
    # "pointwise" itself, the words are in masks/masks.py; tests/masks/test_mask_facts.py holds them against derivatives
    reach: str | Callable[..., str | None] | None
    # paths(position, factor, shape, **params) -> (rows, columns), of products: which elements of the result are reached by
    # which of the operand of that position and shape, where the other has the nonzero elements `factor` (sparse/index_sets.py)
    paths: Callable[..., tuple[np.ndarray, np.ndarray]] | None
    needs: Callable[..., tuple[int, ...]] | None  # needs(linear, wanted, **params): how much of the masks of cts it can use
    masked: Callable[..., Any] | None  # masked(cts, masks, wanted, *inputs, **params): `transpose` with masks in and out
    push: Callable[..., Any] | None  # push(tangents, known, **params): its results, if it is linear; it takes masks
    takes_masks: bool  # primal_and_jvp does so, too


class Code(TypedDict, total=False):
    """How it is computed."""

    emit: Callable[..., Any] | None  # emit(e, *operands, **params): one element, for all engines; having it *is* being fusible
    ufunc: np.ufunc | None  # the NumPy ufunc that computes it, if there is one
    inplace: Callable[..., Any] | None  # ufunc-like callable that takes out=, if the result may be written into an operand
    ready: Callable[..., Any] | None  # ready(*avals, **params): `impl` on NumPy for exactly these, worked out beforehand
    lowering: Callable[..., Any] | None  # lowering(*operands, **params): the same in operations that fuse; None where it is not
    # over(xp, x, *operands, **params), if its result is x with some elements written: does so in the caller's own x, returns it
    over: Callable[..., Any] | None
    layout: Callable[..., Any] | None  # the memory order of NumPy's result, from those of the operands (host/real_types.py)
    moves: Callable[..., str] | None  # moves(**params): "cpu" or "cuda", where the result is, wherever the operands are
    label: str | None  # what NumPy calls it in its warnings


class Facts(TypedDict, total=False):
    """What else is true of it."""

    multiple: bool  # it has lists of results
    effect: bool  # never removed, duplicated or reordered
    fresh: bool  # an effect whose results differ from run to run: vmap asks its rule though no operand is mapped
    fails: bool  # may refuse values of its operands, with an error that users catch
    asserts: bool  # that error is all it is for: never removed, though nobody reads its result
    barrier: bool  # CSE and inlining stop here (checkpoint)
    structural: bool  # linear in its only operand: tangents go through the same operation
    silent: bool  # moves or compares numbers: NumPy has nothing to warn of
    passive: bool  # gives no tangent, ever
    calm: bool  # its jvp begins no mask, ever
    commutes: str | None  # swapped operands give the same "bits", or the same "value" (but for the sign of a zero)
    reduction: Reduction | None
    may_share: bool | Callable[..., bool]  # see the function `may_share`
    free: bool  # always a view of its first operand, which costs nothing


class Said(Rules, Code, Facts, total=False):
    """All that may be said of a primitive."""


# what holds where nothing is said
_NO = dict.fromkeys(["turns", "takes_masks", *Facts.__annotations__], False)
_UNSAID: Any = {**dict.fromkeys(Said.__annotations__), **_NO, "commutes": None, "reduction": None}


class Primitive:
    """An operation and all that is said of it, called like a function. `levels` is what its rule does to masks of tangents."""

    __slots__ = ("name", "impl", "abstract_eval", "levels", *Said.__annotations__)

    def __init__(self, name: str, impl: Callable[..., Any], abstract_eval: Callable[..., Any], **said: Unpack[Said]):
        self.name = name
        self.abstract_eval = abstract_eval
        self.levels: dict[object, int] = {}
        self.says(impl, **said)

    def says(self, impl: Callable[..., Any], **said: Unpack[Said]) -> None:
        """What is said of it; once more of one that passes make and whose rules need what stands above them: the loop."""
        if not said.keys() <= Said.__annotations__.keys():
            raise _unknown(self.name, said.keys() - Said.__annotations__.keys())
        said = {**_UNSAID, **said}
        self.impl = impl
        self.jvp = said["jvp"]
        self.transpose = said["transpose"]
        self.batch = said["batch"]
        self.collective = said["collective"]
        self.primal_and_jvp = said["primal_and_jvp"]
        self.linearize = said["linearize"]
        self.halves = said["halves"]
        self.partial_eval = said["partial_eval"]
        self.split = said["split"]
        self.transpose_over = said["transpose_over"]
        self.adds = said["adds"]
        self.square = said["square"]
        self.turns = said["turns"]
        self.reach = said["reach"]
        self.paths = said["paths"]
        self.needs = said["needs"]
        self.masked = said["masked"]
        self.push = said["push"]
        self.takes_masks = said["takes_masks"] or self.push is not None
        self.emit = said["emit"]
        self.ufunc = ufunc = said["ufunc"]
        self.inplace = said["inplace"]
        self.ready = said["ready"]
        self.lowering = said["lowering"]
        self.over = said["over"]
        self.layout = said["layout"]
        self.moves = said["moves"]
        self.label = said["label"] or (ufunc and ufunc.__name__) or self.name
        self.multiple = said["multiple"]
        self.effect = said["effect"]
        self.fresh = said["fresh"]
        self.asserts = said["asserts"]
        self.fails = said["fails"] or self.asserts
        self.barrier = said["barrier"]
        self.structural = said["structural"]
        self.silent = said["silent"]
        self.passive = said["passive"] or not (self.jvp or self.primal_and_jvp or self.linearize)
        self.calm = said["calm"] or self.structural and self.reach in (None, "pointwise", "sums", "reads")
        self.commutes = said["commutes"]
        self.reduction = said["reduction"]
        self.free = said["free"]
        self.may_share = said["may_share"] or self.free

    def __repr__(self) -> str:
        return self.name

    __call__ = bind  # sin(x) is bind(sin, x), without a frame in between

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"primitive {self.name} is not pickled; pickle the function that uses it")


def _unknown(name: str, words: set[str]) -> TypeError:
    word = min(words)
    near = nearest(word, Said.__annotations__, 0)
    return TypeError(f"primitive {name}: nothing is called {word!r}; did you mean {near[0]!r}?")


def may_share(equation: Equation) -> bool:
    """May a result share memory with an operand or another result? `Primitive.may_share` says it, or finds it by the avals."""
    fact = equation.primitive.may_share
    return fact(*[a.aval for a in equation.inputs]) if callable(fact) else fact
