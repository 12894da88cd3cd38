"""A C library: the header and the source file of some functions, and the names that are allowed in them.

    write_library(path, functions, overwrite, constants) -> [path of the header, path of the source file]

Idea: the header says all that a caller needs: names, types and shapes, the size of the workspace, what was frozen, statuses,
and in one line of JSON the same for programs (`funcad.load_c` reads it). Invariants: of the user's words only identifiers that
were checked reach the files; all that a linker sees has the library's prefix; nothing is allocated, and nothing is kept between
calls. `<prefix>_abi()` is a number for this form of files and a hash of the signatures.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from funcad.backends.export import c_matrices, c_places, c_rules
from funcad.backends.export.c_elements import c_type, literal
from funcad.backends.export.c_program import LARGEST, CArray, CProgram
from funcad.backends.plans.element_plan import Unsupported, contiguous_strides
from funcad.ir.aval import StackAval
from funcad.ir.jaxpr import Jaxpr
from funcad.passes.example_loops import batch
from funcad.passes.fuse import fuse
from funcad.passes.pipeline import pipeline_end
from funcad.show.pretty import shown_as

WRITERS = (c_rules, c_places, c_matrices)  # loaded, so that their rules are known
ABI = 1  # what the header and the functions' parameters look like
STATUSES = ("OK", "INDEX", "SINGULAR", "INDEFINITE", "NUMBER")
_MEANINGS = (
    "the results are there",
    "a computed index is out of bounds (IndexError in Python)",
    "a matrix is singular (LinAlgError)",
    "a matrix is not positive definite (LinAlgError)",
    "Python would refuse these numbers (ValueError, OverflowError)",
)
_KEYWORDS = frozenset(  # of C, C11 and C23, and of C++
    (
        "auto break case char const continue default do double else enum extern float for goto if "
        "inline int long register restrict return short signed sizeof static struct switch typedef "
        "union unsigned void volatile whilealignas alignof and and_eq asm atomic_cancel atomic_commit "
        "atomic_noexcept bitand bitor bool catch char8_t char16_t char32_t class compl concept "
        "consteval constexpr constinit const_cast co_await co_return co_yield decltype delete "
        "dynamic_cast explicit export false friend mutable namespace new noexcept not not_eq nullptr "
        "operator or or_eq private protected public reflexpr reinterpret_cast requires static_assert "
        "static_cast synchronized template this thread_local throw true try typeid typename typeof "
        "typeof_unqual using virtual wchar_t xor xor_eq"
    ).split()
)
_MACROS = frozenset(  # and names that compilers predefine
    ("NULL EOF BUFSIZ NAN INFINITY FLT_EVAL_METHOD assert errno main I complex imaginary unix linux").split()
)
_LIBRARY = frozenset(  # what libc and libm export
    (
        "abort abs acos acosh asctime asin asinh atan atan2 atanh atexit atof atoi atol atoll bsearch "
        "calloc cbrt ceil clearerr clock copysign cos cosh ctime difftime div erf erfc exit exp exp2 "
        "expm1 fabs fclose fdim feof ferror fflush fgetc fgetpos fgets floor fma fmax fmin fmod fopen "
        "fprintf fputc fputs fread free freopen frexp fscanf fseek fsetpos ftell fwrite gamma getc "
        "getchar getenv gets gmtime hypot ilogb isalnum isalpha isblank iscntrl isdigit isfinite "
        "isgraph isinf islower isnan isnormal isprint ispunct isspace isupper isxdigit j0 j1 jn labs "
        "ldexp ldiv lgamma llabs lldiv llrint llround localeconv localtime log log10 log1p log2 logb "
        "longjmp lrint lround malloc mblen mbstowcs mbtowc memchr memcmp memcpy memmove memset mktime "
        "modf nan nearbyint nextafter nexttoward perror pow printf putc putchar puts qsort raise rand "
        "realloc remainder remove remquo rename rewind rint round scalbln scalbn scanf setbuf setjmp "
        "setlocale setvbuf signal signbit sin sinh snprintf sprintf sqrt srand sscanf strcat strchr "
        "strcmp strcoll strcpy strcspn strerror strftime strlen strncat strncmp strncpy strpbrk "
        "strrchr strspn strstr strtod strtof strtok strtol strtold strtoll strtoul strtoull strxfrm "
        "system tan tanh tgamma time tmpfile tmpnam tolower toupper trunc ungetc va_arg va_copy "
        "va_end va_start vfprintf vprintf vsnprintf vsprintf vsscanf wait wcstombs wctomb write read "
        "open close y0 y1 yn index select link connect bind"
    ).split()
)
_TAKEN = re.compile(r"U?INT(_?(LEAST|FAST))?\w*_(MIN|MAX|C)|(SIZE|PTRDIFF)_(MIN|MAX)|(fc|FC)_.*|.*_t|work|p?thread.*")


# -- names
#
# C keeps names to itself that a program must not define: keywords, what begins with _, what the included headers define as
# macros, and, for what a linker sees, all functions of its library, whose float and long double forms end in f and l. C++ keeps
# what has two _ in a row. The file's own names begin with fc_ or FC_; its functions call their parameters in0, out0 ..., so
# that the names in the header cannot meet those of variables.


class Exported(NamedTuple):
    """A function that is written: its symbol, its program with captured values, and the names of arguments and results."""

    symbol: str
    jaxpr: Jaxpr
    consts: Sequence[Any]
    inputs: Sequence[str]
    outputs: Sequence[str]


class Written(NamedTuple):
    """What was written of one: the signature, what was frozen, the text, and the bytes of the workspace."""

    signature: dict[str, Any]
    frozen: list[tuple[str, int]]
    text: str
    work: int


def check_name(name: str, what: str, symbol: bool = False) -> str:
    """ValueError for what is no identifier that C and C++ leave to programs."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        why = "is no identifier of C's (letters, digits and _, a letter first)"
    elif len(name) > 63:
        why = "is longer than the 63 letters that all compilers tell apart"
    elif name in _KEYWORDS:
        why = "is a keyword of C or C++"
    elif "__" in name or name in _MACROS or _TAKEN.fullmatch(name) or symbol and re.sub(r"[fl]?$", "", name) in _LIBRARY:
        why = "is reserved in C or C++, or used by the file"
    elif symbol and name in _LIBRARY:
        why = "is a function of C's library"
    else:
        return name
    raise ValueError(f"export_c: {what} {name!r} {why}.\nRemedy: another name.")


def _type_of(dtype: np.dtype) -> str:
    """The type in the header."""
    return {"c8": "float", "c16": "double"}.get(f"{dtype.kind}{dtype.itemsize}") or c_type(dtype)


def _described(dtype: np.dtype, shape: Sequence[int]) -> str:
    pairs = [*shape, 2] if dtype.kind == "c" else shape
    return _type_of(dtype) + "".join([f"[{n}]" for n in pairs])


def _bool_note(dtype: np.dtype) -> str:
    return {"b": " (0 or 1)", "c": " (real and imaginary parts)"}.get(dtype.kind, "")


# -- functions
#
# Arguments are pointers to the leaves, one after the other, then those to the results, then the workspace: numbers too, so that
# Fortran and R call them without a wrapper. Complex numbers are pairs in the header and structs in the file, which lie alike.


def _program(given: Exported) -> Jaxpr:
    for v in (*given.jaxpr.in_avals, *given.jaxpr.out_avals):
        if type(v) is StackAval or v.dtype.kind not in "biufc":
            raise Unsupported(f"an argument or result is {v}")
        c_type(v.dtype)
    program = pipeline_end(given.jaxpr)
    found = batch(program)
    inside = [e for q in found.equations if q.primitive.name == "fused" for e in q.params["jaxpr"].equations]
    return fuse(program if any(map(c_rules.shares, inside)) else found)


def write_function(given: Exported, constants: str) -> tuple[Written, CProgram]:
    """The text of one function; NotImplementedError, which names the operation and the line, if it has no C."""
    p = CProgram()
    try:
        return _function(p, given, constants), p
    except Unsupported as error:
        equation = next((e for e in reversed(p.equations) if e.source is not None), None)
        what = f": {shown_as(p.equations[-1])}" if p.equations else ""
        where = f" at {equation.source.short()}" if equation is not None and equation.source is not None else ""
        raise NotImplementedError(
            f"export_c of {given.symbol}{what}{where}: {error}.\n"
            "Remedy: compute that part outside, and take its result as an argument; export(path, ...) writes a module of "
            "Python's."
        ) from None


def _too_many(symbol: str) -> ValueError:
    return ValueError(
        f"export_c of {symbol}: it has captured more than {LARGEST >> 20} MB of arrays, too many to be numbers in a file.\n"
        'Remedy: constants="arguments", which makes arguments of them.'
    )


def _function(p: CProgram, given: Exported, constants: str) -> Written:
    jaxpr = _program(given)
    names = [check_name(n, "the argument") for n in given.inputs]
    outputs = [check_name(n, "the result") for n in given.outputs]
    n = len(given.consts)
    avals = jaxpr.in_avals
    values: list[Any] = []
    arguments = [(name, a.dtype, a.shape) for name, a in zip(names, avals[n:])]
    frozen: list[tuple[str, int]] = []
    for x, aval in zip(given.consts, avals):
        array = np.asarray(x, aval.dtype)
        if constants == "arguments" and array.shape:
            name = f"constant{len(arguments) - len(names)}"
            values.append(_parameter(p, f"in{len(arguments)}", aval.dtype, aval.shape))
            arguments.append((name, aval.dtype, aval.shape))
            continue
        told = f"constant {len(frozen)}: {_described(array.dtype, array.shape)}, {array.nbytes} bytes"
        frozen.append((told, array.nbytes))
        if sum([size for _, size in frozen]) > LARGEST:
            raise _too_many(given.symbol)
        values.append(p.given(array) if array.shape else literal(array[()], array.dtype))
    values += [_parameter(p, f"in{i}", a.dtype, a.shape) for i, a in enumerate(avals[n:])]
    results = [(name, a.dtype, a.shape) for name, a in zip(outputs, jaxpr.out_avals)]
    every = [name for name, _, _ in (*arguments, *results)]
    for name in every:
        if every.count(name) > 1:
            raise ValueError(f"export_c of {given.symbol}: two arguments or results are called {name!r}.\nRemedy: other names.")
    targets = [
        CArray(d, _cast(p, f"out{i}", d, ""), s, contiguous_strides(s), 0, f"out{i}") for i, (_, d, s) in enumerate(results)
    ]
    found = p.program(jaxpr, values, [t if t.shape else None for t in targets])
    for target, value in zip(targets, found):
        if target.shape:
            p.copy(value, target)
        else:
            p.line(f"{target.base}[0] = {p.e.convert(value, target.dtype).text};")
    parameters = [f"in{i}" for i in range(len(arguments))] + [f"out{i}" for i in range(len(results))]
    lines, work = p.text([*parameters, "fc_work"], given.symbol)
    kinds = [f"const {_type_of(d)} *" for _, d, _ in arguments] + [f"{_type_of(d)} *" for _, d, _ in results]
    head = ", ".join([*[kind + name for kind, name in zip(kinds, parameters)], "void *fc_work"])
    text = "\n".join([f"int {given.symbol}({head}) {{", *lines, "    return FC_OK;", "}"]).replace("@k", f"{given.symbol}_k")
    tables = [t.replace("@k", f"{given.symbol}_k") for t in p.tables]
    p.tables = [t for t in tables if re.search(rf"\b{t.partition('[')[0].rpartition(' ')[2]}\b", text)]
    signature = {
        "name": given.symbol,
        "arguments": [[name, d.name, list(s)] for name, d, s in arguments],
        "results": [[name, d.name, list(s)] for name, d, s in results],
        "work": work,
    }
    return Written(signature, frozen, text, work)


def _cast(p: CProgram, name: str, dtype: np.dtype, const: str) -> str:
    """A parameter as a pointer to elements: complex numbers are pairs in the header."""
    if dtype.kind != "c":
        return name
    found = p.fresh("z")
    p.line(f"{const}{c_type(dtype)} *{found} = ({const}{c_type(dtype)} *){name};")
    return found


def _parameter(p: CProgram, name: str, dtype: np.dtype, shape: tuple[int, ...]) -> Any:
    base = _cast(p, name, dtype, "const ")
    return CArray(dtype, base, shape, contiguous_strides(shape)) if shape else p.e.load(dtype, f"{base}[0]")


_TYPES = """typedef struct { float re, im; } fc_c64;
typedef struct { double re, im; } fc_c128;
static inline fc_c64 fc_c64_of(float re, float im) {
    fc_c64 z;
    z.re = re;
    z.im = im;
    return z;
}
static inline fc_c128 fc_c128_of(double re, double im) {
    fc_c128 z;
    z.re = re;
    z.im = im;
    return z;
}
"""


# -- files
#
# Both texts are made before one is written, so that what is refused leaves the files that are there. The hash is of the line of
# JSON in the header, which the library gives back as a number: a header and a library that do not belong together differ.


def _source(name: str, written: Sequence[Written], programs: Sequence[CProgram], abi: int) -> str:
    helpers: dict[str, str] = {}
    for p in programs:
        helpers.update(p.helpers)
    body = "\n\n".join([w.text for w in written])
    tables = "\n".join([t for p in programs for t in p.tables])
    used = "\n".join([tables, body, *helpers.values()])
    parts = [
        f'/* {name}.c: written by funcad; do not edit. {name}.h says how it is compiled and called. */\n#include "{name}.h"',
        "#include <math.h>\n#include <stdbool.h>\n#include <string.h>",
        "#if defined(__cplusplus)\n#define FC_RESTRICT __restrict\n#else\n#define FC_RESTRICT restrict\n#endif",
    ]
    if any(["cblas_" in text for text in helpers.values()]):
        parts.append("#ifdef FC_BLAS\n#include <cblas.h>\n#endif")
    parts.append("enum { " + ", ".join([f"FC_{status} = {i}" for i, status in enumerate(STATUSES)]) + " };")
    parts += [_TYPES] if "fc_c64" in used or "fc_c128" in used else []
    parts += ["\n".join(helpers.values())] if helpers else []
    parts += [tables] if tables else []
    parts.append(body)
    parts.append(f"uint64_t {name}_abi(void) {{\n    return UINT64_C({abi});\n}}")
    return "\n\n".join(parts) + "\n"


def _header(name: str, written: Sequence[Written], line: str) -> str:
    guard = f"{name.upper()}_H"
    parts = [
        f"/* {name}.h: written by funcad; do not edit.\n\n"
        f"   cc -std=c99 -O3 -ffp-contract=off -c {name}.c     (link with -lm; -DFC_BLAS takes products from CBLAS)\n"
        f"   cc -std=c99 -O3 -ffp-contract=off -shared -fPIC -o lib{name}.so {name}.c -lm     (for funcad.load_c)\n"
        f"   CMake: add_library({name} {name}.c) and target_compile_options({name} PRIVATE -ffp-contract=off)\n\n"
        "   Never with -ffast-math: NaN, infinities and signs of zero would not be those of Python.\n"
        "   Arrays are in C's order and do not overlap; each caller has its own workspace, aligned as malloc's.\n"
        "   Functions give a status, allocate nothing, keep nothing between calls, and may run in several threads at once. */",
        f"/* funcad: {line} */",
        f'#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern "C" {{\n#endif',
        "\n".join([f"#define {name.upper()}_{s} {i} /* {m} */" for i, (s, m) in enumerate(zip(STATUSES, _MEANINGS))]),
    ]
    for w in written:
        symbol = w.signature["name"]
        rows = []
        parameters = []
        for word, const in (("arguments", "const "), ("results", "")):
            for label, dtype, shape in w.signature[word]:
                dtype = np.dtype(dtype)
                rows.append(f"   {label}: {_described(dtype, shape)}{_bool_note(dtype)}{', a result' * (not const)}")
                parameters.append(f"{const}{_type_of(dtype)} *{label}")
        rows.append(f"   work: {w.work} bytes" + " (may be NULL)" * (not w.work))
        if w.frozen:
            rows.append("   frozen, as they were when the file was written:")
            rows += [f"     {text}" for text, _ in w.frozen]
        parts.append(
            f"#define {symbol.upper()}_WORK INT64_C({w.work})\n/* " + "\n".join(rows).lstrip() + " */\n"
            f"int {symbol}({', '.join([*parameters, 'void *work'])});"
        )
    parts.append(f"/* the form of these files and a hash of the signatures */\nuint64_t {name}_abi(void);")
    parts.append(f"#ifdef __cplusplus\n}}\n#endif\n\n#endif /* {guard} */")
    return "\n\n".join(parts) + "\n"


def abi_of(line: str) -> int:
    """The number of the form in the first byte, a hash of the signatures in the others."""
    return ABI << 56 | int.from_bytes(hashlib.sha256(line.encode()).digest()[:7], "big")


def write_library(path: Any, functions: Sequence[Exported], overwrite: bool, constants: str) -> list[str]:
    """Writes `path`.h and `path`.c; FileExistsError if one is there and not to be replaced."""
    if constants not in ("frozen", "arguments"):
        raise ValueError(f'export_c: constants is "frozen" or "arguments", not {constants!r}')
    path = os.fspath(path)
    name = check_name(os.path.basename(path), "the library's name", symbol=True)
    symbols = [check_name(given.symbol, "the function's name", symbol=True) for given in functions]
    taken = [s.upper() for s in symbols] + [f"{name}_abi".upper(), *[f"{name}_{s}".upper() for s in STATUSES]]
    for s in taken:
        if taken.count(s) > 1:
            raise ValueError(f"export_c: {s.lower()!r} would be there twice.\nRemedy: other names.")
    files = [f"{path}.h", f"{path}.c"]
    if not overwrite:
        for file in files:
            if os.path.exists(file):
                raise FileExistsError(f"export_c: {file} is there.\nRemedy: another name, or overwrite=True.")
    found = [write_function(given, constants) for given in functions]
    written, programs = [w for w, _ in found], [p for _, p in found]
    frozen = sum([size for w in written for _, size in w.frozen])
    if frozen > LARGEST:
        raise _too_many(name)
    line = json.dumps({"abi": ABI, "library": name, "functions": [w.signature for w in written]})
    texts = [_header(name, written, line), _source(name, written, programs, abi_of(line))]
    for file, text in zip(files, texts):
        with open(file, "w", encoding="ascii", newline="\n") as stream:
            stream.write(text)
    return files
