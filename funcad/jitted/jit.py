"""`jit`: trace once per signature, keep the program, call it as one equation.

Idea: the signature is the structure of the arguments, the avals of their leaves, the static values and the axis environment.
A `Jitted` object is called through its slot `__call__`: at first that is `Core.enter`, which flattens the arguments and asks
the cache (jit_cache.py); for signatures that come again, calls of their own are put before it (jit_call.py). Captured NumPy
arrays are read by reference at every call; what else f reads beside its arguments is compared at every call (watched.py).
A trace that captured tracers is not cached: they belong to one call. Inside an abstract trace the call is recorded as one
equation (or spliced, with `inline`). Trap: the written calls refer to the core and the core only weakly to the `Jitted`
object, so that arrays which a dead function had captured are free at once.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import MethodType
from typing import Any

from funcad import tree
from funcad.api.lane_trace import LaneTrace
from funcad.backends.engines import program_of
from funcad.configuration import checked_setting, config
from funcad.control.call import call_of
from funcad.errors import FuncadError, NotCompiledWarning, PathError
from funcad.host.devices import device_in_use
from funcad.host.progress import many_objects
from funcad.host.real_types import ordinary
from funcad.host.where import for_user, interrupted, noted, open_traces, setting, state
from funcad.ir.aval import aval_of
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.trace import any_tracer, plain_values
from funcad.ir.tracer import Tracer, array_type
from funcad.jitted import first_calls
from funcad.jitted.account import Abandoned, Cost
from funcad.jitted.attempts import run_again
from funcad.jitted.jit_cache import MAX_PROGRAMS, CacheInfo, Entry, Signature, cache_for
from funcad.jitted.jit_call import linked, looks, specialised_call, static_key, written_calls
from funcad.jitted.jit_inspect import Lowered, explained, exported, exported_to_c, kernel_text, profiled, source_text
from funcad.jitted.jit_misses import missed
from funcad.jitted.jit_parameters import check_parameters, check_placement, indices, names, refuse_unhashable, resolve, writable
from funcad.jitted.jit_writes import commit, may_commit, outputs_apart
from funcad.jitted.path_entries import successors
from funcad.jitted.path_recording import REFUSALS
from funcad.jitted.path_report import PathsExplanation, UnjittedExplanation, one_program, path_taken
from funcad.jitted.paths import SHORT, plainly
from funcad.jitted.tracing import Tracing, stored_before
from funcad.memo import Table, compare
from funcad.primitives.axis_env import axes_key
from funcad.primitives.placement import capture_as_inputs
from funcad.primitives.python_numbers import NotTheSame
from funcad.reads.places import value_at
from funcad.reads.refusals import Raised, Refusal, warn_once
from funcad.reads.stores import lock, write_back
from funcad.tree.same import itself

from funcad.api.border import (  # isort: skip
    Remade, api, binds, called, check_function, check_leaves, dress_as, is_method, is_no_argument, name_of, own_memory,
    positional_names, runs, sees_order,
)

_MOST_TRIES = 8  # calls of one call, because others changed what it reads


def disable_jit() -> Any:
    """A context in which jitted functions run as plain Python does.

    Returns
    -------
    context manager
        It holds in the thread that entered it.

    Notes
    -----
    Results, errors, `print` and the debugger are those of the function itself; loops of `scan` and `while_loop` are
    still traced. As `jax.disable_jit`. It raises nothing.

    Examples
    --------
    >>> import funcad
    >>> with funcad.disable_jit():
    ...     funcad.jit(lambda x: x if x > 0 else -x)(-2.0)
    2.0

    See also
    --------
    jit, clear_caches
    """
    return setting(jit_disabled=True)


@api
@binds
def jit(
    f: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    inline: bool = False,
    fast_math: bool = False,
    guards: bool = True,
    not_compiled: str | None = None,
) -> Any:
    """Compile f: trace it once for each signature of its arguments, and run the program from then on.

    Also a decorator, with or without options, of functions and of methods of any class, whose `self` is read and stored
    as f does.

    Parameters
    ----------
    f : callable
        A function of arrays, numbers and containers of them.
    static_argnums, static_argnames : int, str or sequence of them, optional
        Arguments that are ordinary hashable Python values. Each value has a program of its own.
    donate_argnums, donate_argnames : int, str or sequence of them, optional
        Arguments whose memory the result may take, if they are writeable, contiguous, own their data and share memory
        with no other argument. Use them no more. Small programs make new arrays all the same.
    inline : bool
        Splice the program into an enclosing one.
    fast_math : bool
        The compiler may use laws of real numbers, and round x * y + z once: NaN, infinities, signed zeros, overflow and
        the last digits may differ.
    guards : bool
        True, the default: `if`, `while` and `range` on values work, and what f reads beside its arguments stays fresh.
        False: they raise, as in JAX.
    not_compiled : {"warn", "ignore", "raise"}, optional
        What happens when a call has to run un-jitted; by default what `funcad.config.not_compiled` says.

    Returns
    -------
    callable
        It takes the arguments of f and returns what f returns: NumPy arrays and scalars, or CuPy arrays where these
        went in. It has the methods `lower(*args)`, `explain(*args)`, `profile(*args)`, `source(*args)`, `export(path,
        *args)`, `export_c(path, *args)`, `cache_info()` and `clear_cache()`, and pickles by name if f does, without the
        programs.

    Raises
    ------
    TypeError
        An argument is no array or number, or a static one is not hashable.
    TracerBoolConversionError
        Python asks for a value with `guards=False`, in the body of a loop, or in vmap. Else errors are those of f.

    Warns
    -----
    NotCompiledWarning
        Once, where f does what can be neither read again nor replayed (an iterator, a captured generator): it runs
        un-jitted.

    Notes
    -----
    A signature is the structure, the shapes and dtypes, and the static values. Its first call runs f itself, so that
    what is called once pays for no trace; the second one traces. Where sizes share a text, the fourth call of a new one
    does. The first one traces for arrays of more than a megabyte, inside other traces, on devices, with `guards=False`
    and with donated arguments.

    Where Python asks for a value (`if x > 0`, `while`, `range(n)`, the size of `x[mask]`), the program has *paths*:
    each is found by running f, and compiled when it comes again. Paths that never repeat run un-jitted after a while.
    What f reads beside its arguments is as fresh as in f: where a closure variable, global, default or attribute has
    changed, f is traced again, and a number that keeps changing becomes an input. Contents of NumPy arrays are read at
    every call. What f stores (`self.t += 1`) is stored at each call, and effects happen once a call. NumPy's warnings
    about values are not given. JAX traces at the first call, raises at `if x > 0`, and keeps what it read for ever.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> @funcad.jit
    ... def norm(x):
    ...     return np.sqrt(np.sum(x * x))
    >>> float(norm(np.array([3.0, 4.0])))
    5.0
    >>> relu = funcad.jit(lambda x: x if x > 0 else 0.0)
    >>> relu(2.0), relu(-2.0)
    (2.0, 0.0)
    >>> power = funcad.jit(lambda x, n: x**n, static_argnums=1)  # a program for each n
    >>> float(power(2.0, 3)), float(power(2.0, 4))
    (8.0, 16.0)

    See also
    --------
    vmap, grad, disable_jit, constant, explain_cache_misses, funcad.debug.compile_log
    """
    options = {
        "static_argnums": static_argnums,
        "static_argnames": static_argnames,
        "donate_argnums": donate_argnums,
        "donate_argnames": donate_argnames,
        "inline": inline,
        "fast_math": fast_math,
        "guards": guards,
        "not_compiled": not_compiled,
    }
    if f is None:
        return functools.partial(jit, **options)
    check_function(f, "jit")
    return Jitted(f, **options)


class Jitted(Remade):
    """What `jit` returns."""

    __slots__ = ("__call__", "_core", "__dict__", "__weakref__")
    binds = False  # one program serves many instances
    shown = ("cache_info", "clear_cache", "cuda", "explain", "export", "export_c", "lower", "profile", "source")
    __call__: Callable[..., Any]
    _kind: type[Core]

    def __init__(self, f: Any, **options: Any):
        dress_as(self, f)
        self._core = core = self._kind(f, **options)
        core.owner = weakref.ref(self)
        self.__call__ = core.enter

    def __repr__(self) -> str:
        return f"<jit of {called(self._core.f)}>"

    def remaking(self) -> tuple[Any, Callable[[Any], Any]]:
        return self._core.f, functools.partial(jit, **self._core.options)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        core, f = self._core, self._core.f
        if instance is None or not hasattr(type(f), "__get__") or f.__get__(instance, owner) is f:
            return self  # as f, which binds to nothing
        own = 0 not in core.static_nums and is_no_argument(instance, core.f)
        return MethodType(core.of_objects() if own else self, instance)

    def _core_for(self, args: tuple) -> Core:
        return self._core.of_objects()._core if self._core.is_called_on(args) else self._core

    @api
    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The traced program for these arguments (ShapeDtypeStructs will do), without running it."""
        core = self._core_for(args)
        entry = core.program("lower", args, kwargs)
        return Lowered(entry, name_of(core.f), core.ordered)

    @api
    def source(self, *args: Any, **kwargs: Any) -> str:
        """The program for these arguments (or ShapeDtypeStructs) as a Python module that needs NumPy and not funcad.

        Its `run(<leaves of the arguments>, xp=numpy)` gives the list of the output's leaves. Where the arguments or captured
        arrays are CuPy's, it needs CuPy: the text is the calls that run on the device.

        >>> import numpy as np, funcad
        >>> text = funcad.jit(lambda x: np.sin(x) * 2.0).source(funcad.ShapeDtypeStruct((3,), np.float64))
        >>> module = {}
        >>> exec(text, module)
        >>> module["run"](np.zeros(3))
        [array([0., 0., 0.])]
        """
        core = self._core_for(args)
        entry = core.program("source", args, kwargs)
        return source_text(entry, tree.leaves((args, kwargs)), core.argument_names(args), name_of(core.f))

    @api
    def cuda(self, *args: Any, **kwargs: Any) -> str:
        """The kernels of the program as it would run on a GPU with `config.engine = "cuda"`: CUDA C++, as NVRTC compiles it.

        Of NumPy's arrays and ShapeDtypeStructs, too: neither a GPU nor CuPy is needed. ValueError, which says why, if nothing
        has a kernel. As JAX's `lower(...).compile().as_text()`.

        >>> import numpy as np, funcad
        >>> text = funcad.jit(lambda x: np.exp(-x) * x).cuda(funcad.ShapeDtypeStruct((1000,), np.float32))
        >>> "const float v1 = expf(v0);" in text
        True
        """
        core = self._core_for(args)
        entry = core.program("cuda", args, kwargs)
        return kernel_text(entry, core.leaves_of(args, kwargs), name_of(core.f))

    @api
    def export(self, path: Any, *args: Any, **kwargs: Any) -> list[str]:
        """Write the module of `source` to a file, and large captured arrays to an .npz file beside it; gives their paths.

        >>> import numpy as np, funcad, os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     paths = funcad.jit(lambda x: x * 2.0).export(os.path.join(folder, "double.py"), np.zeros(3))
        ...     [os.path.basename(p) for p in paths]
        ['double.py']
        """
        core = self._core_for(args)
        entry = core.program("export", args, kwargs)
        return exported(path, entry, tree.leaves((args, kwargs)), core.argument_names(args), name_of(core.f))

    @api
    def export_c(
        self, path: Any, *args: Any, overwrite: bool = False, constants: str = "frozen", also: Any = None, **kwargs: Any
    ) -> list[str]:
        """Write `path`.h and `path`.c, the program for these arguments (or ShapeDtypeStructs) as a function of C99 that
        needs libm alone; gives their paths. The function has the file's name; the header says how to compile and call it.

        `also={"gradient": funcad.grad(f)}` puts further functions into the library, `<name>_gradient`, of the same arguments,
        or of others: `(g, *arguments)`. What is captured is frozen; `constants="arguments"` makes arguments of captured arrays.
        ValueError for a name that C reserves, and for captured arrays above 16 MB; FileExistsError without `overwrite`;
        NotImplementedError for what has no C: calls of Python, draws, prints, what is stored, eigenvalues, transforms, most
        special functions, sizes that depend on values.

        >>> import numpy as np, funcad, pathlib, tempfile
        >>> f = funcad.jit(lambda x: np.sum(np.sin(x) ** 2))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     paths = f.export_c(pathlib.Path(folder, "energy"), np.zeros(3), also={"gradient": funcad.grad(f)})
        ...     header = pathlib.Path(paths[0]).read_text()
        >>> "int energy_gradient(const double *x, double *out, void *work);" in header
        True
        """
        functions = [("", self._core_for(args), args, kwargs)]
        for name, given in dict(also or {}).items():
            g, *own = given if type(given) is tuple else (given, *args)
            core = (g if isinstance(g, Jitted) else jit(g))._core_for(tuple(own))
            functions.append((name, core, tuple(own), {} if type(given) is tuple else kwargs))
        return exported_to_c(path, functions, overwrite, constants)

    @api
    def explain(self, *args: Any, **kwargs: Any) -> Any:
        """What the compiler makes of the program for these arguments (or ShapeDtypeStructs): the engine and why it is that one,
        what runs together, what runs alone and why. `print` it; `.engine`, `.groups`, `.alone`, `.reasons` are data. With
        `config.engine = "cuda"` the kernels, registers and bytes, too, and by `.at(bandwidth)` the time; see help(found).

        `.outside` lists what the function reads beside its arguments and stores there, with what is done with it at each call
        ("read", "compared" or "stored") and the line; `.cost` is `cost()`. Where calls run un-jitted, `.reason` says why.

        >>> import numpy as np, funcad
        >>> with funcad.config.set(engine="numpy"):
        ...     found = funcad.jit(lambda x: np.exp(-x) * x).explain(funcad.ShapeDtypeStruct((1000,), np.float64))
        >>> found.engine, [group["operations"] for group in found.groups]
        ('numpy', [['neg', 'exp', 'mul']])
        """
        core = self._core_for(args)
        refused, name = core.cache.refused, name_of(core.f)
        try:
            leaves, entry = core.traced(args, kwargs)[:2]
        except Raised as raised:
            raise raised.__cause__ from None  # type: ignore[misc]
        except Refusal as refusal:
            return UnjittedExplanation(name, str(refusal), refusal.outside)
        except Exception as error:
            refused, entry = core.why_none(error), None
        if refused is not None:  # by what only a call comes to
            return UnjittedExplanation(name, refused, entry.watched.listed() if entry and entry.watched else [])
        paths = entry.paths is not None
        found = PathsExplanation(entry, name) if paths else explained(entry.as_of_now(core.f), leaves, name)
        found.cost = core.cache.account.told()
        return found

    @api
    def profile(self, *args: Any, **kwargs: Any) -> Any:
        """Where the time of a run on these arguments goes: per equation and per line of yours, with FLOPs, bytes and engine.

        It runs the program several times (but what has effects once) and leaves all arguments as they are, donated ones too.
        `print` it; `.seconds`, `.peak` (bytes), `.equations` and `.lines` are the same as data.

        >>> import numpy as np, funcad
        >>> found = funcad.jit(lambda x, y: np.exp(-x) @ y).profile(np.ones((100, 200)), np.ones(200))
        >>> found.seconds > 0, "dot_general" in [line.what for line in found.equations]
        (True, True)
        """
        core = self._core_for(args)
        leaves, entry = core.looked_at(args, kwargs)
        entry = path_taken(entry.as_of_now(core.f), leaves, name_of(core.f))
        return profiled(entry, leaves, name_of(core.f))

    def cache_info(self) -> CacheInfo:
        """Hits, misses and size of the program cache, as functools.lru_cache's, and how many first calls were observed."""
        cache = self._core.cache
        return CacheInfo(cache.hits, cache.misses, MAX_PROGRAMS, len(cache.entries), cache.first_calls)

    @api
    def cost(self) -> Cost:
        """What jit has spent on this function, beside what un-jitted calls would have taken, and what it decided and why.

        A Cost, in seconds of counted work: `.calls`, `.recording`, `.compiling`, `.unjitted`, `.decisions`; `print` it. No
        parameters; it raises nothing and runs nothing. JAX has nothing of the kind.

        >>> import funcad
        >>> f = funcad.jit(lambda x: 2.0 * x)
        >>> f(1.0), f(1.0), f.cost().calls  # the first call runs the function itself, the second one traces
        (2.0, 2.0, 2)
        """
        return self._core.cache.account.told()

    def clear_cache(self) -> None:
        """Forget this function's programs."""
        self._core.cache.clear()


class Core:
    """A function with jit's options: finds the program of a call, traces it if there is none, and runs it."""

    __slots__ = ("f", "options", "inline", "fast_math", "guards", "cache", "owner", "programs", "derivatives", "__weakref__")
    __slots__ += ("static_nums", "static_names", "donate_nums", "donate_names", "ordered", "not_compiled", "method")
    __slots__ += ("knows_self", "_of_objects")

    def __init__(
        self,
        f: Any,
        static_argnums: Any,
        static_argnames: Any,
        donate_argnums: Any,
        donate_argnames: Any,
        inline: bool,
        fast_math: bool,
        guards: bool,
        not_compiled: str | None,
    ):
        positional = positional_names(f)
        self.static_nums, self.static_names = resolve(indices(static_argnums), names(static_argnames), positional)
        self.donate_nums, self.donate_names = resolve(indices(donate_argnums), names(donate_argnames), positional)
        static = {"static_argnums": static_argnums, "static_argnames": static_argnames}
        check_parameters(f, **static, donate_argnums=donate_argnums, donate_argnames=donate_argnames)
        both = set(self.static_nums) & set(self.donate_nums) or set(self.static_names) & set(self.donate_names)
        if both:
            raise ValueError(f"jit: {both} is both static and donated; a static value has no buffer")
        self.f = f
        self.method = is_method(f)
        self.knows_self = False  # by identity: its first argument is an object that a method is called on
        self._of_objects: Jitted | None = None
        self.ordered = sees_order(f)
        self.inline = bool(inline)
        self.fast_math = bool(fast_math)
        self.guards = bool(guards)
        self.not_compiled = not_compiled if not_compiled is None else checked_setting("not_compiled", not_compiled)
        self.options = {
            "static_argnums": self.static_nums,
            "static_argnames": self.static_names,
            "donate_argnums": self.donate_nums,
            "donate_argnames": self.donate_names,
            "inline": self.inline,
            "fast_math": self.fast_math,
            "guards": self.guards,
            "not_compiled": self.not_compiled,
        }
        self.programs = (self.static_nums, self.static_names, self.fast_math, self.guards)  # what makes other programs
        self.cache = cache_for(f)
        what = "transform and its options: the jitted derivative, see derived_programs.py"
        self.derivatives = Table("jitted.derivatives", what, same=None)
        self.owner: Any = None

    def enter(self, /, *args: Any, **kwargs: Any) -> Any:
        """The general way: every call that no written call takes."""
        if state.jit_disabled:
            return runs(self.f)(*args, **kwargs)
        try:
            if self.method and self.is_called_on(args):  # `Class.method(instance, ...)`
                return self.of_objects()(*args, **kwargs)
            if self.cache.refused is not None:
                return self._un_jitted(args, kwargs)
            try:
                return self._call(args, kwargs)
            except Refusal as refusal:
                refused = refusal
            try:  # here, so that what f raises has no other error around it than in plain Python
                return self.runs_un_jitted(refused, args, kwargs)
            finally:
                del refused  # its traceback holds this frame
        except Exception as error:
            raise for_user(error)  # noqa: B904 the same error
        except BaseException as stop:
            raise interrupted(stop)  # noqa: B904 the same error

    def of_objects(self) -> Jitted:
        """The same for methods of classes whose instances are no arguments."""
        if self._of_objects is None:
            made = Jitted(self.f, **{**self.options, "static_argnums": (0, *self.static_nums)})
            made._core.knows_self, made._core.cache = True, self.cache
            self._of_objects = made
        return self._of_objects

    def is_called_on(self, args: tuple) -> bool:
        """Is the first argument an object that f, a method, is called on, and no argument of programs?"""
        if not self.method or self.knows_self or not args or 0 in self.static_nums:
            return False
        return is_no_argument(args[0], self.f)

    def _call(self, args: tuple, kwargs: dict, tries: int = 0) -> Any:
        with ExitStack() as making:
            return self._called(args, kwargs, tries, making)

    def _called(self, args: tuple, kwargs: dict, tries: int, making: ExitStack) -> Any:
        """`making`: a block in which the program is traced, if need be, and runs for the first time."""
        result: list[Any] = []
        leaves, entry, key = self.traced(args, kwargs, result, making)
        if result:
            return result[0]
        if state.lane is not None and (entry.jaxpr if entry.paths is None else entry.paths.trie).has_batch_rules:
            return self.f(*args, **kwargs)
        if device_in_use():
            check_placement(leaves, self.f)
        if entry.paths is not None:
            try:
                return self._along(args, kwargs, leaves, entry, key)
            except NotTheSame as error:
                if not self._runs_plainly(error, entry, args, kwargs):
                    raise
            return self.f(*args, **kwargs)
        if entry.itself and self.cache.runs_itself() and self._waits(entry, leaves):
            return self.f(*args, **kwargs) if entry.written else plainly(self, args, kwargs, bool(entry.stores))
        if entry.stores:
            return self._replayed(args, kwargs, leaves, entry, key, tries)
        captured = self._captured(entry)
        if captured is None:
            return self._again(args, kwargs, entry, tries)
        inputs = [*captured, *leaves]
        written = tree.leaves(self._split(args, kwargs)[1:]) if entry.written else []
        if entry.written and not may_commit(entry, written):
            return self.f(*args, **kwargs)
        try:
            outs = self._run(args, kwargs, entry, key, inputs)
            if entry.written:
                outs = commit(entry, written, inputs, outs, self.donated_ids(args, kwargs), name_of(self.f))
            return entry.out_tree.unflatten(outs)
        except Exception as error:
            if not self._runs_plainly(error, entry, args, kwargs):
                raise
        return self.f(*args, **kwargs)

    def _waits(self, entry: Entry, leaves: list) -> bool:
        """Is f to be run in the place of a program that is not compiled yet?"""
        if open_traces or state.abstract is not None or state.checked or state.observer is not None or any_tracer(leaves):
            return False
        entry.itself = program_of(entry.jaxpr).waits()
        return entry.itself

    def _run(self, args: tuple, kwargs: dict, entry: Entry, key: Signature, inputs: list) -> Sequence[Any]:
        """The results of a program without guards."""
        if entry.written:
            return call_of(entry.jaxpr, inputs, name_of(self.f))
        if any_tracer(inputs):
            if self.inline:
                return eval_jaxpr(entry.jaxpr, capture_as_inputs(inputs, inputs))
        elif self.donate_nums or self.donate_names:
            donated = self._donated(args, kwargs, inputs)
            outs = program_of(entry.jaxpr).run(inputs, donated)
            return own_memory(outs, [x for x in inputs if id(x) not in donated], entry.orders)
        else:
            self._comes_again(key, entry, args, kwargs)
        return own_memory(call_of(entry.jaxpr, inputs, name_of(self.f)), inputs, entry.orders)

    def _runs_plainly(self, error: Exception, entry: Entry, args: tuple, kwargs: dict) -> bool:
        """A program raised: is f itself to be run once un-jitted? It raises what Python raises, or catches it.

        Not where something has happened (a print, a callback, a donated array was written over), and not where f has been
        run already, to find its path: there the program's error stands.
        """
        effects = entry.jaxpr.has_effects if entry.paths is None else entry.paths.trie.has_effects
        inside = state.abstract is not None and not isinstance(state.abstract, LaneTrace)  # lanes that raise run apart
        if effects or state.checked or inside or self.donated_ids(args, kwargs):
            return False
        if entry.stores and entry.paths is None:
            return True  # what f stores before the error is Python's too
        return isinstance(error, REFUSALS) and (entry.paths is None or isinstance(error, NotTheSame))

    def _captured(self, entry: Entry) -> list | None:
        """The captured values of now; None if what the program depends on has changed meanwhile."""
        if state.observer is not None and entry.watched is not None:  # the program becomes a part of one that is traced
            found = state.observer.also(entry.watched, self.f)
            return None if found is None else [*found, *entry.consts[entry.watched.inputs :]]
        return entry.captured(self.f)

    def _again(self, args: tuple, kwargs: dict, entry: Entry, tries: int) -> Any:
        """The call once more, as what the program depends on has changed since it was found."""
        if tries < _MOST_TRIES:
            return self._call(args, kwargs, tries + 1)
        label, line = entry.watched.changed(self.f) if entry.watched is not None else ("what it reads", "")
        raise Refusal(f"{label} changes while it is called", line)

    def _replayed(self, args: tuple, kwargs: dict, leaves: list, entry: Entry, key: Signature, tries: int) -> Any:
        """A call of a function that stores in what was there before it: it is stored when the program has succeeded."""
        with lock:
            stored = entry.watched is not None and not entry.watched.holds(self.f)  # by another thread, meanwhile
            captured = None if stored else self._captured(entry)
            if captured is not None:
                return self._stores(args, kwargs, leaves, entry, key, captured)
        return self._again(args, kwargs, entry, tries)  # who traces takes a turn before this lock

    def _stores(self, args: tuple, kwargs: dict, leaves: list, entry: Entry, key: Signature, captured: list) -> Any:
        """The same, with the lock, where what it has read is as it was."""
        inputs = [*captured, *leaves]
        if entry.written and not may_commit(entry, leaves):
            return self.f(*args, **kwargs)
        donated = self.donated_ids(args, kwargs)
        if not (entry.written or donated or entry.jaxpr.has_effects or state.observer is not None or any_tracer(inputs)):
            self._comes_again(key, entry, args, kwargs)
        happened: list[Any] = []
        try:
            with setting(happened=(happened, [])):
                outs = call_of(entry.jaxpr, inputs, name_of(self.f))
        except Exception as error:
            if self._runs_plainly(error, entry, args, kwargs):
                return self.f(*args, **kwargs)
            inside = state.abstract is not None or state.observer is not None
            if state.checked or inside or not happened and donated:
                raise
            if not happened:  # what the program says, draws or calls comes after the error, which f may catch
                return self.f(*args, **kwargs)
            return run_again(self.f, self.static_values(args, kwargs), args, kwargs, happened, error)
        n = len(outs) - sum([store.count for store in entry.stores])
        outs = own_memory(outs, inputs, entry.orders)
        stored, outs = outs[n:], outs[:n]
        if state.observer is None and any_tracer(stored):
            stored = outputs_apart(entry.jaxpr, n, inputs, name_of(self.f)) or stored
        if entry.written:
            outs = commit(entry, leaves, inputs, outs, donated, name_of(self.f))
        write_back(entry.stores, self.f, stored, () if donated else leaves, state.observer, name_of(self.f))
        return entry.out_tree.unflatten(outs)

    # -- functions that are not compiled
    def refused(self, refusal: Refusal) -> None:
        """From now on the function's calls run un-jitted."""
        with self.cache.lock:
            self.cache.clear()
            self.cache.refused = str(refusal)
            self.cache.refuser = refusal.code or getattr(self.f, "__code__", None)

    def runs_un_jitted(self, refusal: Refusal, args: tuple, kwargs: dict) -> Any:
        if refusal.lasts:
            self.refused(refusal)
        return self._un_jitted(args, kwargs, refusal)

    def _un_jitted(self, args: tuple, kwargs: dict, refusal: Refusal | None = None) -> Any:
        """The function itself, and a warning, once, when its result stands."""
        if state.observer is not None:  # a part of a function that is traced, which is not compiled either
            return state.observer.runs_as(self.f, refusal)(*args, **kwargs)
        reason, policy = self.cache.refused, self.not_compiled or config.not_compiled
        if policy == "raise" and reason is not None:
            raise NotCompiledWarning(self._reason(reason))
        result = self._at_last(refusal, args, kwargs)
        if type(refusal) is Raised:  # the function itself raises nothing
            self.refused(refusal)
            reason = str(refusal)
            if policy == "raise":
                raise NotCompiledWarning(self._reason(reason))
        if policy == "warn" and reason is not None:
            warn_once(self.cache.refuser, reason, self._reason)
        return result

    def _at_last(self, refusal: Refusal | None, args: tuple, kwargs: dict) -> Any:
        """What f gives, whose effects that have happened in this call do not happen again."""
        if refusal is None or not refusal.happened:
            return runs(self.f)(*args, **kwargs)
        why = f"{name_of(self.f)} cannot be compiled, and this call, which has found that out, has had effects: {refusal}."
        error = refusal.error or PathError(f"{why}\nRemedy: call it again; from now on it runs un-jitted.")
        if not all([name for name, _ in refusal.happened]):
            raise error
        return run_again(self.f, self.static_values(args, kwargs), args, kwargs, refusal.happened, error)

    def _reason(self, reason: str) -> str:
        why, *more = reason.split("\n")
        more.append("Remedy: pass what changes as an argument, or jit the part that computes with arrays.")
        remedy = [line for line in more if line.startswith("Remedy: ")][0]  # of the error that it raised, if it says one
        told = f"jit of {name_of(self.f)} is not compiled: {why.rstrip('.')}."
        return f"{told} Its calls run un-jitted, and are right.\n{remedy}"

    def _along(self, args: tuple, kwargs: dict, leaves: list, entry: Entry, key: Signature) -> Any:
        """A call of a function that has guards."""
        if entry.given and state.observer is not None:  # whose program takes the numbers
            return state.observer.runs_as(self.f)(*args, **kwargs)
        says_and_stores = entry.paths.trie.has_effects and entry.paths.trie.stores and state.observer is None
        if entry.given or says_and_stores:
            with lock:
                if entry.watched is None or entry.watched.holds(self.f):
                    return self._tells(args, kwargs, leaves, entry, key)
            return self._call(args, kwargs, 1)  # another thread has stored meanwhile
        if state.observer is not None and state.observer.also(entry.watched, self.f) is None:
            raise Refusal(f"what {name_of(self.f)} reads is gone", "")
        donated = self.donated_ids(args, kwargs)
        if not any_tracer(leaves) and not donated:
            self._comes_again(key, entry, args, kwargs)
        return entry.paths.call(self, leaves, args, kwargs, donated, key.in_tree)

    def _tells(self, args: tuple, kwargs: dict, leaves: list, entry: Entry, key: Signature) -> Any:
        """A call along paths that take what the function advances, or that say something and store."""
        happened: list[Any] = []
        donated = self.donated_ids(args, kwargs)
        further = [value_at(place, self.f) for place in entry.given]
        try:
            with setting(happened=(happened, [])):
                return entry.paths.call(self, [*leaves, *further], args, kwargs, donated, key.in_tree)
        except Exception as error:
            stored_before(self, args, kwargs, happened, error)
            raise

    # -- calls written out for one signature
    def _comes_again(self, key: Signature, entry: Entry, args: tuple, kwargs: dict) -> None:
        entry.runs += 1
        if entry.runs == entry.write_at:
            self._write(key, entry, args, kwargs)

    def _write(self, key: Signature, entry: Entry, args: tuple, kwargs: dict) -> None:
        """Put a call of its own for this signature before the general way."""
        owner = self.owner()
        if owner is None or self.cache.entries.get(key) is not entry or entry.jaxpr.has_batch_rules:
            entry.write_at = -1
            return
        tiny = entry.stores and self.cache.account.tiny()
        if config.audit or key.axes or key.device != "cpu" or tiny and first_calls.rests(self, SHORT, args, kwargs):
            entry.write_at = entry.runs + 1
            return
        entry.write_at *= 8  # if its place is taken by others
        is_static = lambda at: at in self.static_names if isinstance(at, str) else self.is_static(at, len(args))
        program = program_of(entry.jaxpr) if entry.paths is None else entry.paths.program(self, key.in_tree)
        call = specialised_call(entry, args, kwargs, is_static, program, self.cache.tick, self.f, self.knows_self)
        if call is None:
            entry.write_at = -1
            return
        failed = functools.partial(self.failed, entry)
        call.__globals__.update(_entry=entry, _upgrade=functools.partial(self.upgrade, entry), _failed=failed)
        new = call, looks(args)
        self.cache.use(self, key, entry, lambda: self._link([new, *written_calls(owner, entry)], owner))

    def failed(self, entry: Entry, error: Exception, /, *args: Any, **kwargs: Any) -> Any:
        """The rest of a written call whose program, or look at names, raised."""
        try:
            at = error.__traceback__
            looked = at is not None and at.tb_next is None  # else the program's effects may have changed what f reads
            if looked and entry.watched is not None and not entry.watched.holds(self.f):
                return self.enter(*args, **kwargs)
            if not self._runs_plainly(error, entry, args, kwargs):
                raise error
            return self.f(*args, **kwargs)
        except Exception as found:
            raise for_user(found)  # noqa: B904 the same error
        finally:
            del error  # its traceback holds this frame

    def upgrade(self, entry: Entry) -> None:
        """The program has got faster means: let the next call of the signature be written anew."""
        owner = self.owner()
        if owner is not None:
            with self.cache.lock:
                self._link(written_calls(owner, entry), owner)
                entry.write_at = entry.runs + 1

    def _link(self, calls: list[Any], owner: Jitted, otherwise: Any = None) -> None:
        owner.__call__ = linked(calls, otherwise or self.enter)

    def drop(self, entry: Entry | None, otherwise: Any = None) -> None:
        """Called by the cache when an entry has been dropped, and where another way than the general one begins or ends."""
        owner = self.owner()
        if owner is not None:
            self._link(written_calls(owner, entry), owner, otherwise)

    def forget_written(self) -> None:
        """Called by the cache when it is cleared."""
        owner = self.owner()
        if owner is not None:
            owner.__call__ = self.enter

    # -- programs
    def traced(
        self, args: tuple, kwargs: dict, result: list | None = None, making: ExitStack | None = None
    ) -> tuple[list, Entry, Signature]:
        """The leaves of a call, its program, traced if need be, and its signature.

        `result` is given if it is a call: where it is observed, or tracing needs values, the function runs, and what it gave is
        put there.
        """
        statics, dynamic, keywords = self._split(args, kwargs)
        leaves, in_tree = tree.flatten((dynamic, keywords))
        avals = []
        for x in leaves:
            try:
                avals.append(aval_of(x))
            except TypeError:
                names = self.argument_names(args)
                check_leaves(leaves, f"jit of {name_of(self.f)}: argument", (dynamic, keywords), names, given=True)
        came, leaves = leaves, ordinary(plain_values(leaves) if Tracer in map(type, leaves) else leaves)
        shapes = tuple([(a.shape, a.dtype, a.weak) for a in avals])
        orders = in_tree.orders, tuple(kwargs) if self.ordered and len(kwargs) > 1 else None
        orders = None if orders == (None, None) else orders
        key = Signature(in_tree, orders, shapes, statics, self.programs, axes_key(), state.default_device, array_type(leaves))
        try:
            key, entry = self.cache.get(key, leaves, self.f)
        except TypeError:
            self._refuse_unhashable(args, kwargs)
            raise
        if entry is None and result is not None:
            self.cache.account.called()
        if entry is None and result is not None and first_calls.is_observed(self, key, came):
            if first_calls.observed(self, args, kwargs, in_tree, leaves, key, result):
                return leaves, entry, key  # type: ignore[return-value]
        if entry is None:
            adapted = noted.adapted
            ran = result is not None and key._replace(answers=(), orders=None) in self.cache.observed  # a trace may forget it
            with self.cache.turn.taken():
                key, entry = self.cache.find(key, leaves, self.f)
                if entry is None:
                    with missed(self.cache, key, self.f, self.argument_names(args)) as report:
                        self.cache.note_changes(key, self.f)
                        itself = result is not None and first_calls.may_run_itself(self, key, came)
                        most = self.cache.account.longest() if itself and first_calls.may_wait(self) else None
                        if making is not None:
                            making.enter_context(many_objects())
                        try:
                            tracing = Tracing(self, args, kwargs, in_tree, avals, leaves, result, most)
                            entry = tracing.entry(ran or result is not None and first_calls.may_replace(self, key, came))
                        except Abandoned:
                            most = -1
                        if most == -1:
                            first_calls.observed(self, args, kwargs, in_tree, leaves, key, result, False)  # type: ignore[arg-type]
                            return leaves, entry, key  # type: ignore[return-value]
                        if any_tracer(entry.consts):
                            report(f"jit of {name_of(self.f)}: the program is not kept, because it captured traced values")
                        elif result is not None or noted.adapted == adapted:  # else calls go by values (control/cond.py)
                            if orders is not None:
                                key, _ = self.cache.find_among(orders if entry.ordered else None, key, leaves, self.f)
                            if most is not None and entry.paths is None and not entry.jaxpr.has_effects:
                                entry.itself = self.cache.account.slower_by_steps(len(entry.jaxpr.equations))
                            self.cache.put(key, entry)
                            successors(self.cache, key, entry)
        elif config.audit and entry.paths is None:
            self._audit(entry, Tracing(self, args, kwargs, in_tree, avals, leaves).entry(), key)
        return leaves, entry, key

    def _audit(self, held: Entry, new: Entry, key: Signature) -> None:
        """Was the program that is held traced from what is there now? `new` was, which captures no traced value either."""
        held = held.as_of_now(self.f)
        inputs = [e.watched.inputs if e.watched is not None else 0 for e in (held, new)]
        if inputs[0] == inputs[1] and not any_tracer(new.consts):  # else numbers have become inputs since
            parts = [(e.jaxpr, e.consts, e.out_tree, e.written, e.returned) for e in (held, new)]
            compare("jitted.programs", (name_of(self.f), key), *parts)

    def program(self, what: str, args: tuple, kwargs: dict) -> Entry:
        """The one program of a signature, for `what`, with the captured values of now."""
        return one_program(self.looked_at(args, kwargs)[1], what, name_of(self.f)).as_of_now(self.f)

    def looked_at(self, args: tuple, kwargs: dict) -> tuple[list, Entry]:
        """The leaves and the program for somebody who wants to see it: that there is none is an error."""
        try:
            leaves, entry, _ = self.traced(args, kwargs)
            return [*leaves, *[value_at(place, self.f) for place in entry.given]], entry
        except Raised as raised:
            raise raised.__cause__ from None  # type: ignore[misc]
        except Refusal as refusal:
            reason = str(refusal)
        except Exception as error:
            reason = self.why_none(error)
        raise NotCompiledWarning(self._reason(reason))

    def why_none(self, error: Exception) -> str:
        """Why calls run un-jitted, where a trace for somebody who looks ends with an error; else that is raised."""
        asks = self.guards and isinstance(error, FuncadError)  # what a recording may
        if reason := self.cache.refused or (self.cache.account.unrepaid() if asks else None):
            return reason
        raise error

    def argument_names(self, args: tuple) -> list[str]:
        """Names of the positional arguments that are not static."""
        names = positional_names(self.f)
        n = len(args)
        return [names[i] if i < len(names) else f"argument {i}" for i in range(n) if not self.is_static(i, n)]

    def leaves_of(self, args: tuple, kwargs: dict) -> list:
        """What is not static, as programs take it."""
        return ordinary(tree.leaves(self._split(args, kwargs)[1:]))

    def is_static(self, i: int, n: int) -> bool:
        return i in self.static_nums or i - n in self.static_nums

    def _split(self, args: tuple, kwargs: dict) -> tuple[Any, tuple, dict]:
        if len(kwargs) > 1 and not self.ordered:
            kwargs = dict(sorted(kwargs.items()))
        if not self.static_nums and not self.static_names:
            return None, args, kwargs
        n = len(args)
        try:
            own = [itself(args[0])] if self.knows_self and args else []
            statics = (*own, *[static_key(a) for i, a in enumerate(args) if self.is_static(i, n) and i >= len(own)])
            named = tuple([(k, static_key(v)) for k, v in sorted(kwargs.items()) if k in self.static_names])
        except TypeError:
            self._refuse_unhashable(args, kwargs)
            raise
        dynamic = tuple([a for i, a in enumerate(args) if not self.is_static(i, n)])
        return (statics, named), dynamic, {k: v for k, v in kwargs.items() if k not in self.static_names}

    def static_values(self, args: tuple, kwargs: dict) -> list[tuple[str, Any]]:
        values = [(f"argument {i}", a) for i, a in enumerate(args) if self.is_static(i, len(args))]
        return values + [(f"argument {k!r}", v) for k, v in kwargs.items() if k in self.static_names]

    def _refuse_unhashable(self, args: tuple, kwargs: dict) -> None:
        refuse_unhashable(self.static_values(args, kwargs), name_of(self.f))

    def _chosen(self, args: tuple, kwargs: dict) -> list:
        """The donated arguments."""
        n = len(args)
        chosen = [a for i, a in enumerate(args) if i in self.donate_nums or i - n in self.donate_nums]
        return chosen + [v for k, v in kwargs.items() if k in self.donate_names]

    def donated_ids(self, args: tuple, kwargs: dict) -> frozenset[int]:
        return frozenset(map(id, tree.leaves(self._chosen(args, kwargs))))

    def _donated(self, args: tuple, kwargs: dict, inputs: list) -> frozenset[int]:
        """Ids of the donated buffers that may really be written."""
        return writable(tree.leaves(self._chosen(args, kwargs)), inputs)


Jitted._kind = Core
