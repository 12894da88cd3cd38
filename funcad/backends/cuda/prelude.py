"""NumPy's rules for one element in CUDA C++: what the operators and functions of the language compute otherwise.

Idea: composite atoms are functions that are written from their one statement (elements.py); here are the types and words that
they need, and functions of complex numbers that no other engine has. An order is by real parts first. Elementary functions are
formulas of the parts; at zeros, infinities and NaNs they are C99's, as NumPy's are, but for the sign of what C99 leaves open. A
float16 is converted to float for each operation, and rounded after it. Integers wrap, which is undefined for signed ones in
C++: sums and products are computed in unsigned long long and cut. Invariant: the text is C++ that NVRTC and g++ both compile,
and computes the same with both: no intrinsic, no header; only conversions of float16 have two texts, an instruction of the
GPU's and one in software.
"""

from funcad.backends.cuda.elements import composite_functions

__all__ = ["PRELUDE", "THREADS"]

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
_FUNCTIONS = r"""template <class T> FC bool fc_lt(fc_complex<T> a, fc_complex<T> b) {
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
PRELUDE = f"#define FC_THREADS {THREADS}\n{_TYPES}{composite_functions()}{_FUNCTIONS}"
