"""What tracing remembers per thread, and where in the user's program an equation was written.

Idea: at recording time keep only the pair (code object, instruction offset) of the first frame outside funcad and numpy;
the line number and the function name are worked out when somebody prints them. Derived equations (jvp, transpose, batch)
inherit the location of the equation they come from, through `state.source`.
"""

from __future__ import annotations

import builtins
import dis
import itertools
import linecache
import os
import re
import sys
from _thread import _local, get_ident
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from opcode import opname
from types import CodeType, FrameType, TracebackType
from typing import Any

import numpy as np

from funcad.configuration import NamedTuple
from funcad.errors import BufferNeeded, FuncadError, TracerArrayConversionError, TracerIntegerConversionError
from funcad.host.locks import locked_arrays
from funcad.memo import table

# -- what tracing remembers per thread
#
# Idea: tracing is synchronous, so everything "currently open" is a field of one `threading.local`, which costs one attribute
# read on the hot path. Invariant: whoever sets a field restores it in a `finally`, so an exception inside a traced function
# leaves the thread as it was. Trap: never keep a value of this object across a call into user code without restoring it.


# Whatever a call without tracers must heed, in any thread: levels of the user functions being traced abstractly, and settings
# below that are not as usual. While it is empty, nothing needs to be looked up.
open_traces: set[Any] = set()


class _State(_local):
    staging: Any = None  # innermost open staging trace: bodies of cond, while, checkpoint, custom rules
    abstract: Any = None  # innermost open abstract trace: where effects are recorded
    source: Any = None  # location that derived equations inherit; None means "look at the stack"
    axis_env: tuple = ()  # ((name, size, index), ...), innermost last
    batching: Any = None  # name of the axis that batch_eval is removing now
    jit_disabled: bool = False
    running: Any = None  # the trace whose function runs now
    began: Any = None  # the frame that called the function of an un-jitted derivative, and the user's line behind it
    before_effect: Any = None  # is called before an effect happens: by whom effects must not happen yet (api/lanes.py)
    lane: Any = None  # who is told of rules for batches: of lanes that run as plain Python (api/split_batch.py), or jit in one
    happened: Any = None  # what effects of this run have given, and what they gave in a run before: those do not happen again
    scope: tuple = ()  # named_scope names
    engine: Any = None  # the engine that a program is being optimised for; None: the one that is set
    debug_nans: bool = False
    debug_infs: bool = False
    checked: Any = None  # how operations run while one of these two is set: checked(primitive, xp, args, params)
    debug_checks: bool = False
    default_device: str = "cpu"
    unread: tuple = ()  # variables that stand for Python's numbers, of which f must not make texts (reads/observer.py)
    identities: bool = False  # may Python compare truths by identity (`x is True`)? Then they are read, as `if` reads them
    drawing: tuple = ()  # who looks at generators before and after a draw that is replayed (jitted/left_behind.py)
    observer: Any = None  # who is told what the user's function reads and stores, while its twin runs (reads/)
    lender: Any = None  # who lends what the user's function makes to it, while its twin runs (reads/lending.py)
    explain_misses: Any = None  # whom explain_cache_misses tells
    told: Any = None  # the profile function of a net that is open here (twin/net.py)
    asks_again: bool = False  # is what runs now asked again at each call, so that no net is to hold it?

    def __init__(self) -> None:  # the dictionary of each thread has all fields: who reads many finds them there at once
        self.__dict__.update({name: vars(_State)[name] for name in _State.__annotations__})


class _Remarks(_local):
    text: str = ""  # of the last error because a traced value was to become an array; it stays, as a look-up may fail later
    adapted: int = 0  # times that branches of cond adapted to each other, which give other numbers un-jitted
    rows: int = 0  # of all un-jitted gradients so far: how much work they were, counted


noted = _Remarks()


class _Tracing:
    """The threads in which a function of the user's runs on traced values, and what is made ready before it does."""

    __slots__ = (
        *("threads", "ready", "prepare", "learned", "lend", "lending", "door_of", "origin", "shown_code"),
        *("own_code", "own_answer", "by_own_code", "added", "keep"),
    )

    def __init__(self) -> None:
        self.threads: dict[int, dict] = {}  # identity -> what is noted until its outermost trace closes
        self.ready = True  # False: `prepare` is called when the next trace is opened
        self.prepare: Callable[[], None] = lambda: None
        self.learned: Callable[[Any], bool] = lambda found: False  # hangs a door that a function turned out to need, if it can
        self.door_of: Callable[[Any], Any] = lambda f: f  # the door of a function that the user's code calls, if it has one
        self.origin: Any = _Tracing  # of the last constant of a twin's code, which has the code that stands for it (twin/)
        self.shown_code: Callable[[Any], Any] = lambda code: code  # the user's code, of a twin's (twin/)
        self.own_code: Callable[[Any], CodeType] = lambda f: f.__code__  # of a function, also of one that has a door's
        self.own_answer: Callable[[Any], Any] = lambda f: None  # who answers for a function without a rule: its own code
        self.lending: Callable[..., Any] = lambda f, how=None: f  # f, to which is lent whatever it makes (reads/lending.py)
        self.lend: Callable[[Any], Any] = lambda x: x  # makes an array one that can be written with traced values
        self.keep: Any = None  # records what may fail, and stays where that is in a `try` (jitted/handlers.py)
        self.added: Callable[[Any], Any] = lambda x: x  # stands for a traced array in `x[index] += value` (numpy/added.py)

    @contextmanager
    def here(self) -> Iterator[None]:
        """This thread runs a function of the user's on traced values. Where every microsecond counts, it is written out."""
        thread = get_ident()
        outermost = thread not in self.threads
        try:
            if outermost:
                self.threads[thread] = {}
                if not self.ready:
                    self.prepare()
            yield
        finally:
            if outermost:
                self.threads.pop(thread, None)


tracing, state = _Tracing(), _State()
_HEEDED = frozenset(["axis_env", "jit_disabled", "checked", "debug_checks", "default_device"])


@contextmanager
def setting(**fields: Any) -> Iterator[None]:
    """Set fields of the thread's state for the duration of a `with` block."""
    saved = {name: getattr(state, name) for name in fields}
    unusual = object() if any([name in _HEEDED and fields[name] != getattr(_State, name) for name in fields]) else None

    def restore() -> None:
        state.__dict__.update(saved)
        open_traces.discard(unusual)

    try:
        try:
            state.__dict__.update(fields)
            if unusual is not None:
                open_traces.add(unusual)
            yield
        finally:
            restore()
    finally:
        restore()  # again: Ctrl-C may have come in the midst of the first


class unseen:
    """A `with` block in which no code of the user's runs: a profile function that waits for it makes all three times slower."""

    __slots__ = ("told",)

    def __enter__(self) -> None:
        self.told = state.told if state.told is not None and sys.getprofile() is state.told else None
        if self.told is not None:
            sys.setprofile(None)

    def __exit__(self, *exception: object) -> None:
        if self.told is not None:
            sys.setprofile(self.told)


# -- where in the user's program an equation was written


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep
_SCIPY = os.path.join(os.path.dirname(_NUMPY[:-1]), "scipy") + os.sep
GENERATED = "<funcad>"  # the file name of programs that are written out as Python
_SUBSCRIPT = 26  # the operand of BINARY_OP that stands for a[x], from Python 3.14 on
internal = table(
    "host.internal",
    "file name: is it a file of funcad, NumPy or SciPy?",
)


def is_internal(filename: str) -> bool:
    """Does this file belong to funcad, numpy or scipy's wrappers rather than to the user?"""
    known = internal.get(filename)
    if known is None:
        tour = filename.startswith(_PACKAGE + "tour") or filename == _PACKAGE + "__main__.py"
        frozen = filename[:8] == "<frozen " and filename[8:].rstrip(">").partition(".")[0] in sys.stdlib_module_names
        ours = frozen or filename == GENERATED or filename.startswith((_PACKAGE, _NUMPY, _SCIPY, "<__array_function__"))
        known = internal.put(filename, ours and not tour)
    return known


def file_label(filename: str) -> str:
    """The file as a reader knows it: `Cell In[3]` for a notebook's cell, which has a file's name but no file."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    name = getattr(getattr(shell, "compile", None), "format_code_name", lambda filename: None)(filename)
    return " ".join(name) if name else filename


class Source(NamedTuple):
    """A place in the user's program; `scope` holds the `named_scope` names that were open."""

    code: CodeType
    offset: int
    scope: tuple[str, ...] = ()

    @property
    def line(self) -> int:
        last = self.code.co_firstlineno
        for start, end, line in self.code.co_lines():
            if start <= self.offset < end:
                return line if line is not None else last
        return last

    def __str__(self) -> str:
        scope = "/".join(self.scope) + " " if self.scope else ""
        return f"{scope}{file_label(self.code.co_filename)}:{self.line} ({self.code.co_name})"

    def short(self) -> str:
        """`file.py:12 (function)`, for printed jaxprs."""
        scope = "/".join(self.scope) + " " if self.scope else ""
        return f"{scope}{os.path.basename(file_label(self.code.co_filename))}:{self.line} ({self.code.co_name})"


def located(code: CodeType) -> CodeType:
    """The code that stands for a twin's in locations: the same lines at the same offsets, one for the twins of all traces."""
    constants: Any = code.co_consts
    return constants[-1].rewritten.code if constants and type(constants[-1]) is tracing.origin else code


def user_source(depth: int = 2) -> Source | None:
    """The location that an equation recorded now belongs to; `depth`: how many frames from here are ours at least."""
    here = state.__dict__
    if here["source"] is not None:
        return here["source"]
    frame, get, began = sys._getframe(depth), internal.get, here["began"]
    while frame is not None:
        code = frame.f_code
        known = get(code.co_filename)
        if known is None:
            known = is_internal(code.co_filename)
        if not known:
            if here["observer"] is not None:  # this is `located`, written out as it is asked for each equation
                constants: Any = code.co_consts
                code = constants[-1].rewritten.code if constants and type(constants[-1]) is tracing.origin else code
            return tuple.__new__(Source, (code, frame.f_lasti, here["scope"]))
        if began is not None and frame is began[0] and began[1] is not None:  # where it began has been looked for
            return line_of(began)
        frame = frame.f_back  # type: ignore[assignment]
    return None


def line_of(began: tuple[FrameType, Source]) -> Source:
    """The user's line behind the call of a derivative's function (`state.began`): of what no line within that made."""
    line = began[1]
    return line if line.scope is state.scope else line._replace(scope=state.scope)


handing: set[CodeType] = set()  # codes that stand between the user's line and what it calls (reads/calls.py)


def users_frame(depth: int) -> FrameType:
    """The frame of the code that calls, `depth` frames above the caller of this."""
    frame: FrameType = sys._getframe(depth + 1)
    while frame.f_code in handing and frame.f_back is not None:
        frame = frame.f_back
    return frame


def outside(depth: int) -> int:
    """The `stacklevel` by which a warning, given `depth` frames above the caller of this, names the user's line."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and (level < depth or is_internal(frame.f_code.co_filename)):
        level += not frame.f_code.co_filename.startswith("<frozen importlib._bootstrap")  # Python does not count these
        frame = frame.f_back
    return level


def caller() -> tuple[str, list[str]]:
    """What of the user's called into funcad: ("numpy" or "scipy", its functions), or an operation.

    That is ("subscript", []) for `a[x]`, ("store", []) for `a[i] = x`, ("", []) for others.
    The functions are named from the one that the user called to the innermost: "take", "optimize.brentq".
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    if frame is not None and not is_internal(frame.f_code.co_filename):
        operation, operand = frame.f_code.co_code[frame.f_lasti : frame.f_lasti + 2]
        name = opname[operation]
        subscript = name in ("BINARY_SUBSCR", "BINARY_SLICE") or (name == "BINARY_OP" and operand == _SUBSCRIPT)
        return "subscript" if subscript else "store" if name in ("STORE_SUBSCR", "STORE_SLICE") else "", []
    found: dict[str, list[str]] = {"scipy": [], "numpy": []}
    while frame is not None and is_internal(frame.f_code.co_filename):
        parts = itertools.takewhile(lambda part: part[:1] != "_", str(frame.f_globals.get("__name__")).split(".")[1:])
        library = "scipy" if frame.f_code.co_filename.startswith(_SCIPY) else "numpy"
        if not frame.f_code.co_filename.startswith(("<frozen", _PACKAGE)):  # of a door, an import, or handing
            code = frame.f_code  # of a method, with its class
            name = getattr(code, "co_qualname", code.co_name).rpartition("<locals>.")[2]
            found[library].insert(0, ".".join([*parts, name]))
        frame = frame.f_back
    return next(((library, names) for library, names in found.items() if names), ("", []))


def is_stored(how: str) -> bool:
    """Is the number asked for because it is written into a plain array? Then the array must become a buffer."""
    return how in ("float", "complex", "array", "indices") and caller()[0] == "store"


def _part(frame: FrameType) -> tuple[str, str, str]:
    """The lines that run, as one, cut before and behind the part of them that runs; "" where there is no source."""
    code = frame.f_code
    line, end, start, stop = next(itertools.islice(code.co_positions(), frame.f_lasti // 2, None))
    if line is None or end is None or start is None or stop is None:
        return "", "", ""
    lines = [linecache.getline(code.co_filename, n).encode() for n in range(line, end + 1)]
    pieces = lines[0][:start], b"".join([*lines[:-1], lines[-1][:stop]])[start:], lines[-1][stop:]
    before, part, behind = [" ".join(piece.decode(errors="replace").split()) for piece in pieces]
    return before, part, behind


def users_text() -> tuple[str, str, str]:
    """What the user wrote that called into funcad: what is before it in its line, itself, and what is behind it."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    return ("", "", "") if frame is None else _part(frame)


def opening(text: str, pair: str) -> int:
    """Where the bracket is opened with whose end the text ends; 0 if nowhere behind its first letter."""
    first, last = tuple(pair)
    for i in range(len(text) - 1, 0, -1):
        if text[i] == first and text[i:].count(first) == text[i:].count(last):
            return i
    return 0


def callee() -> tuple[str, Any]:
    """What the user's line calls that called into funcad, by its name ("np.float64"), and the object if it is known.

    ("", None) where that is no call of a name. It is told by instructions, since code may have no source: those that load it
    begin where the call begins.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return "", None
    places = list(frame.f_code.co_positions())
    here = places[frame.f_lasti // 2]
    parts: list[str] = []
    calls, end = False, None  # of the last part: what a twin asks about a callee stands at its place
    for made in dis.get_instructions(frame.f_code):
        if made.offset > frame.f_lasti:
            break
        at, name = places[made.offset // 2], made.argval
        loads = made.opname.startswith("LOAD_") and type(name) is str
        calls = calls or at == here and "CALL" in made.opname
        if at == here or (at[0], at[2]) != (here[0], here[2]) or at[3] == end and not loads:
            continue
        told = made.opname == "LOAD_CONST" and end is not None and (at[3] or 0) > end  # a twin asks about it
        of_it = told or made.opname in ("LOAD_ATTR", "LOAD_METHOD")
        parts = [] if not loads or of_it and not parts else [*parts, name] if of_it else [name]
        end = at[3]
    if not calls:
        return "", None
    if not parts:
        whole = _part(frame)[1]
        name = whole[: opening(whole, "()")] if whole.endswith(")") else ""
        method = name.rpartition(".")[2]
        if method.isidentifier() and name != method:
            return name, None  # of something that has no name
        parts = whole.partition("(")[0].split(".")  # what made that which is called
        if not all([part.isidentifier() for part in parts]):
            return "", None
    found = frame.f_globals.get(parts[0], getattr(builtins, parts[0], None))
    for part in parts[1:]:
        found = getattr(found, part, None)
    return ".".join(parts), found


def users_call() -> Any:
    """The function that the user's code called, from which ours was called: the code of one in Python, or the object."""
    frame: FrameType | None = sys._getframe(2)
    found = None
    while frame is not None and is_internal(frame.f_code.co_filename):
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            found = frame.f_code
        frame = frame.f_back
    return callee()[1] if found is None else found


others: list[Callable[[CodeType, dict[str, Any]], bool]] = []  # asks whether a module is written for another library


def written_for_others(f: Any = None) -> bool:
    """Is f, or the user's code that called here, written for a library whose arrays do not change, for which funcad stands?"""
    if not others:
        return False
    if f is not None:
        return hasattr(f, "__code__") and any([asks(f.__code__, f.__globals__) for asks in others])
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and any([asks(frame.f_code, frame.f_globals) for asks in others])


_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


def is_installed(filename: str) -> bool:
    """Whether it is a file of somebody's library."""
    return any([part in filename for part in _INSTALLED])


def strip_traceback(traceback: TracebackType | None, within: bool = True) -> TracebackType | None:
    """The traceback without funcad's frames; unchanged if FUNCAD_TRACEBACK=full or if nothing of the user's is in it.

    `within=False`: without those of the library that the user called last, either.
    """
    if os.environ.get("FUNCAD_TRACEBACK") == "full":
        return traceback
    kept: list[TracebackType] = []
    entry = traceback
    while entry is not None:
        filename = entry.tb_frame.f_code.co_filename
        if not filename.startswith(_PACKAGE) and filename != GENERATED:
            kept.append(entry)
        entry = entry.tb_next
    ends = [i for i, item in enumerate(kept, 1) if not is_installed(item.tb_frame.f_code.co_filename)]
    if not within and ends:
        del kept[ends[-1] :]
    for item, following in zip(kept, [*kept[1:], None]):
        if item.tb_next is not following:  # in place: code may tell entries, and `except*` whole tracebacks, by identity
            item.tb_next = following
    return kept[0] if kept else None


def note_source(error: BaseException, source: Source | None) -> None:
    """Name the user's line in an error raised while an equation ran (once)."""
    if source is None or getattr(error, "_funcad_source", False):
        return
    try:
        error._funcad_source = source  # type: ignore[attr-defined]
    except AttributeError:  # exceptions with __slots__: without the mark the note may appear twice
        pass
    if hasattr(error, "locate"):  # its own message names the line (NanError)
        error.locate(source)
    else:
        error.add_note(f"funcad: while running an operation written at {source}")


def handlers_around(code: CodeType, place: int) -> Iterator[tuple[int, list[str]]]:
    """The handlers of errors around a place, from the innermost: where what each covers begins, and its first instructions."""
    entries, seen = list(_exception_table(code)), set()
    while True:
        target = next((target for start, end, target in entries if start <= place < end), None)
        if target is None or target in seen:
            return
        names = [opname[op] for op in code.co_code[target : target + 400 : 2] if opname[op] != "CACHE"]
        yield min([start for start, _, to in entries if to == target]), names
        seen.add(target)
        place = target


def _exception_table(code: CodeType) -> Iterator[tuple[int, int, int]]:
    """(start, end, handler) of each entry, in bytes of the code's instructions."""
    table: Any = iter(code.co_exceptiontable)

    def number() -> int:
        byte = next(table)
        value = byte & 63
        while byte & 64:
            byte = next(table)
            value = value << 6 | byte & 63
        return value

    while table.__length_hint__():
        start, length, target, _ = number() * 2, number() * 2, number() * 2, number()
        yield start, start + length, target


def is_tried(source: Source) -> bool:
    """Does it stand in a `try` that has an `except`?"""
    found = [names for _, names in handlers_around(source.code, source.offset) if names[0] == "PUSH_EXC_INFO"]
    return any([names[1] == "POP_TOP" or "CHECK_EXC_MATCH" in names for names in found])


_READ_ONLY = ("assignment destination is read-only", "output array is read-only")  # in NumPy's words
after_interrupts: list[Callable[[], None]] = []  # whoever else may be left in the middle


def interrupted(stop: BaseException) -> BaseException:
    """Ctrl-C came, perhaps between a line that set the location and the `try` that would have set it back, or on its last.

    It is raised on without our frames, and without what was handled when it came: in a notebook these are a hundred lines.
    """
    state.source = None
    stop.with_traceback(strip_traceback(stop.__traceback__)).__suppress_context__ = True
    frame = sys._getframe(1).f_back
    while frame is not None and not str(frame.f_globals.get("__name__")).startswith("funcad."):
        frame = frame.f_back
    if frame is None:  # else it may end in a function that we run, which goes on
        for recover in after_interrupts:  # what our frames held is gone
            recover()
    return stop


def is_locked(error: BaseException) -> bool:
    """Does NumPy say that an array cannot be written? It does so before it looks at the value."""
    return isinstance(error, ValueError) and str(error) in _READ_ONLY


_NO_MEMORY = "a bytes-like object is required, not 'Tracer'"


def wants_memory(error: BaseException) -> bool:
    """Was a traced value to be the memory of something, as by `super().__new__(cls, x.shape, float, x)` of a subclass?"""
    return type(error) is TypeError and str(error) == _NO_MEMORY


_IN_C = (
    "code in C asked for an array; funcad.scipy.sparse.linalg.splu(A).solve(b) takes traced values, call others in "
    "funcad.pure_callback."
)
OF_LIBRARY = "call the library in funcad.debug.callback, or in funcad.pure_callback for its result: it needs a real array"
FOREIGN = {  # what others say when they get a traced value or an array, and what to do
    "is not JSON serializable": "return the value, and write it outside; or write it in funcad.debug.callback.",
    "must be numpy.ndarray, not Tracer": _IN_C,
    "(expected numpy.ndarray, got Tracer)": _IN_C,
    "No numeric types to aggregate": "np.lib.stride_tricks.sliding_window_view(x, n).mean(-1) for pandas' rolling(n).mean() of "
    "a traced x; call its other windows in funcad.pure_callback.",
    "Function call with ambiguous argument types": "np.diff(x) for pandas' diff() of a traced x.",
    _NO_MEMORY: "np.asarray(x).view(cls) for np.ndarray.__new__(cls, x.shape, float, x); call others in funcad.pure_callback.",
    "for 'numpy.ndarray' objects doesn't apply to a 'Tracer'": "call its own method, x.flatten() for np.ndarray.flatten(x).",
    "object __array__ method not producing an array": "give the array, not an object that holds it: x.data of xarray's.",
    "can be converted to Python scalars": "np.sin(x) takes arrays, math.sin(x) one number; and so for the others of math.",
}


def static_number(trace: str) -> str:
    """What to do about a number that Python needs while f is traced: only an argument of jit's can be static."""
    if trace.startswith("jit("):
        return "make the argument static, jit(..., static_argnums=...): then it is Python's own number when f is traced"
    return "give the largest size that it has there, most, and np.arange(most) < n selects the elements that count"


def for_user(error: Exception) -> Exception:
    """The error without our frames; what NumPy says of traced elements (`a[i] = x`) and shapes explained."""
    traceback = strip_traceback(error.__traceback__, not isinstance(error, FuncadError))
    cause, context = error.__cause__, error.__context__
    if isinstance(error, FuncadError) and type(context) is AttributeError and "a traced " in str(context):
        error.__suppress_context__ = True  # a library asked for an attribute first
    while type(error) is SystemError and isinstance(cause, Exception):  # code in C went on calling in spite of our error
        error, cause = cause, cause.__cause__
    if type(error) is AttributeError and noted.text and type(error.obj).__module__.startswith("funcad."):
        if hasattr(error.obj, error.name or ""):  # it has it: a look-up fails where code in C goes on in spite of our error
            error = TracerArrayConversionError(noted.text)
    went_on = ("Result from function call is not a proper array of floats.", "f(a) and f(b) must have different signs")
    if str(error) in went_on:  # what SciPy's code in C says when it has gone on in spite of our error
        error.add_note("Remedy for traced values: call funcad.scipy.optimize.root, brentq, least_squares or curve_fit.")
    source: Any = getattr(error, "_funcad_source", True)
    if source is not True:
        error._funcad_source = True  # type: ignore[attr-defined]  # no code, which is not pickled
        if is_tried(source):
            error.add_note(
                "It stands in a `try` that was over when it ran: bodies of scan, cond, while_loop ... are traced once, for all "
                "values.\nRemedy: funcad.cond(c, f, g, x), by a c that says without an error which way to go."
            )
    has_notes = hasattr(error, "__notes__")
    if is_locked(error) and not has_notes:
        held = locked_arrays()
        error.add_note(
            "\n".join(["funcad.debug.locked_arrays() lists what a derivative needs, locked until it is deleted:", *held])
            if held
            else "funcad has locked the array until the call of grad, jit or their kind returns: the function has read it."
        )
        error.add_note("Remedy: K = np.array(K) inside the function makes a copy that can be written, with traced values too.")
    theirs = "" if has_notes or isinstance(error, FuncadError) else str(error)
    for told, remedy in FOREIGN.items():
        if told in theirs:
            error.add_note(f"Remedy: {remedy}")
    if type(error) is AttributeError and error.name == "at" and type(error.obj) is np.ndarray and not has_notes:
        error.add_note("Remedy: funcad.numpy.at(x)[i].set(v), which takes NumPy's arrays too.")
    if type(error) is TypeError and str(error).startswith("expected a sequence of integers"):
        got = re.search(r"Tracer<\S+ in ([^=]*)>'$", str(error))
        if got is not None:
            error = TracerIntegerConversionError(
                f"np.zeros, np.ones, np.empty or their like got a traced number as shape, but inside {got[1]} it has "
                "no value.\n"
                f"Remedy: {static_number(got[1])}."
            )
            error.__suppress_context__ = True
    if type(error) is ValueError and isinstance(cause, BufferNeeded):  # NumPy's words for it say nothing
        error, cause = cause, None
    if type(error) is ValueError and type(cause) is TracerArrayConversionError:
        what, _, rest = str(cause).partition(" of a traced ")
        error = TracerArrayConversionError(
            f"writing into a NumPy array (a[i] = x or a.fill(x)) of a traced {rest.partition(chr(10))[0]}\n"
            "Remedy: a = funcad.numpy.at(a)[i].set(x), which gives a new array; or take funcad.stop_gradient(x) first if no "
            "derivative is wanted."
        )
        error.__suppress_context__ = True
    return error.with_traceback(traceback)
