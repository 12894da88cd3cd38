"""Which names CuPy 14 has: tests/primitives/test_cupy_names.py compares them with the package."""

from __future__ import annotations

__all__ = ["ABSENT", "LINALG", "SPECIAL"]

# Public functions of NumPy that CuPy 14 does not have.
ABSENT = {
    "": set(
        """
        asmatrix block bmat busday_count busday_offset busdaycalendar bytes_ character clongdouble datetime64
        datetime_as_string datetime_data einsum_path errstate flexible frompyfunc fromregex geomspace
        get_include getbufsize geterr geterrcall histogram_bin_edges info insert is_busday isnat longdouble
        matrix matvec memmap nanpercentile nanquantile ndenumerate nditer nested_iters object_ polyder polydiv
        polyint recarray record setbufsize seterr seterrcall show_runtime spacing str_ test timedelta64
        unstack vecdot vecmat void
        """.split()
    ),
    "linalg": set("diagonal matrix_norm multi_dot outer svdvals tensordot trace vecdot vector_norm".split()),
}

# What `cupyx.scipy.special` of CuPy 14 has.
SPECIAL = set(
    """
    bdtr bdtrc bdtri beta betainc betaincinv betaln binom boxcox boxcox1p btdtr btdtri cbrt chdtr chdtrc chdtri
    cosdg cosm1 cotdg digamma ellipeinc ellipj ellipk ellipkinc ellipkm1 entr erf erfc erfcinv erfcx erfinv exp1
    exp10 exp2 expi expit expm1 expn exprel fdtr fdtrc fdtri gamma gammainc gammaincc gammainccinv gammaincinv
    gammaln gammasgn gdtr gdtrc huber i0 i0e i1 i1e inv_boxcox inv_boxcox1p j0 j1 k0 k0e k1 k1e kl_div lambertw
    log1p log_expit log_ndtr log_softmax loggamma logit logsumexp lpmv multigammaln nbdtr nbdtrc nbdtri ndtr ndtri
    pdtr pdtrc pdtri poch polygamma pseudo_huber psi radian rel_entr rgamma round shichi sici sinc sindg softmax
    sph_harm sph_harm_y spherical_yn tandg wright_bessel xlog1py xlogy y0 y1 yn zeta zetac
    """.split()
)

# What `cupyx.scipy.linalg` has.
LINALG = set(
    """
    bandwidth block_diag circulant companion convolution_matrix dft expm fiedler fiedler_companion hadamard hankel helmert
    hilbert khatri_rao kron leslie lu lu_factor lu_solve solve_triangular toeplitz
    """.split()
)
