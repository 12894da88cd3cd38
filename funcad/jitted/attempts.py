"""What jit traces: a function of the leaves of its arguments, which notes what it did beside computing.

Idea: an attempt is one run of the user's function on tracers, by its twin, which tells what it reads and stores (reads/). Where
it has none, and for code that runs un-twinned, what the function may read was taken before (watched.py), and what it leaves
behind in objects is found afterwards (left_behind.py). Writes into arguments are noted, and the structure of the result. A
function with guards is attempted once for each of its paths.
"""

from __future__ import annotations

import copy
import importlib
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from funcad import tree
from funcad.api.border import OutTree, flat_function, flat_values, name_of
from funcad.api.value_reads import as_truth
from funcad.errors import BufferNeeded, FuncadError
from funcad.host.conversions import lends_all, makers
from funcad.host.where import setting, state, tracing
from funcad.ir.jaxpr import Equation, Jaxpr, equation_has_effects, subjaxprs
from funcad.jitted.jit_cache import Writes
from funcad.jitted.left_behind import arguments_kept, nothing_left, static_parts, untwinned
from funcad.jitted.path_segments import Leaf
from funcad.jitted.watched import Found, look
from funcad.primitives.host import HostCall
from funcad.reads.code_reads import content, is_library, reads_of
from funcad.reads.later import all_now
from funcad.reads.places import Guards, Place, path_of
from funcad.reads.refusals import Raised, Refusal, Unplaced
from funcad.reads.stores import Store
from funcad.tree.same import again
from funcad.tree.treedef import LEAF
from funcad.unjitted.strides import Given, orders_of


def _running() -> Any:
    """reads/run.py with the twins: it is imported when the first function is traced."""
    return importlib.import_module("funcad.reads.run")


def has_twin(f: Any) -> bool:
    """Can the function of the user's that is called first be twinned?"""
    return bool(_running().has_twin(f))


class Attempt(NamedTuple):
    """One run of a flat function on tracers, and what it notes."""

    flat: Callable[..., list]
    store: Any  # of the output's structure
    writes: Any
    given: Given
    of: Attempts
    found: Found  # what the function may read beside its arguments
    run: TwinRun | None  # where it has a twin: what it reads and stores

    @contextmanager
    def looked_after(self) -> Iterator[None]:
        """A `with` block in which the flat function is traced."""
        identities = any([reads_of(code).truths for code in self.found.codes])
        with nothing_left(self.found, self.run), setting(unread=state.unread, identities=identities):
            yield

    def settle(self, f: Any, moved: set[str], jaxpr: Jaxpr) -> Guards | None:
        """What the program depends on, once it is traced."""
        run = self.run
        if run is None:
            made = bool(self.found.codes) and tracing.shown_code(self.found.codes[0]) is not self.found.codes[0]
            return self.found.settle(f, moved, not made)  # what a twin made is seen where it was made
        guards = run.guards or Guards([])
        if run.ran or self.found.ruled or keeps_functions(jaxpr):
            if guards.inputs:  # what the walk compares may be one of them
                raise Unplaced("")
            code = next((code for code, outside in run.ran if outside and not self.found.looks_at(code)), None)
            if code is not None:
                raise Refusal(f"{code.co_qualname} is called by a library, and nobody sees what it reads", "")
            guards = guards.joined(self.found.settle(f, moved, bool(run.ran)))
        return guards if guards.places else None

    def changes(self) -> bool:
        """Has the function stored something, or written into an argument?"""
        return self.writes.some or self.run is not None and self.run.stored

    def sees_orders(self, jaxpr: Jaxpr) -> bool:
        """May the program be another one where the keys of dicts among the arguments come in another order?"""
        return self.run is None or self.run.orders or keeps_functions(jaxpr)

    def leaf(self, outputs: Sequence[Any], consts: list[Any]) -> Leaf:
        leaf = Leaf(outputs)
        leaf.out_tree, leaf.consts, leaf.orders = self.store.tree, consts, self.given.orders
        leaf.written, leaf.returned = tuple(self.writes.written), self.writes.returned
        leaf.stores = tuple(self.run.stores) if self.run is not None else ()
        return leaf


class Attempts:
    """What makes attempts of a call of a jitted function; of the call's arguments it keeps those that are static.

    `numbers`: labels of what the function reads beside its arguments that is to be an input. The function is not kept: the
    paths in its cache have this, and would keep it alive.
    """

    __slots__ = ("title", "numbers", "in_tree", "positions", "named", "statics", "twinned", "unseen", "given", "chooses")

    def __init__(self, core: Any, args: tuple, kwargs: dict, in_tree: Any, numbers: set[str], given: Sequence[Place] = ()):
        self.given = given  # places of further arguments, after the leaves
        self.title, self.numbers, self.in_tree = f"jit of {name_of(core.f)}", numbers, in_tree
        chosen = [core.is_static(i, len(args)) for i in range(len(args))]
        of = core.knows_self
        self.positions = [again(a, of and not i) if static else None for i, (static, a) in enumerate(zip(chosen, args))]
        self.named = {k: again(v) if k in core.static_names else None for k, v in kwargs.items()}
        self.statics = [(label, again(a, of and not i)) for i, (label, a) in enumerate(core.static_values(args, kwargs))]
        self.statics += [(label, again(x)) for label, x in static_parts((*args, *kwargs.values()))]
        self.twinned, self.unseen, self.chooses = has_twin(core.f), core.cache.unseen, core.cache.chooses

    def ordered_as(self, in_tree: Any) -> Attempts:
        """The same for a call whose dicts may have their keys in another order."""
        if in_tree.orders == self.in_tree.orders:
            return self
        found = copy.copy(self)
        found.in_tree = in_tree
        return found

    @property
    def are_leaves(self) -> bool:
        """Are the leaves the function's arguments, as they come?"""
        parts = self.in_tree._children[0]._children
        return not self.named and not any(self.positions) and all([part is LEAF for part in parts])

    def merged(self, dynamic: Any, keywords: dict) -> tuple[tuple, dict]:
        """The static arguments beside the others."""
        it = iter(dynamic)
        whole = tuple([next(it) if static is None else static() for static in self.positions])
        return whole, {k: keywords[k] if static is None else static() for k, static in self.named.items()}

    def arguments(self, leaves: Sequence[Any]) -> tuple[tuple, dict]:
        """The function's own, of these leaves."""
        return self.merged(*self.in_tree.unflatten(list(leaves)[: self.in_tree.num_leaves]))

    def of(self, f: Any, leaves: Sequence[Any]) -> Attempt:
        statics = [(label, held()) for label, held in self.statics]
        found = look(f, statics)
        found.alone = not self.twinned
        reason = _running().unplaceable(found) if found.alone else None
        if reason is not None:
            raise Refusal(reason, "")
        run = TwinRun(statics, self.numbers, self.unseen, self.chooses) if self.twinned else None

        def full(*dynamic: Any, **keywords: Any) -> Any:
            if state.identities:
                dynamic, keywords = tree.map(as_truth, (dynamic, keywords))
            arguments, keywords = self.merged(dynamic, keywords)
            with arguments_kept(found, [*dynamic, *keywords.values()]) as results:
                leaves = tree.leaves((dynamic, keywords)) if run is not None else ()
                result = f(*arguments, **keywords) if run is None else run.of(f, arguments, keywords, leaves)
                results.append(result)
                return result  # f is found in this cell by host/conversions.py

        store, writes, given = OutTree(), Writes(), Given(leaves)
        given.commits = True  # see jit_writes.py
        flat = writes.noting(flat_function(full, self.in_tree, store, self.title))
        flat = flat if run is None else run.storing(flat)
        flat = _taking(flat, run, self.given) if self.given else flat
        flat = _in_orders(flat, given)
        return Attempt(flat, store, writes, given, self, found, run)


def _taking(
    flat: Callable[..., list],
    run: TwinRun | None,
    places: Sequence[Place],
) -> Callable[..., list]:
    """The flat function, which takes the numbers at these places after its leaves."""

    def taking(*leaves: Any) -> list:
        n = len(leaves) - len(places)
        if run is not None:
            run.given = dict(zip(map(path_of, places), leaves[n:]))
        return flat(*leaves[:n])

    return taking


def _in_orders(flat: Callable[..., list], given: Given) -> Callable[..., list]:
    """The flat function, which notes how its results are to lie in memory."""

    def ordered(*leaves: Any) -> list:
        outs = flat(*leaves)
        given.orders = orders_of(outs, given.asked)
        return outs

    return ordered


class TwinRun:
    """One run of a function's twin, and what it stored."""

    __slots__ = ("statics", "inputs", "known", "guards", "stores", "outputs", "advancing", "orders", "given")
    __slots__ += ("stored", "ran", "unseen", "chooses")

    def __init__(self, statics: list[tuple[str, Any]], inputs: set[str], known: list[dict], chooses: Any):
        self.statics, self.inputs, self.known, self.chooses = statics, inputs, known, chooses
        self.guards: Guards | None = None
        self.given: dict[Any, Any] = {}
        self.ran: tuple[tuple[Any, bool], ...] = ()  # the user's codes that ran as they are, see reads/run.py
        self.unseen = False  # may these have stored something? What the program itself calls does so, too
        self.stored = False  # was something stored?
        self.stores: list[Store] = []
        self.outputs: list[Any] = []
        self.advancing: set[str] = set()  # labels of what is read and stored
        self.orders = True  # did it see in which order the keys of dicts among its arguments came?

    def of(self, f: Any, args: tuple, kwargs: dict, leaves: Sequence[Any]) -> Any:
        """The result of f, whose stores are taken back and noted; `leaves` are those of the arguments that are traced."""
        running = _running()
        observer = running.begin(f, self.statics, self.inputs)  # anew: the function may be started again
        observer.trace, observer.untwinned, observer.chooses = state.running, untwinned, self.chooses
        observer.orders.begin(args, kwargs)
        observer.given = dict(self.given)
        try:
            with running.under(observer, self.known) as twin:
                result = all_now((tracing.lending(f, twin) if makers and lends_all(f) else twin(f))(*args, **kwargs))
                if observer.refused is not None:
                    raise observer.refused
                if observer.unplaced is not None:
                    raise observer.unplaced
                self.stores, self.outputs = observer.stores.taken(leaves)
                self.advancing = observer.stores.advancing
                if observer.stores.variables and any(map(_calls_back, state.running.equations)):
                    raise Refusal("a context variable is set, and what the program calls may read it", "")
            if observer.storing:
                raise Refusal(f"{observer.storing}, which is called by a library, stores something", "")
            observer.orders.handed(result)
            result = observer.returned(result)
            self.guards, self.ran = observer.guards(), observer.ran
            effects = map(equation_has_effects, state.running.equations)
            self.unseen = bool(self.ran) and not any(effects)
            self.orders = observer.orders.seen or bool(self.ran)
            return result
        except Refusal as refusal:
            refusal.outside = (observer.guards() or Guards([])).listed()
            raise
        except Exception as error:
            needs = error if isinstance(error, BufferNeeded) else error.__cause__
            if observer.trace is not None and isinstance(needs, BufferNeeded):  # maybe of a trace inside, as of grad
                observer.trace.missed = observer.trace.missed or needs
            missed = observer.laters and isinstance(error, TypeError)  # of who takes texts only
            again = observer.trace is not None and observer.trace.missed is not None  # it starts again
            ours = again or isinstance(error, (FuncadError, Unplaced))
            if (observer.stores.some or missed) and not self.inputs and not ours:
                raise Raised(error) from error
            raise
        finally:
            self.stored = bool(observer.stores.some)
            observer.stores.undo()
            if observer.trace is not None and observer.trace.missed is not None:
                observer.trace.missed.undone = True
            observer.forget()

    def storing(self, flat: Callable[..., list]) -> Callable[..., list]:
        """The flat function with what is to be stored as further outputs, after all others."""
        return lambda *leaves: [*flat(*leaves), *flat_values(self.outputs)[0]]


def run_again(
    f: Any,
    statics: list[tuple[str, Any]],
    args: tuple,
    kwargs: dict,
    happened: list,
    error: Exception,
) -> Any:
    """f itself, after its program has raised this error: `happened` are its effects so far, which do not happen again.

    What f stores before it raises is stored. Where f does what cannot be seen, the program's error stands.
    """
    running = _running()
    observer = running.begin(f, statics, set())
    try:
        with running.under(observer, [{}]) as twin, setting(happened=([], happened)):
            return twin(f)(*args, **kwargs)
    except Refusal:
        observer.stores.undo()
        raise error from None
    finally:
        observer.forget()


def keeps_functions(jaxpr: Jaxpr) -> bool:
    """Does it call functions of the user's when it runs or is differentiated (callbacks, custom rules)?"""
    answer = jaxpr.memo.get("keeps_functions")
    if answer is None:
        answer = jaxpr.memo.setdefault("keeps_functions", any([_keeps_functions(e) for e in jaxpr.equations if e.params]))
    return bool(answer)


def _calls_back(equation: Equation) -> bool:
    return equation_has_effects(equation) or bool(equation.params) and _keeps_functions(equation)


def _keeps_functions(equation: Equation) -> bool:
    if _PLAIN.issuperset(map(type, equation.params.values())):
        return False
    own = not equation.primitive.fresh and any(map(_calls, equation.params.values()))
    return own or any(map(keeps_functions, subjaxprs(equation.params)))


_PLAIN = frozenset([int, float, bool, complex, str, bytes, type(None), np.dtype])


def _calls(x: Any) -> bool:
    if type(x) in (tuple, list):
        return not _PLAIN.issuperset(map(type, x)) and any(map(_calls, x))
    if type(x) is HostCall:
        return _calls(x.function)
    x = x.__func__ if type(x) is types.MethodType else x
    if type(x) is types.FunctionType and is_library(x):
        return any([_calls(content(cell)) for cell in x.__closure__ or ()])
    return type(x).__module__.startswith("funcad.custom") or callable(x) and not isinstance(x, type) and not is_library(x)
