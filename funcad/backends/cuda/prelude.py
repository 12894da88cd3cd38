"""NumPy's rules for one element in CUDA C++: what the operators and functions of the language compute otherwise.

Invariant: the text is C++ that NVRTC and g++ both compile, and computes the same with both: no intrinsic, no header. Integers
wrap, which is undefined for signed ones in C++: sums and products are computed in unsigned long long and cut. Complex numbers
and float16 are in prelude_numbers.py.
"""

from funcad.backends.cuda.elements import composite_functions
from funcad.backends.cuda.prelude_numbers import FUNCTIONS, NUMBERS

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
template <class T> FC T fc_shuffle(T v, int o) { return T(__shfl_xor_sync(0xffffffffu, v, o)); }  // of thread t ^ o
"""
    + NUMBERS
    + composite_functions()
    + FUNCTIONS
    + r"""template <class T, int N> struct alignas(sizeof(T) * N) fc_pack { T part[N]; };
"""
)
