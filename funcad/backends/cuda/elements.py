"""NumPy's rules for one element in CUDA C++: what the operators and functions of the language compute otherwise.

Idea: `CODE` has a text for each atom, by the kind of its dtype, where C++ computes what NumPy's ufunc computes; the others are
calls of functions of the prelude, templates that are written from the statement of each composite atom. An equation is its
formula, atom by atom, each a constant of its own, so that the text reads like the program. Invariant: arithmetic is bit for
bit NumPy's (nothing is contracted: NVRTC is told so), elementary functions are CUDA's own, within 2 ulp; what has no text is
`Unsupported`, and runs as a line of CuPy's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from funcad.backends.plans.element_plan import Unsupported
from funcad.backends.plans.element_writer import BOOL, C_FUNCTIONS, FLOAT32, FLOAT64, ElementWriter, c_code, part_of
from funcad.memo import remembers
from funcad.primitives.atoms import TRUTHS, UFUNCS
from funcad.primitives.composite_atoms import COMPOSITES

C_TYPES = {
    "bool": "bool", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int", "uint64": "unsigned long long",
    "float16": "fc_half", "float32": "float", "float64": "double",
    "complex64": "fc_complex<float>", "complex128": "fc_complex<double>",
}  # fmt: skip
_FLOAT16 = np.dtype(np.float16)
CODE = c_code("fc_word({0})", lambda name, sign: f"fc_{name}({{0}}, {{1}})", "signbit({0})") | {
    "c": {
        **{n: f"fc_{n}({{0}}, {{1}})" for n in "lt le gt ge maximum minimum fmax fmin pow".split()},
        **{n: f"fc_{n}({{0}})" for n in "reciprocal sign exp2 expm1 log2 log10 log1p sin cos tan sinh cosh tanh".split()},
        "rint": "fc_of(rint({0}.re), rint({0}.im))",
    },
}  # fmt: skip


class ElementValue(NamedTuple):
    """The value of one element."""

    dtype: np.dtype
    text: str


def c_type(dtype: Any) -> str:
    """The type in C++ of the elements of a dtype."""
    found = C_TYPES.get(np.dtype(dtype).name)
    if found is None:
        raise Unsupported(f"{dtype} has no CUDA code")
    return found


def literal(value: Any, dtype: np.dtype) -> ElementValue:
    """A number as C++ reads it back, bit for bit."""
    kind, ctype = dtype.kind, c_type(dtype)
    value = dtype.type(value)
    if kind == "c":
        return ElementValue(dtype, f"fc_of({', '.join([literal(x, part_of(dtype)).text for x in (value.real, value.imag)])})")
    if dtype == _FLOAT16:
        return ElementValue(dtype, f"fc_bits({value.view(np.uint16)})")
    if kind == "b":
        return ElementValue(dtype, "true" if value else "false")
    if kind in "iu":
        number = int(value)
        text = f"{number}{'ull' if kind == 'u' else 'll'}" if number > -(2**63) else "-9223372036854775807ll - 1"
        return ElementValue(dtype, f"(({ctype})({text}))")
    if math.isnan(value):
        return ElementValue(dtype, f"{ctype}({'-' if np.signbit(value) else ''}fc_nan())")
    if math.isinf(value):
        return ElementValue(dtype, f"{ctype}({'-' if value < 0 else ''}fc_infinity())")
    text = float(value).hex() + ("f" if dtype.itemsize == 4 else "")
    return ElementValue(dtype, f"({text})" if text.startswith("-") else text)


class Elements(ElementWriter):
    """Writes the statements of one element into `lines`."""

    literal = staticmethod(literal)
    c_type = staticmethod(c_type)

    def __init__(self) -> None:
        self.lines: list[str] = []

    def put(self, dtype: np.dtype, text: str) -> ElementValue:
        name = f"v{len(self.lines)}"
        self.lines.append(f"const {self.c_type(dtype)} {name} = {text};")
        return ElementValue(dtype, name)

    def convert(self, x: ElementValue, dtype: np.dtype) -> ElementValue:
        if x.dtype == dtype:
            return x
        if dtype == _FLOAT16:
            return self.put(dtype, f"fc_to_half({x.text if x.dtype in (FLOAT32, FLOAT64) else self._real(x, FLOAT32)})")
        if dtype.kind == "c":
            parts = [self._real(x, part_of(dtype)), f"{c_type(part_of(dtype))}({x.text}.im)" if x.dtype.kind == "c" else "0"]
            return self.put(dtype, f"fc_of<{c_type(part_of(dtype))}>({', '.join(parts)})")
        if dtype.kind == "b":
            whole = f" || {x.text}.im != 0" * (x.dtype.kind == "c")
            return self.put(dtype, f"{self._real(x)} != 0{whole}")
        return self.put(dtype, self._real(x, dtype))

    def _real(self, x: ElementValue, dtype: np.dtype | None = None) -> str:
        """The real part as C++'s number of a dtype, or as it is."""
        text = {"c": f"{x.text}.re", "f": f"fc_float({x.text})" if x.dtype == _FLOAT16 else x.text}.get(x.dtype.kind, x.text)
        if dtype is None or x.dtype.kind == "c" and dtype == part_of(x.dtype):
            return text
        through = "(long long)" if x.dtype.kind in "fc" and dtype.kind in "iu" and dtype.itemsize < 8 else ""
        return f"({c_type(dtype)}){through}{text}"

    def atom(self, name: str, *operands: Any) -> ElementValue:
        """The statement of one atom; of float16 it is computed in float, and rounded."""
        half = [type(x) is ElementValue and x.dtype == _FLOAT16 for x in operands]
        if not half[0] or name == "convert":
            found: ElementValue = super().atom(name, *operands)
            return found
        found = super().atom(name, *[self.convert(x, FLOAT32) if short else x for x, short in zip(operands, half)])
        return self.convert(found, _FLOAT16) if found.dtype == FLOAT32 else found

    def base(self, name: str, dtype: np.dtype, operands: Sequence[ElementValue]) -> ElementValue | None:
        kind, texts = dtype.kind, [x.text for x in operands]
        result = BOOL if name in TRUTHS or name == "below" else part_of(dtype) if name == "abs" else dtype
        if name in CODE[kind]:
            found = CODE[kind][name].format(*texts)
            return self.put(result, f"({self.c_type(dtype)})({found})" if kind in "iu" and result == dtype else found)
        if kind == "f" and name in C_FUNCTIONS:
            return self.put(result, f"{C_FUNCTIONS[name]}{'f' if dtype.itemsize == 4 else ''}({', '.join(texts)})")
        if kind == "b" or (name, kind) not in COMPOSITES or not _function(name, kind):
            return None
        return self.put(result, f"fc_{name}_{kind}({', '.join(texts)})")

    def choice(self, condition: ElementValue, a: ElementValue, b: ElementValue) -> ElementValue:
        return self.put(a.dtype, f"{condition.text} ? {a.text} : {b.text}")

    def power(self, x: ElementValue, n: int) -> ElementValue:
        return self.atom("pow", x, literal(n, x.dtype))

    def real(self, z: ElementValue) -> ElementValue:
        return ElementValue(part_of(z.dtype), f"{z.text}.re")

    def imag(self, z: ElementValue) -> ElementValue:
        return ElementValue(part_of(z.dtype), f"{z.text}.im")

    def pair(self, a: ElementValue, b: ElementValue) -> ElementValue:
        """The complex number of these parts."""
        return self.put(np.dtype(f"c{2 * a.dtype.itemsize}"), f"fc_of({a.text}, {b.text})")


class _Template(Elements):
    """Writes a function for all types T of a kind, for which the widest one stands here."""

    def c_type(self, dtype: np.dtype) -> str:
        return {"b": "bool", "c": "fc_complex<T>"}.get(dtype.kind, "T")

    def literal(self, value: Any, dtype: np.dtype) -> ElementValue:
        if dtype.kind != "c":
            return ElementValue(dtype, f"T({literal(value, dtype).text if dtype.kind == 'f' else value})")
        return ElementValue(dtype, f"fc_of({self.literal(value.real, FLOAT64).text}, {self.literal(value.imag, FLOAT64).text})")

    def sized(self, x: ElementValue, double: float, single: float) -> ElementValue:
        return self.put(x.dtype, f"sizeof(T) == 8 ? {self.like(x, double).text} : {self.like(x, single).text}")

    def width(self, x: ElementValue) -> ElementValue:
        return ElementValue(x.dtype, "T(8 * sizeof(T))")


@remembers()
def _function(name: str, kind: str) -> str:
    """The function of a composite atom, `fc_mod_i` of signed integers, say; nothing if it is one statement at most."""
    e, dtype = _Template(), np.dtype(f"{kind}{16 if kind == 'c' else 8}")
    operands = [ElementValue(dtype, x) for x in "ab"[: UFUNCS[name].nin]]
    found = COMPOSITES[name, kind](e, *operands)
    if len(e.lines) < 2:
        return ""
    parameters = ", ".join([f"{e.c_type(dtype)} {x.text}" for x in operands])
    head = f"template <class T> FC {e.c_type(found.dtype)} fc_{name}_{kind}({parameters}) {{"
    return "\n  ".join([head, *e.lines, f"return {found.text};"]) + "\n}\n"


def composite_functions() -> str:
    """The functions of composite atoms; those of bools are one operation."""
    return "".join([_function(name, kind) for name, kind in COMPOSITES if name not in CODE[kind] and kind != "b"])


# -- NumPy's rules for one element in CUDA C++: what the operators and functions of the language compute otherwise
#
# Idea: composite atoms are functions that are written from their one statement (below); here are the types and words that
# they need, and functions of complex numbers that no other engine has. An order is by real parts first. Elementary functions
# are formulas of the parts; at zeros, infinities and NaNs they are C99's, as NumPy's are, but for the sign of what C99 leaves
# open. A float16 is converted to float for each operation, and rounded after it. Integers wrap, which is undefined for signed
# ones in C++: sums and products are computed in unsigned long long and cut. Invariant: the text is C++ that NVRTC and g++ both
# compile, and computes the same with both: no intrinsic, no header; only conversions of float16 have two texts, an instruction
# of the GPU's and one in software.


THREADS = 256  # of a block: a power of two, for the tree of a sum
_TYPES = r"""#define FC static __device__ __forceinline__
typedef unsigned long long fc_word;
FC double fc_infinity() { double x = 1e308; return x * 10.0; }
FC double fc_nan() { return fabs(fc_infinity() - fc_infinity()); }
template <class T> FC T fc_add(T a, T b) { return T(fc_word(a) + fc_word(b)); }
template <class T> FC T fc_sub(T a, T b) { return T(fc_word(a) - fc_word(b)); }
template <class T> FC T fc_mul(T a, T b) { return T(fc_word(a) * fc_word(b)); }
template <class T> FC T fc_shuffle(T v, int o) { return T(__shfl_xor_sync(0xffffffffu, v, o)); }  // of thread t ^ o
struct fc_half { unsigned short bits; };
FC fc_half fc_bits(unsigned short bits) { fc_half h; h.bits = bits; return h; }
#ifdef __CUDA_ARCH__
FC float fc_float(fc_half h) { float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h.bits)); return x; }
FC fc_half fc_to_half(float x) { fc_half h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(x)); return h; }
FC fc_half fc_to_half(double x) { fc_half h; asm("cvt.rn.f16.f64 %0, %1;" : "=h"(h.bits) : "d"(x)); return h; }
#else
FC float fc_float(fc_half h) {
  int e = h.bits >> 10 & 31, m = h.bits & 1023;
  double x = e == 31 ? (m ? fc_nan() : fc_infinity()) : e ? ldexp(double(m + 1024), e - 25) : ldexp(double(m), -24);
  return float(h.bits >> 15 ? -x : x);
}
FC fc_half fc_to_half(double x) {
  unsigned sign = signbit(x) ? 32768u : 0u, found;
  double size = fabs(x);
  if (size != size) found = 32256u;
  else if (size >= 65520.0) found = 31744u;
  else {
    int e = 0;
    frexp(size, &e);  // size < 2 ** e
    if (e < -13 || size == 0.0) e = -13;  // the least step is that of subnormal numbers
    unsigned steps = unsigned(rint(ldexp(size, 11 - e)));  // to the even one
    found = steps + (unsigned(e + 13) << 10);  // the leading bit, if there is one, counts the exponent up
  }
  return fc_bits((unsigned short)(sign | found));
}
FC fc_half fc_to_half(float x) { return fc_to_half(double(x)); }
#endif
template <class T> struct alignas(2 * sizeof(T)) fc_complex { T re, im; };
template <class T> FC fc_complex<T> fc_of(T re, T im) { fc_complex<T> z; z.re = re; z.im = im; return z; }
"""
_HELPERS = r"""template <class T> FC bool fc_lt(fc_complex<T> a, fc_complex<T> b) {
  return (a.re < b.re && a.im == a.im && b.im == b.im) || (a.re == b.re && a.im < b.im);
}
template <class T> FC bool fc_le(fc_complex<T> a, fc_complex<T> b) {
  return (a.re < b.re && a.im == a.im && b.im == b.im) || (a.re == b.re && a.im <= b.im);
}
template <class T> FC bool fc_gt(fc_complex<T> a, fc_complex<T> b) { return fc_lt(b, a); }
template <class T> FC bool fc_ge(fc_complex<T> a, fc_complex<T> b) { return fc_le(b, a); }
template <class T> FC fc_complex<T> fc_maximum(fc_complex<T> a, fc_complex<T> b) {
  return fc_ge(a, b) || fc_ne_c(a, a) ? a : b;
}
template <class T> FC fc_complex<T> fc_minimum(fc_complex<T> a, fc_complex<T> b) {
  return fc_le(a, b) || fc_ne_c(a, a) ? a : b;
}
template <class T> FC fc_complex<T> fc_fmax(fc_complex<T> a, fc_complex<T> b) {
  return fc_ge(a, b) || fc_ne_c(b, b) ? a : b;
}
template <class T> FC fc_complex<T> fc_fmin(fc_complex<T> a, fc_complex<T> b) {
  return fc_le(a, b) || fc_ne_c(b, b) ? a : b;
}
template <class T> FC fc_complex<T> fc_reciprocal(fc_complex<T> a) {
  if (fabs(a.im) <= fabs(a.re)) {
    T ratio = a.im / a.re, scale = a.re + a.im * ratio;
    return fc_of(T(1) / scale, -ratio / scale);
  }
  T ratio = a.re / a.im, scale = a.re * ratio + a.im;
  return fc_of(ratio / scale, T(-1) / scale);
}
template <class T> FC fc_complex<T> fc_sign(fc_complex<T> a) {
  T size = hypot(a.re, a.im), nan = T(fc_nan());
  if (size != size) return fc_of(nan, nan);
  if (isinf(size)) {
    if (isinf(a.re) && isinf(a.im)) return fc_of(nan, nan);
    return isinf(a.re) ? fc_of(copysign(T(1), a.re), T(0)) : fc_of(T(0), copysign(T(1), a.im));
  }
  return size == T(0) ? fc_of(T(0), T(0)) : fc_of(a.re / size, a.im / size);
}
template <class T> FC T fc_times(T zero, T x) { return zero == T(0) ? zero * copysign(T(1), x) : zero * x; }  // 0 * inf is 0
template <class T> FC fc_complex<T> fc_scaled(fc_complex<T> z, T k) { return fc_of(z.re * k, z.im * k); }
template <class T> FC fc_complex<T> fc_exp2(fc_complex<T> z) { return fc_exp_c(fc_scaled(z, T(0.693147180559945309417))); }
template <class T> FC fc_complex<T> fc_expm1(fc_complex<T> z) {
  T a = sin(z.im / T(2));
  return fc_of(expm1(z.re) * cos(z.im) - T(2) * a * a, exp(z.re) * sin(z.im));
}
template <class T> FC fc_complex<T> fc_log2(fc_complex<T> z) { return fc_scaled(fc_log_c(z), T(1.442695040888963407360)); }
template <class T> FC fc_complex<T> fc_log10(fc_complex<T> z) { return fc_scaled(fc_log_c(z), T(0.434294481903251827651)); }
template <class T> FC fc_complex<T> fc_log1p(fc_complex<T> z) {
  return fc_of(log(hypot(z.re + T(1), z.im)), atan2(z.im, z.re + T(1)));
}
template <class T> FC fc_complex<T> fc_hyperbolic(fc_complex<T> z, bool odd) {  // sinh, or cosh
  T x = z.re, y = z.im, c = y == T(0) ? T(1) : cos(y), s = y == T(0) ? y : sin(y);
  if (x == T(0) && !isfinite(y)) return odd ? fc_of(x, T(fc_nan())) : fc_of(T(fc_nan()), x);
  if (isinf(x) && !isfinite(y)) return odd ? fc_of(x, T(fc_nan())) : fc_of(fabs(x), T(fc_nan()));
  T edge = sizeof(T) == 8 ? T(709) : T(88);
  if (fabs(x) > edge && !isinf(x)) {  // the product with a small sine or cosine need not overflow
    T root = exp(fabs(x) * T(0.5)), re = T(0.5) * root * c * root, im = fc_times(s, T(0.5) * root) * root;
    return odd ? fc_of(copysign(T(1), x) * re, im) : fc_of(re, copysign(T(1), x) * im);
  }
  T even = cosh(x), other = sinh(x);
  return odd ? fc_of(fc_times(other, c), fc_times(s, even)) : fc_of(even * c, fc_times(s, other));
}
template <class T> FC fc_complex<T> fc_sinh(fc_complex<T> z) { return fc_hyperbolic(z, true); }
template <class T> FC fc_complex<T> fc_cosh(fc_complex<T> z) { return fc_hyperbolic(z, false); }
template <class T> FC fc_complex<T> fc_sin(fc_complex<T> z) {
  fc_complex<T> w = fc_sinh(fc_of(-z.im, z.re));
  return fc_of(w.im, -w.re);
}
template <class T> FC fc_complex<T> fc_cos(fc_complex<T> z) { return fc_cosh(fc_of(-z.im, z.re)); }
template <class T> FC fc_complex<T> fc_tanh(fc_complex<T> z) {
  T x = z.re, y = z.im, far = sizeof(T) == 8 ? T(22) : T(11);
  if (!isfinite(y) && !isinf(x)) return fc_of(x == T(0) ? x : T(fc_nan()), T(fc_nan()));
  if (fabs(x) >= far) {
    T wave = isfinite(y) ? sin(y) * cos(y) : T(0);
    T size = exp(-fabs(x));
    return fc_of(copysign(T(1), x), y == T(0) ? y : wave == T(0) ? copysign(T(0), wave) : T(4) * wave * size * size);
  }
  T t = tan(y), beta = T(1) + t * t, s = sinh(x), rho = sqrt(T(1) + s * s), base = T(1) + beta * s * s;
  return fc_of(beta * rho * s / base, t / base);
}
template <class T> FC fc_complex<T> fc_tan(fc_complex<T> z) {
  fc_complex<T> w = fc_tanh(fc_of(-z.im, z.re));
  return fc_of(w.im, -w.re);
}
template <class T> FC fc_complex<T> fc_power(fc_complex<T> a, int n) {  // as NumPy takes powers up to 100
  fc_complex<T> one = fc_of(T(1), T(0)), found = one, zero = fc_of(T(0), T(0)), square = a;
  if (n == 0) return one;
  if (fc_eq_c(a, zero)) return n > 0 ? zero : fc_of(T(fc_nan()), T(fc_nan()));
  if (n == 1) return a;
  if (n == 3) return fc_mul_c(a, fc_mul_c(a, a));
  for (int k = n < 0 ? -n : n; k;) {
    if (k & 1) found = fc_mul_c(found, square);
    k >>= 1;
    if (k) square = fc_mul_c(square, square);
  }
  return n < 0 ? fc_div_c(one, found) : found;
}
template <class T> FC fc_complex<T> fc_pow(fc_complex<T> a, fc_complex<T> b) {
  if (b.im == T(0) && b.re == floor(b.re) && fabs(b.re) < T(100)) return fc_power(a, int(b.re));
  if (fc_eq_c(a, fc_of(T(0), T(0)))) return b.re > T(0) ? fc_of(T(0), T(0)) : fc_of(T(fc_nan()), T(fc_nan()));
  return fc_exp_c(fc_mul_c(b, fc_log_c(a)));
}
template <class T> FC fc_complex<T> fc_shuffle(fc_complex<T> v, int o) {
  return fc_of(fc_shuffle(v.re, o), fc_shuffle(v.im, o));
}
template <class T, int N> struct alignas(sizeof(T) * N) fc_pack { T part[N]; };
"""
PRELUDE = f"#define FC_THREADS {THREADS}\n{_TYPES}{composite_functions()}{_HELPERS}"
