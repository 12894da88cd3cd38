"""NumPy's rules for one element in CUDA C++: what the operators and functions of the language compute otherwise.

Invariant: the text is C++ that NVRTC and g++ both compile, and computes the same with both: no intrinsic, no header. Integers
wrap, which is undefined for signed ones in C++: sums and products are computed in unsigned long long and cut. Complex numbers
and float16 are in prelude_numbers.py.
"""

from funcad.backends.cuda.prelude_numbers import NUMBERS

__all__ = ["PRELUDE", "THREADS"]

THREADS = 256  # of a block: a power of two, for the tree of a sum

PRELUDE = (
    f"#define FC_THREADS {THREADS}\n"
    + r"""#define FC static __device__ __forceinline__
typedef unsigned long long fc_word;
FC double fc_infinity() { double x = 1e308; return x * 10.0; }
FC double fc_nan() { return fabs(fc_infinity() - fc_infinity()); }
template <class T> FC T fc_add(T a, T b) { return T(fc_word(a) + fc_word(b)); }
template <class T> FC T fc_sub(T a, T b) { return T(fc_word(a) - fc_word(b)); }
template <class T> FC T fc_mul(T a, T b) { return T(fc_word(a) * fc_word(b)); }
template <class T> FC T fc_neg(T a) { return T(fc_word(0) - fc_word(a)); }
template <class T> FC T fc_abs(T a) { return a < T(0) ? fc_neg(a) : a; }
template <class T> FC T fc_power(T a, int n) {
  T found = T(1);
  for (; n; n >>= 1) { if (n & 1) found = fc_mul(found, a); a = fc_mul(a, a); }
  return found;
}
template <class T> FC T fc_quotient(T a, T b, T& rest) {  // cut towards zero; a division by 0 gives 0
  if (b == T(0)) { rest = T(0); return T(0); }
  if (T(-1) < T(0) && b == T(-1)) { rest = T(0); return fc_neg(a); }
  T q = T(a / b);
  rest = T(a - q * b);
  return q;
}
template <class T> FC T fc_floor_divide_i(T a, T b) {
  T rest, q = fc_quotient(a, b, rest);
  return rest != T(0) && ((rest < T(0)) != (b < T(0))) ? T(q - T(1)) : q;
}
template <class T> FC T fc_mod_i(T a, T b) {
  T rest;
  fc_quotient(a, b, rest);
  return rest != T(0) && ((rest < T(0)) != (b < T(0))) ? T(rest + b) : rest;
}
template <class T> FC T fc_fmod_i(T a, T b) { T rest; fc_quotient(a, b, rest); return rest; }
template <class T> FC T fc_shift_left(T a, T b) {
  return b < T(0) || fc_word(b) >= 8 * sizeof(T) ? T(0) : T(fc_word(a) << fc_word(b));
}
template <class T> FC T fc_shift_right(T a, T b) {
  return b < T(0) || fc_word(b) >= 8 * sizeof(T) ? (a < T(0) ? T(-1) : T(0)) : T(a >> b);
}
template <class T> FC T fc_divmod(T x, T y, T& rest) {  // as Python and NumPy define it for floats
  rest = fmod(x, y);
  if (y == T(0)) return x / y;
  T q = (x - rest) / y;
  if (rest == T(0)) rest = copysign(T(0), y);
  else if ((y < T(0)) != (rest < T(0))) { rest += y; q -= T(1); }
  if (q == T(0)) return copysign(T(0), x / y);
  T low = floor(q);
  return q - low > T(0.5) ? low + T(1) : low;
}
template <class T> FC T fc_floor_divide(T x, T y) { T rest; return fc_divmod(x, y, rest); }
template <class T> FC T fc_mod(T x, T y) { T rest; fc_divmod(x, y, rest); return rest; }
template <class T> FC T fc_maximum(T a, T b) { return a > b || a != a ? a : b; }
template <class T> FC T fc_minimum(T a, T b) { return a < b || a != a ? a : b; }
template <class T> FC T fc_fmax(T a, T b) { return a > b || b != b ? a : b; }
template <class T> FC T fc_fmin(T a, T b) { return a < b || b != b ? a : b; }
template <class T> FC T fc_sign(T a) { return a != a ? a : T((a > T(0)) - (a < T(0))); }
template <class T> FC T fc_logaddexp(T a, T b) {
  if (a == b) return a + T(0.693147180559945309417);
  T d = a - b;
  return d > T(0) ? a + log1p(exp(-d)) : d <= T(0) ? b + log1p(exp(d)) : d;
}
template <class T> FC T fc_logaddexp2(T a, T b) {
  if (a == b) return a + T(1);
  T d = a - b, e = T(1.442695040888963407360);
  return d > T(0) ? a + e * log1p(exp2(-d)) : d <= T(0) ? b + e * log1p(exp2(d)) : d;
}
template <class T> FC T fc_shuffle(T v, int o) { return T(__shfl_xor_sync(0xffffffffu, v, o)); }  // of thread t ^ o
"""
    + NUMBERS
    + r"""template <class T, int N> struct alignas(sizeof(T) * N) fc_pack { T part[N]; };
"""
)
