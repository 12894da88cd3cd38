"""The machine code of native calls: `entry`, the METH_FASTCALL function that all programs share, and what it is made of.

See wrapper.py for the idea. What is here is LLVM text with Python's and NumPy's C interfaces reached through a table, so that
no address is in the text and the code can be kept on disk. References: an object in `made` is owned until it is handed over;
every way out drops what is owned. Trap: an allocation may run other Python code (the garbage collector), so a plan is never
changed once it is in use: another memory order of the arguments gets a plan of its own, which is chained to the first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from funcad.backends.native.ir import Function, Module

API, PROGRAM, ARENA, ARENA_BYTES, ARENA_KEPT, N_IN, N_OUT, UNLOCK, HELPERS, NEXT, RECORDS = range(11)
RECORD = 6  # words of a record: kind, type, descr, ndim, dims, which (of an argument: strides, or null for C order)
KINDS = {"array": 0, "float": 1, "int": 2, "bool": 3, "complex": 4, "argument": 5, "constant": 6, "again": 7}
MIXED = 8  # an argument of rank 0: a NumPy scalar or an array

# name -> (what it returns, what it takes); the first entries of the table at plan[API]
FUNCTIONS = {
    "PyArray_New": ("ptr", "ptr, i32, ptr, i32, ptr, ptr, i32, i32, ptr"),
    "PyArray_Scalar": ("ptr", "ptr, ptr, ptr"),
    "PyTuple_New": ("ptr", "i64"),
    "PyTuple_SetItem": ("i32", "ptr, i64, ptr"),
    "Py_IncRef": ("void", "ptr"),
    "Py_DecRef": ("void", "ptr"),
    "PyFloat_FromDouble": ("ptr", "double"),
    "PyLong_FromLongLong": ("ptr", "i64"),
    "PyBool_FromLong": ("ptr", "i64"),
    "PyComplex_FromDoubles": ("ptr", "double, double"),
    "PyLong_AsLongLongAndOverflow": ("i64", "ptr, ptr"),
    "PyEval_SaveThread": ("ptr", ""),
    "PyEval_RestoreThread": ("void", "ptr"),
    "PyErr_CheckSignals": ("i32", ""),
    "PyErr_NoMemory": ("ptr", ""),
    "PyMem_RawMalloc": ("ptr", "i64"),
    "PyMem_RawFree": ("void", "ptr"),
}
OBJECTS = ("NotImplemented", "ndarray", "True")  # further entries
PLACES = {name: i for i, name in enumerate((*FUNCTIONS, *OBJECTS))}
DATA, NDIM, DIMS, STRIDES, DESCR, FLAGS, VALUE = 16, 24, 32, 40, 56, 64, 16  # byte offsets in arrays, and of a scalar's value
C_ORDER, ALIGNED = 0x1, 0x100  # flags of an array
MAX_PLANS = 4  # of one built-in, for different memory orders of its arguments


def entry_text() -> str:
    """The module that has `entry`, `run` (for ctypes) and `check`."""
    module = Module()
    for build in (_guard, _box, _check, _run, _attempt, _entry):
        name, parameters, returns = build.signature  # type: ignore[attr-defined]
        f = Function(module, name, parameters, returns, "nounwind")
        build(f, _EntryWriter(f))
        module.add(f)
    return module.text()


class _EntryWriter:
    """Shorthand for what the functions below do often."""

    def __init__(self, function: Any):
        self.f = function

    def at(self, pointer: str, offset: Any, kind: str = "i8") -> str:
        return self.f.put(f"getelementptr {kind}, ptr {pointer}, i64 {offset}")

    def read(self, pointer: str, offset: Any, kind: str = "i64", unit: str = "i8") -> str:
        return self.f.load(f"load {kind}, ptr {self.at(pointer, offset, unit)}")

    def word(self, pointer: str, index: Any, kind: str = "i64") -> str:
        return self.read(pointer, index, kind, "i64")

    def write(self, kind: str, value: str, pointer: str, index: Any = 0, unit: str = "i8") -> None:
        self.f.do(f"store {kind} {value}, ptr {self.at(pointer, index, unit)}")

    def equal(self, a: str, b: Any, kind: str = "i64") -> str:
        return self.f.put(f"icmp eq {kind} {a}, {b}")

    def api(self, name: str, table: str, *arguments: str) -> str:
        returns, kinds = FUNCTIONS[name]
        target = self.word(table, PLACES[name], "ptr")
        given = ", ".join([f"{k} {a}" for k, a in zip(kinds.split(", "), arguments)])
        call = f"call {returns} {target}({given})"
        if returns == "void":
            self.f.do(call)
            return ""
        return self.f.load(call)

    def leave(self, value: str) -> None:
        """Return from the middle of a function; what follows is in a block of its own."""
        self.f.do(f"ret {value}")
        self.f.open(self.f.label("after"))

    def leave_unless(self, condition: str, value: str) -> None:
        go, stop = self.f.label("go"), self.f.label("stop")
        self.f.do(f"br i1 {condition}, label %{go}, label %{stop}")
        self.f.open(stop)
        self.f.do(f"ret {value}")
        self.f.open(go)


def _signed(name: str, parameters: str, returns: str) -> Callable[..., Any]:
    def mark(build: Any) -> Any:
        pairs = [tuple(p.split(" ")) for p in parameters.split(", ")]
        build.signature = (name, pairs, returns)
        return build

    return mark


@_signed("guard", "ptr %record, ptr %object, ptr %scratch, ptr %table", "ptr")
def _guard(f: Any, w: _EntryWriter) -> None:
    """Where the data of an argument is; null if it is not what the record says. Python integers go to the scratch."""
    kind, wanted, own = w.word("%record", 0), w.word("%record", 1), w.read("%object", 8)
    with f.when(f.put(f"icmp ne i64 {kind}, {KINDS['array']}")):
        with f.when(w.equal(own, wanted)):
            with f.when(w.equal(kind, KINDS["int"])):
                overflow = w.at("%scratch", 8)
                value = w.api("PyLong_AsLongLongAndOverflow", "%table", "%object", overflow)
                w.leave_unless(w.equal(f.load(f"load i32, ptr {overflow}"), 0, "i32"), "ptr null")
                w.write("i64", value, "%scratch")
                w.leave("ptr %scratch")
            with f.when(w.equal(kind, KINDS["bool"])):
                true = w.equal("%object", w.word("%table", PLACES["True"], "ptr"), "ptr")
                w.write("i8", f.put(f"zext i1 {true} to i8"), "%scratch")
                w.leave("ptr %scratch")
            w.leave(f"ptr {w.at('%object', VALUE)}")
        w.leave_unless(w.equal(kind, MIXED), "ptr null")
    ndarray = w.word("%table", PLACES["ndarray"])
    w.leave_unless(w.equal(own, ndarray), "ptr null")
    w.leave_unless(w.equal(w.read("%object", DESCR), w.word("%record", 2)), "ptr null")
    ndim = w.word("%record", 3)
    w.leave_unless(w.equal(f.put(f"sext i32 {w.read('%object', NDIM, 'i32')} to i64"), ndim), "ptr null")
    flags, strides = w.read("%object", FLAGS, "i32"), w.word("%record", 5, "ptr")
    ordered = w.equal(strides, "null", "ptr")
    needed = f.put(f"select i1 {ordered}, i32 {C_ORDER | ALIGNED}, i32 {ALIGNED}")
    w.leave_unless(w.equal(f.put(f"and i32 {flags}, {needed}"), needed, "i32"), "ptr null")
    expected, found = w.word("%record", 4, "ptr"), w.read("%object", DIMS, "ptr")
    with f.when(f.put(f"xor i1 {ordered}, true")):
        own = w.read("%object", STRIDES, "ptr")
        with f.loop(0, ndim) as axis:
            w.leave_unless(w.equal(w.word(own, axis.index), w.word(strides, axis.index)), "ptr null")
            axis.next()
    with f.loop(0, ndim) as axis:
        w.leave_unless(w.equal(w.word(found, axis.index), w.word(expected, axis.index)), "ptr null")
        axis.next()
    f.do(f"ret ptr {w.read('%object', DATA, 'ptr')}")


@_signed("box", "ptr %record, ptr %data, ptr %table", "ptr")
def _box(f: Any, w: _EntryWriter) -> None:
    """A rank-0 result as a new object."""
    kind = w.word("%record", 0)
    with f.when(w.equal(kind, KINDS["float"])):
        w.leave(f"ptr {w.api('PyFloat_FromDouble', '%table', w.read('%data', 0, 'double'))}")
    with f.when(w.equal(kind, KINDS["int"])):
        w.leave(f"ptr {w.api('PyLong_FromLongLong', '%table', w.read('%data', 0))}")
    with f.when(w.equal(kind, KINDS["bool"])):
        value = f.put(f"zext i8 {w.read('%data', 0, 'i8')} to i64")
        w.leave(f"ptr {w.api('PyBool_FromLong', '%table', value)}")
    with f.when(w.equal(kind, KINDS["complex"])):
        parts = w.read("%data", 0, "double"), w.read("%data", 8, "double")
        w.leave(f"ptr {w.api('PyComplex_FromDoubles', '%table', *parts)}")
    f.do(f"ret ptr {w.api('PyArray_Scalar', '%table', '%data', w.word('%record', 2, 'ptr'), 'null')}")


@_signed("check", "ptr %context", "i32")
def _check(f: Any, w: _EntryWriter) -> None:
    """Run pending signal handlers; -1 with an exception set if one raised. Takes the lock (GIL) for it if it was let go."""
    table, state = w.word("%context", 0, "ptr"), w.word("%context", 1, "ptr")
    free = f.put(f"icmp ne ptr {state}, null")
    with f.when(free):
        w.api("PyEval_RestoreThread", table, state)
    answer = w.api("PyErr_CheckSignals", table)
    with f.when(free):
        w.write("ptr", w.api("PyEval_SaveThread", table), "%context", 8)
    f.do(f"ret i32 {answer}")


@_signed("run", "ptr %plan, ptr %slots", "i32")
def _run(f: Any, w: _EntryWriter) -> None:
    """Run the program on these data pointers, with working memory; the caller holds the lock (GIL). 3: no memory."""
    table, place = w.word("%plan", API, "ptr"), w.at("%plan", ARENA, "i64")
    context, memory = f.load("alloca [4 x ptr]"), f.load("alloca ptr")
    w.write("ptr", table, context)
    w.write("ptr", "null", context, 8)
    w.write("ptr", "@check", context, 16)
    w.write("ptr", w.word("%plan", HELPERS, "ptr"), context, 24)
    size = w.word("%plan", ARENA_BYTES)
    w.write("ptr", "null", memory)
    needed = f.put(f"icmp ne i64 {size}, 0")
    with f.when(needed):
        w.write("ptr", f.load(f"atomicrmw xchg ptr {place}, ptr null seq_cst"), memory)
        with f.when(w.equal(w.read(memory, 0, "ptr"), "null", "ptr")):
            new = w.api("PyMem_RawMalloc", table, f.put(f"add i64 {size}, 64"))
            w.leave_unless(f.put(f"icmp ne ptr {new}, null"), "i32 3")
            w.write("ptr", new, memory)
    own = w.read(memory, 0, "ptr")
    start = f.put(f"add i64 {f.put(f'ptrtoint ptr {own} to i64')}, 63")
    aligned = f.put(f"inttoptr i64 {f.put(f'and i64 {start}, -64')} to ptr")
    unlock = f.put(f"icmp ne i64 {w.word('%plan', UNLOCK)}, 0")
    with f.when(unlock):
        w.write("ptr", w.api("PyEval_SaveThread", table), context, 8)
    status = f.load(f"call i32 {w.word('%plan', PROGRAM, 'ptr')}(ptr %slots, ptr {aligned}, ptr {context})")
    with f.when(unlock):
        w.api("PyEval_RestoreThread", table, w.read(context, 8, "ptr"))
    with f.when(needed):
        kept = f.put(f"icmp ne i64 {w.word('%plan', ARENA_KEPT)}, 0")
        with f.when(kept):
            w.write("ptr", f.load(f"atomicrmw xchg ptr {place}, ptr {own} seq_cst"), memory)
        surplus = w.read(memory, 0, "ptr")
        with f.when(f.put(f"icmp ne ptr {surplus}, null")):
            w.api("PyMem_RawFree", table, surplus)
    f.do(f"ret i32 {status}")


@_signed("attempt", "ptr %plan, ptr %args, i64 %nargs", "ptr")
def _attempt(f: Any, w: _EntryWriter) -> None:
    """One plan: guard the arguments, allocate the results, run, hand over."""
    plan = "%plan"
    table = w.word(plan, API, "ptr")
    n_in, n_out = w.word(plan, N_IN), w.word(plan, N_OUT)
    both = f.put(f"add i64 {n_in}, {n_out}")
    slots, scratch = f.load(f"alloca ptr, i64 {both}"), f.load(f"alloca [2 x double], i64 {both}")
    made = f.load(f"alloca ptr, i64 {n_out}")
    refused = w.word(table, PLACES["NotImplemented"], "ptr")

    def refuse_unless(condition: str) -> None:
        with f.when(f.put(f"xor i1 {condition}, true")):
            w.api("Py_IncRef", table, refused)
            w.leave(f"ptr {refused}")

    def record(index: str) -> str:
        return w.at(plan, f.put(f"add i64 {f.put(f'mul i64 {index}, {RECORD}')}, {RECORDS}"), "i64")

    def drop(count: str) -> None:
        with f.loop(0, count) as each:
            w.api("Py_DecRef", table, w.word(made, each.index, "ptr"))
            each.next()

    refuse_unless(w.equal("%nargs", n_in))
    with f.loop(0, n_in) as each:
        given = w.word("%args", each.index, "ptr")
        own = w.at(scratch, each.index, "[2 x double]")
        data = f.load(f"call ptr @guard(ptr {record(each.index)}, ptr {given}, ptr {own}, ptr {table})")
        refuse_unless(f.put(f"icmp ne ptr {data}, null"))
        w.write("ptr", data, slots, each.index, "i64")
        each.next()
    with f.loop(0, n_out) as each:  # arrays are allocated; results of rank 0 get a place to be computed in
        own = f.put(f"add i64 {each.index}, {n_in}")
        line = record(own)
        kind = w.word(line, 0)
        w.write("ptr", w.at(scratch, own, "[2 x double]"), slots, own, "i64")
        w.write("ptr", w.word(table, PLACES["True"], "ptr"), made, each.index, "i64")  # until there is something better
        array = f.put(f"and i1 {w.equal(kind, KINDS['array'])}, {f.put(f'icmp ne i64 {w.word(line, 3)}, 0')}")
        w.api("Py_IncRef", table, w.word(made, each.index, "ptr"))
        with f.when(array):
            ndim, number = f.put(f"trunc i64 {w.word(line, 3)} to i32"), f.put(f"trunc i64 {w.word(line, 5)} to i32")
            ndarray = w.word(table, PLACES["ndarray"], "ptr")
            new = w.api("PyArray_New", table, ndarray, ndim, w.word(line, 4, "ptr"), number, "null", "null", "0", "0", "null")
            with f.when(w.equal(new, "null", "ptr")):
                drop(f.put(f"add i64 {each.index}, 1"))
                w.leave("ptr null")
            w.api("Py_DecRef", table, w.word(made, each.index, "ptr"))
            w.write("ptr", new, made, each.index, "i64")
            w.write("ptr", w.read(new, DATA, "ptr"), slots, own, "i64")
        each.next()
    status = f.load(f"call i32 @run(ptr {plan}, ptr {slots})")
    with f.when(f.put(f"icmp ne i32 {status}, 0")):
        drop(n_out)
        with f.when(w.equal(status, 3, "i32")):
            w.leave(f"ptr {w.api('PyErr_NoMemory', table)}")
        with f.when(w.equal(status, 1, "i32")):
            refuse_unless("false")
        w.leave("ptr null")
    with f.loop(0, n_out) as each:
        own = f.put(f"add i64 {each.index}, {n_in}")
        line = record(own)
        kind, which = w.word(line, 0), w.word(line, 5)
        place = w.at(slots, own, "i64")  # the slot has done its duty: the object goes there
        array = f.put(f"and i1 {w.equal(kind, KINDS['array'])}, {f.put(f'icmp ne i64 {w.word(line, 3)}, 0')}")
        with f.when(f.put(f"xor i1 {array}, true")):
            computed = f.put(f"icmp slt i64 {kind}, {KINDS['argument']}")
            with f.when(computed):
                data = w.read(place, 0, "ptr")
                w.write("ptr", f.load(f"call ptr @box(ptr {line}, ptr {data}, ptr {table})"), place)
                with f.when(w.equal(w.read(place, 0, "ptr"), "null", "ptr")):
                    drop(n_out)
                    w.leave("ptr null")
            with f.when(w.equal(kind, KINDS["argument"])):
                w.write("ptr", w.word("%args", which, "ptr"), place)
            with f.when(w.equal(kind, KINDS["again"])):
                w.write("ptr", w.word(made, which, "ptr"), place)
            with f.when(w.equal(kind, KINDS["constant"])):
                w.write("ptr", f.put(f"inttoptr i64 {which} to ptr"), place)
            value = w.read(place, 0, "ptr")
            with f.when(f.put(f"xor i1 {computed}, true")):
                w.api("Py_IncRef", table, value)
            w.api("Py_DecRef", table, w.word(made, each.index, "ptr"))
            w.write("ptr", value, made, each.index, "i64")
        each.next()
    with f.when(w.equal(n_out, 1)):
        w.leave(f"ptr {w.word(made, 0, 'ptr')}")
    result = w.api("PyTuple_New", table, n_out)
    with f.when(w.equal(result, "null", "ptr")):
        drop(n_out)
        w.leave("ptr null")
    with f.loop(0, n_out) as each:
        w.api("PyTuple_SetItem", table, result, each.index, w.word(made, each.index, "ptr"))
        each.next()
    f.do(f"ret ptr {result}")



@_signed("entry", "ptr %self, ptr %args, i64 %nargs", "ptr")
def _entry(f: Any, w: _EntryWriter) -> None:
    """The built-in: one plan after the other, until one takes the arguments."""
    place = f.load("alloca ptr")
    first = w.word(w.read("%self", DATA, "ptr"), 0, "ptr")
    w.write("ptr", first, place)
    table = w.word(first, API, "ptr")
    refused = w.word(table, PLACES["NotImplemented"], "ptr")
    with f.loop(0, MAX_PLANS) as each:
        plan = w.read(place, 0, "ptr")
        result = f.load(f"call ptr @attempt(ptr {plan}, ptr %args, i64 %nargs)")
        following = w.word(plan, NEXT, "ptr")
        other = f.put(f"and i1 {w.equal(result, refused, 'ptr')}, {f.put(f'icmp ne ptr {following}, null')}")
        with f.when(f.put(f"xor i1 {other}, true")):
            w.leave(f"ptr {result}")
        w.api("Py_DecRef", table, refused)
        w.write("ptr", following, place)
        each.next()
    w.api("Py_IncRef", table, refused)
    f.do(f"ret ptr {refused}")
