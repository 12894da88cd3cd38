"""Functions in C that files bring along, those that they call: sums, products, sorting, and systems of linear equations.

Idea: a text for all types, in which `@T` stands for the type of an element, `@f` for the suffix of libm's functions, `@BELOW`
for an order in which NaN comes last, `@blas` for BLAS's letter. All are static, use no memory but what they are given, and keep
nothing between calls. Matrices are in C's order. Invariants: eight chains of a sum are independent, so that compilers may
compute them side by side without changing a bit; factorizations choose pivots as LAPACK's do.
"""

from __future__ import annotations

_LU = r"""/* a, n x m, becomes its factors; row i was exchanged with row pivots[i]; is a pivot 0? */
static inline int fc_lu_@T(int64_t n, int64_t m, @T *a, int32_t *pivots) {
    int singular = 0;
    const int64_t k = n < m ? n : m;
    for (int64_t c = 0; c < k; c++) {
        int64_t p = c;
        for (int64_t r = c + 1; r < n; r++) {
            if (fabs@f(a[r * m + c]) > fabs@f(a[p * m + c])) p = r;
        }
        pivots[c] = (int32_t)p;
        if (a[p * m + c] == 0) {
            singular = 1;
            continue;
        }
        if (p != c) {
            for (int64_t j = 0; j < m; j++) {
                const @T t = a[c * m + j];
                a[c * m + j] = a[p * m + j];
                a[p * m + j] = t;
            }
        }
        for (int64_t r = c + 1; r < n; r++) {
            const @T f = a[r * m + c] / a[c * m + c];
            a[r * m + c] = f;
            for (int64_t j = c + 1; j < m; j++) a[r * m + j] -= f * a[c * m + j];
        }
    }
    return singular;
}
"""
_TRIANGULAR = r"""/* b, n x k, becomes the solution x of op(a) x = b, a being a triangle; is an element of the diagonal 0? */
static inline int fc_triangular_@T(int64_t n, int64_t k, const @T *a, @T *b, int lower, int transposed, int unit) {
    const int forward = lower != transposed;
    for (int64_t i = 0; !unit && i < n; i++) {
        if (a[i * n + i] == 0) return 1;
    }
    for (int64_t s = 0; s < n; s++) {
        const int64_t i = forward ? s : n - 1 - s;
        for (int64_t q = 0; q < s; q++) {
            const int64_t j = forward ? q : n - 1 - q;
            const @T f = transposed ? a[j * n + i] : a[i * n + j];
            for (int64_t c = 0; c < k; c++) b[i * k + c] -= f * b[j * k + c];
        }
        for (int64_t c = 0; !unit && c < k; c++) b[i * k + c] /= a[i * n + i];
    }
    return 0;
}
"""
_EXCHANGED = r"""/* the rows of b, n x k, exchanged as pivots say, or back */
static inline void fc_exchanged_@T(int64_t n, int64_t k, const int32_t *pivots, @T *b, int back) {
    for (int64_t s = 0; s < n; s++) {
        const int64_t i = back ? n - 1 - s : s, p = pivots[i];
        for (int64_t c = 0; p != i && c < k; c++) {
            const @T t = b[i * k + c];
            b[i * k + c] = b[p * k + c];
            b[p * k + c] = t;
        }
    }
}
"""
HELPERS: dict[str, str] = {
    "product": r"""/* c (m x n) = a (m x k) b (k x n); every array has strides */
static inline void fc_product_@T(int64_t m, int64_t n, int64_t k, const @T *a, int64_t am, int64_t ak, const @T *b,
    int64_t bk, int64_t bn, @T *FC_RESTRICT c, int64_t cm, int64_t cn) {
#ifdef FC_BLAS
    if (cn == 1 && m * n * k > 512 && (am == 1 || ak == 1) && (bk == 1 || bn == 1) && k > 0) {
        const int64_t lda = ak == 1 ? am : ak, ldb = bn == 1 ? bk : bn;
        if ((m | n | k | lda | ldb | cm) < 2147483647 && lda >= (ak == 1 ? k : m) && ldb >= (bn == 1 ? n : k) && cm >= n) {
            cblas_@blasgemm(CblasRowMajor, ak == 1 ? CblasNoTrans : CblasTrans, bn == 1 ? CblasNoTrans : CblasTrans, (int)m,
                (int)n, (int)k, 1, a, (int)lda, b, (int)ldb, 0, c, (int)cm);
            return;
        }
    }
#endif
    for (int64_t i = 0; i < m; i++) {
        if (bn == 1 && cn == 1) {
            for (int64_t j = 0; j < n; j++) c[i * cm + j] = 0;
            for (int64_t l = 0; l < k; l++) {
                const @T f = a[i * am + l * ak];
                for (int64_t j = 0; j < n; j++) c[i * cm + j] += f * b[l * bk + j];
            }
            continue;
        }
        for (int64_t j = 0; j < n; j++) {
            @T t[4] = {0, 0, 0, 0};
            const int64_t whole = k / 4 * 4;
            for (int64_t l = 0; l < whole; l += 4) {
                for (int64_t q = 0; q < 4; q++) t[q] += a[i * am + (l + q) * ak] * b[(l + q) * bk + j * bn];
            }
            @T total = (t[0] + t[1]) + (t[2] + t[3]);
            for (int64_t l = whole; l < k; l++) total += a[i * am + l * ak] * b[l * bk + j * bn];
            c[i * cm + j * cn] = total;
        }
    }
}
""",
    "lu": _LU,
    "triangular": _TRIANGULAR,
    "exchanged": _EXCHANGED,
    "exchanged_rows": r"""/* the numbers of rows, exchanged as pivots say */
static inline void fc_exchanged_rows(int64_t n, const int32_t *pivots, int32_t *rows) {
    for (int64_t i = 0; i < n; i++) {
        const int32_t t = rows[i];
        rows[i] = rows[pivots[i]];
        rows[pivots[i]] = t;
    }
}
""",
    "cholesky": r"""/* l, the lower factor of a, whose lower triangle counts; is it not positive definite? */
static inline int fc_cholesky_@T(int64_t n, const @T *a, @T *l) {
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            @T s = a[i * n + j];
            if (j > i) {
                l[i * n + j] = 0;
                continue;
            }
            for (int64_t k = 0; k < j; k++) s -= l[i * n + k] * l[j * n + k];
            if (i == j && !(s > 0)) return 1;
            l[i * n + j] = i == j ? sqrt@f(s) : s / l[j * n + j];
        }
    }
    return 0;
}
""",
    "reflect": r"""/* a, m x n, becomes R above the diagonal and the reflectors below it, whose factors are tau */
static inline void fc_reflect_@T(int64_t m, int64_t n, @T *a, @T *tau) {
    const int64_t k = m < n ? m : n;
    for (int64_t c = 0; c < k; c++) {
        @T scale = 0, size = 0;
        for (int64_t r = c + 1; r < m; r++) scale = fabs@f(a[r * n + c]) > scale ? fabs@f(a[r * n + c]) : scale;
        tau[c] = 0;
        if (scale == 0) continue;
        const @T alpha = a[c * n + c], top = fabs@f(alpha) > scale ? fabs@f(alpha) : scale;
        for (int64_t r = c; r < m; r++) size += (a[r * n + c] / top) * (a[r * n + c] / top);
        const @T beta = -copysign@f(top * sqrt@f(size), alpha);
        tau[c] = (beta - alpha) / beta;
        for (int64_t r = c + 1; r < m; r++) a[r * n + c] /= alpha - beta;
        a[c * n + c] = beta;
        for (int64_t j = c + 1; j < n; j++) {
            @T s = a[c * n + j];
            for (int64_t r = c + 1; r < m; r++) s += a[r * n + c] * a[r * n + j];
            s *= tau[c];
            a[c * n + j] -= s;
            for (int64_t r = c + 1; r < m; r++) a[r * n + j] -= s * a[r * n + c];
        }
    }
}
""",
    "orthogonal": r"""/* q, m x p, from k reflectors below the diagonal of a, m x n */
static inline void fc_orthogonal_@T(int64_t m, int64_t n, int64_t p, int64_t k, const @T *a, const @T *tau, @T *q) {
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < p; j++) q[i * p + j] = i == j;
    }
    for (int64_t c = k - 1; c >= 0; c--) {
        for (int64_t j = 0; j < p; j++) {
            @T s = q[c * p + j];
            for (int64_t r = c + 1; r < m; r++) s += a[r * n + c] * q[r * p + j];
            s *= tau[c];
            q[c * p + j] -= s;
            for (int64_t r = c + 1; r < m; r++) q[r * p + j] -= s * a[r * n + c];
        }
    }
}
""",
    "argsort": r"""/* order: positions that sort n elements of x, every s-th one, NaN last; of equal ones the first is first */
static inline void fc_argsort_@T(int64_t n, const @T *x, int64_t s, int64_t *order, int64_t *spare) {
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t i = 0; i < n; i += 2 * width) {
            const int64_t middle = i + width < n ? i + width : n, end = i + 2 * width < n ? i + 2 * width : n;
            int64_t l = i, r = middle;
            for (int64_t o = i; o < end; o++) {
                int left = r >= end;
                if (!left && l < middle) {
                    const @T a = x[order[r] * s], b = x[order[l] * s];
                    left = !@BELOW;
                }
                spare[o] = left ? order[l++] : order[r++];
            }
        }
        for (int64_t i = 0; i < n; i++) order[i] = spare[i];
    }
}
""",
    "search": r"""/* where v would be inserted into n sorted elements, before equal ones or behind them */
static inline int64_t fc_search_@T(int64_t n, const @T *x, int64_t s, @T v, int right) {
    int64_t low = 0, high = n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const @T a = right ? v : x[middle * s], b = right ? x[middle * s] : v;
        const int below = @BELOW;
        if (below != right) low = middle + 1;
        else high = middle;
    }
    return low;
}
""",
    "banded": r"""/* b, n x k, becomes the solution of a system with l bands below the diagonal and u above it.
   w, n x (2 l + u + 1), holds the band by rows: column j of row i at j - i + l; is it singular? */
static inline int fc_banded_@T(int64_t n, int64_t k, int64_t l, int64_t u, @T *w, @T *b) {
    const int64_t width = 2 * l + u + 1;
    for (int64_t c = 0; c < n; c++) {
        const int64_t low = c + l < n - 1 ? c + l : n - 1, end = c + l + u < n - 1 ? c + l + u : n - 1;
        int64_t p = c;
        for (int64_t r = c + 1; r <= low; r++) {
            if (fabs@f(w[r * width + c - r + l]) > fabs@f(w[p * width + c - p + l])) p = r;
        }
        if (w[p * width + c - p + l] == 0) return 1;
        if (p != c) {
            for (int64_t j = c; j <= end; j++) {
                const @T t = w[c * width + j - c + l];
                w[c * width + j - c + l] = w[p * width + j - p + l];
                w[p * width + j - p + l] = t;
            }
            for (int64_t j = 0; j < k; j++) {
                const @T t = b[c * k + j];
                b[c * k + j] = b[p * k + j];
                b[p * k + j] = t;
            }
        }
        for (int64_t r = c + 1; r <= low; r++) {
            const @T f = w[r * width + c - r + l] / w[c * width + l];
            for (int64_t j = c + 1; j <= end; j++) w[r * width + j - r + l] -= f * w[c * width + j - c + l];
            for (int64_t j = 0; j < k; j++) b[r * k + j] -= f * b[c * k + j];
        }
    }
    for (int64_t i = n - 1; i >= 0; i--) {
        const int64_t end = i + l + u < n - 1 ? i + l + u : n - 1;
        for (int64_t j = i + 1; j <= end; j++) {
            for (int64_t c = 0; c < k; c++) b[i * k + c] -= w[i * width + j - i + l] * b[j * k + c];
        }
        for (int64_t c = 0; c < k; c++) b[i * k + c] /= w[i * width + l];
    }
    return 0;
}
""",
}
