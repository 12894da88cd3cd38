"""Calls that go by the library's own code, and for which of them the derivative was compared with differences.

`own_answer(f)` is what answers for a function of NumPy's or SciPy's that funcad has no rule for, when an argument is traced.
`CERTIFIED` are the functions whose values and derivatives a test compares (tests/lifting), on the versions in `VERSIONS`; all
others, and other versions, warn once when they are differentiated.
"""

from __future__ import annotations

import functools
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.custom.custom_jvp import custom_jvp
from funcad.errors import FuncadError, TracerArrayConversionError, UncertifiedDerivativeWarning
from funcad.host.where import outside, setting, state
from funcad.ir.tracer import Tracer, value_key
from funcad.lifting.own_code import as_of_library, current, library_of, lifted_object, public_name, slots_as
from funcad.lifting.stand_ins import helper
from funcad.memo import remembers, table
from funcad.numpy.views import destination
from funcad.writes.plain import PLAIN, lent

VERSIONS = {"numpy": ("2.1", "2.4", "2.5"), "scipy": ("1.16", "1.17", "1.18")}
_CALLS = """
scipy.stats: alexandergovern ansari bartlett boxcox boxcox_llf brunnermunzel chisquare circmean circstd circvar
    combine_pvalues cramervonmises_2samp describe differential_entropy directional_stats energy_distance entropy
    epps_singleton_2samp expectile f_oneway false_discovery_control fligner friedmanchisquare gmean gstd gzscore hmean
    iqr jarque_bera kruskal ks_2samp kstat kstatvar kurtosis kurtosistest levene linregress lmoment mannwhitneyu
    median_abs_deviation moment mood normaltest obrientransform pearsonr pmean pointbiserialr power_divergence
    probplot quantile ranksums scoreatpercentile sigmaclip skew skewtest spearmanr theilslopes tmax tmean tmin trim1
    trim_mean trimboth tsem tstd ttest_1samp ttest_ind ttest_ind_from_stats ttest_rel tvar variation
    wasserstein_distance wilcoxon yeojohnson yeojohnson_llf zmap zscore
scipy.signal: bilinear butter cheby1 chirp coherence cspline1d czt decimate deconvolve firwin freqs freqz freqz_zpk gausspulse
    hilbert2 iirnotch iirpeak lp2hp lp2lp lsim normalize periodogram qspline1d residue sawtooth square sweep_poly tf2sos tf2ss
    tf2zpk vectorstrength welch wiener zoom_fft zpk2tf
scipy.signal.windows: exponential gaussian general_gaussian kaiser tukey
scipy.integrate: romb
scipy.spatial: distance_matrix
scipy.linalg: cdf2rdf diagsvd expm_cond fiedler matmul_toeplitz subspace_angles
scipy.special: assoc_laguerre diric
scipy.interpolate: approximate_taylor_polynomial barycentric_interpolate krogh_interpolate lagrange
    pade pchip_interpolate
scipy.optimize: rosen rosen_der rosen_hess rosen_hess_prod
scipy.ndimage: center_of_mass maximum mean median standard_deviation sum_labels variance
scipy.cluster.vq: kmeans kmeans2 whiten
scipy.fft: fht
numpy.lib.stride_tricks: as_strided sliding_window_view
numpy.polynomial.polyutils: as_series getdomain mapdomain mapparms trimcoef
numpy.polynomial.polynomial: polyadd polycompanion polyder polydiv polyfit polyfromroots polygrid2d polyint polyline
    polymul polymulx polypow polyroots polysub polyval polyval2d polyval3d polyvalfromroots polyvander polyvander2d
numpy.polynomial.chebyshev: cheb2poly chebadd chebcompanion chebder chebdiv chebfit chebfromroots chebgrid2d chebint
    chebline chebmul chebmulx chebpow chebroots chebsub chebval chebval2d chebvander chebweight poly2cheb
numpy.polynomial.legendre: leg2poly legadd legder legdiv legfit legfromroots legint legline legmul legmulx legpow
    legroots legsub legval legvander poly2leg
numpy.polynomial.hermite: herm2poly hermadd hermder hermdiv hermfit hermfromroots hermint hermline hermmul hermpow
    hermroots hermsub hermval hermvander hermweight poly2herm
numpy.polynomial.hermite_e: herme2poly hermeadd hermeder hermediv hermefit hermefromroots hermeint hermeline hermemul
    hermepow hermeroots hermesub hermeval hermevander hermeweight poly2herme
numpy.polynomial.laguerre: lag2poly lagadd lagder lagdiv lagfit lagfromroots lagint lagline lagmul lagpow lagroots
    lagsub lagval lagvander lagweight poly2lag
"""


def _table(text: str) -> dict[str, str]:
    """Module -> the names of its functions."""
    rows = text.strip().replace("\n    ", " ").split("\n")
    return dict([row.split(": ") for row in rows])


CERTIFIED = _table(_CALLS)


@remembers()
def is_certified(name: str) -> bool:
    """Were value and derivatives of that function compared, on the version that is installed?"""
    library, _, rest = name.partition(".")
    module, _, short = rest.rpartition(".")
    return short in CERTIFIED.get(f"{library}.{module}".rstrip("."), "").split() and is_compared(
        library
    )


def is_compared(library: str) -> bool:
    """Is the version that is installed one of those on which the tables were compared?"""
    return ".".join(sys.modules[library].__version__.split(".")[:2]) in VERSIONS[library]


_warned = table(
    "lifting.warned",
    "function: its derivative was asked for, and it is not certified",
    1024,
    same=None,
)


def _warn(name: str) -> None:
    if name not in _warned:
        _warned.put(name, True)
        library = name.partition(".")[0]
        version = sys.modules[library].__version__
        warnings.warn(
            f"{name} of {library} {version} is differentiated by its own code; no test has compared this derivative with "
            "differences. funcad.testing.check_grads(f, args) compares it at your values.",
            UncertifiedDerivativeWarning,
            outside(2),
        )


@remembers(1024, same=None)
def _marked(name: str) -> Callable[[Any], Any]:
    """x itself, whose derivative warns that the function's is not certified."""
    mark = custom_jvp(lambda x: x)

    def rule(primals: Any, tangents: Any) -> Any:
        _warn(name)
        return primals[0], tangents[0]

    mark.defjvp(rule)
    return mark


# Functions that call methods of their arrays with traced values: where one is traced, all become handles (writes/plain.py)
_lending = table(
    "lifting.lending",
    "function: do its plain arrays have to stand for traced ones?",
    1024,
    same=None,
)


def own_answer(f: types.FunctionType, name: str | None = None) -> Callable[..., Any]:
    """What answers for f, which funcad has no rule for, when an argument is traced: its own code."""
    found = helper(f)
    if found is not None:  # as it is: what it gives may be a view of its argument
        return found  # type: ignore[no-any-return]
    label = name or public_name(f)

    def by_own_code(*args: Any, **kwargs: Any) -> Any:
        run = current(f)
        if not is_certified(label):
            marked: list[tuple[Tracer, Any, Any]] = []
            given = [through(label, a, marked) for a in args], {k: through(label, a, marked) for k, a in kwargs.items()}
            out = _noted(label, _run, label, run, *given)
            for x, mark, before in marked:
                if value_key(mark) != before:
                    x[...] = mark  # it was written
            return out
        return _noted(label, _run, label, run, args, kwargs)

    functools.update_wrapper(
        by_own_code, f, assigned=("__name__", "__qualname__", "__doc__"), updated=()
    )
    return by_own_code


def _run(label: str, run: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    if label not in _lending:
        try:
            return _plain(run(*args, **kwargs))
        except TracerArrayConversionError:
            if not any([_holds_arrays(a) for a in (*args, *kwargs.values())]):
                raise
    handles: list[tuple[Any, Tracer]] = []
    handed = [_handle(a, handles) for a in args], {k: _handle(a, handles) for k, a in kwargs.items()}
    out = run(*handed[0], **handed[1])
    for array, handle in handles:
        if handle.owner is not PLAIN or handle.primal is not array:  # written: the user's array has nothing of it
            destination(array, label)
    _lending.put(label, True)
    return _plain(out)


def _noted(label: str, run: Callable[..., Any], *args: Any) -> Any:
    """run(*args), whose errors and operations name the function that runs by its own code."""
    try:
        with setting(scope=(*state.scope, f"{label} by its own code")):
            return run(*args)
    except FuncadError as error:
        if not getattr(error, "_by_own_code", False):
            error._by_own_code = True  # type: ignore[attr-defined]
            error.add_note(f"funcad: {label} runs by its own code, on traced values.")
        raise


def own_method(f: types.FunctionType, name: str) -> Callable[..., Any]:
    """What answers for a method of a class of SciPy's: its own code, of the object with lifted methods."""

    def by_own_code(self: Any, *args: Any, **kwargs: Any) -> Any:
        twin, run = lifted_object(self), current(f)
        if twin is self and "__class__" in f.__code__.co_freevars:  # it asks for super(), which knows no other class
            return f(self, *args, **kwargs)
        out = _noted(name, functools.partial(run, **kwargs), twin, *map(lifted_object, args))
        slots_as(twin, self)
        return self if out is twin else _plain(out)

    return by_own_code


def through(name: str, x: Any, marked: list[tuple[Tracer, Any, Any]] | None = None) -> Any:
    """x, of which what is traced warns when it is differentiated: the function of that name is not certified.

    `marked`: what was traced, what stands for it now, and which value that is.
    """
    if type(x) is Tracer:
        if x.dtype.kind not in "fc" or x.owner is PLAIN:
            return x
        found = _marked(name)(x)
        if marked is not None and type(found) is Tracer and x.shape:
            marked.append((x, found, value_key(found)))
        return found
    return type(x)([through(name, v, marked) for v in x]) if type(x) in (list, tuple) else x


def _holds_arrays(x: Any) -> bool:
    return type(x) is np.ndarray or type(x) in (list, tuple) and any(map(_holds_arrays, x))


def _handle(x: Any, handles: list[tuple[Any, Tracer]]) -> Any:
    if type(x) in (list, tuple):
        return type(x)([_handle(v, handles) for v in x])
    if type(x) is not np.ndarray or x.dtype.kind not in "fc":
        return x
    handle = lent(x)
    handles.append((x, handle))
    return handle


def _plain(x: Any) -> Any:
    """A result without handles that only this call knew."""
    if type(x) is Tracer and x.owner is PLAIN:
        return x.primal
    if type(x) is tuple:
        return tuple([_plain(v) for v in x])
    return as_of_library(x)


# Whatever writes and reads files or texts: it has no derivative, and must do nothing in vain.
_OF_FILES = ("numpy.lib._npyio_impl", "numpy.lib._format_impl", "numpy._core.arrayprint")


def answer_for(function: Any) -> Callable[..., Any] | None:
    """By its own code, for a function in Python of NumPy's or SciPy's; None where there is none."""
    f = getattr(function, "_implementation", function)
    if not isinstance(f, types.FunctionType) or library_of(function) not in VERSIONS:
        return None
    if f.__globals__.get("__name__") in _OF_FILES:
        return None
    return own_answer(f, public_name(function))
