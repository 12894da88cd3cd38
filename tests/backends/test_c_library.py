"""The files of a C library: their names, what the header says, what is refused, and programs in C and C++ that call them."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, jit
from funcad.backends.export.c_library import check_name
from funcad.backends.export.c_program import without_unused
from tests import c_compiler
from tests.agreement import assert_close

pytestmark = pytest.mark.filterwarnings("ignore")
needs_compiler = pytest.mark.skipif(not c_compiler.available(), reason="there is no gcc and g++")
X = np.array([0.5, -1.0, 2.0])


def energy(x: Any) -> Any:
    return np.sum(np.sin(x) ** 2)


def test_files_and_header(tmp_path: Path) -> None:
    path = tmp_path / "energy"
    assert jit(energy).export_c(path, X, also={"gradient": grad(energy)}) == [f"{path}.h", f"{path}.c"]
    header = (tmp_path / "energy.h").read_text(encoding="ascii")
    assert "int energy(const double *x, double *out, void *work);" in header
    assert "int energy_gradient(const double *x, double *out, void *work);" in header
    assert "#define ENERGY_WORK INT64_C(0)" in header and "x: double[3]\n" in header and "out: double, a result" in header
    assert "-std=c99 -O3 -ffp-contract=off" in header and "add_library(energy energy.c)" in header and "-ffast-math" in header
    assert "uint64_t energy_abi(void);" in header


def test_shapes_without_arrays(tmp_path: Path) -> None:
    shape = funcad.ShapeDtypeStruct((3,), np.float64)
    first = jit(energy).export_c(tmp_path / "a", shape)
    text = Path(first[1]).read_text()
    assert text.replace("a_abi", "b_abi").replace("a.", "b.") != text
    jit(energy).export_c(tmp_path / "a", X, overwrite=True)
    assert Path(first[1]).read_text() == text  # the same file from arrays


def test_files_are_kept_unless_they_may_go(tmp_path: Path) -> None:
    jit(energy).export_c(tmp_path / "model", X)
    before = (tmp_path / "model.c").read_text()
    with pytest.raises(FileExistsError, match="overwrite=True"):
        jit(grad(energy)).export_c(tmp_path / "model", X)
    assert (tmp_path / "model.c").read_text() == before
    jit(grad(energy)).export_c(tmp_path / "model", X, overwrite=True)
    assert (tmp_path / "model.c").read_text() != before


@pytest.mark.parametrize("name", [
    "int", "class", "restrict", "_x", "x__y", "1x", "a-b", "a b", "", "é", "NULL", "main", "INT64_MAX", "FC_OK", "fc_sum",
    "size_t", "work", "x" * 64, "x;", "x*/", "x\n", "INT32_C",
])  # fmt: skip
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="export_c"):
        check_name(name, "the argument")


@pytest.mark.parametrize("name", ["sin", "sinf", "expl", "malloc", "printf", "y0", "exit", "write"])
def test_functions_of_the_library_are_no_symbols(name: str) -> None:
    assert check_name(name, "the argument") == name
    with pytest.raises(ValueError, match="export_c"):
        check_name(name, "the function's name", symbol=True)


def test_names_of_arguments(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="keyword of C"):
        jit(lambda register: register).export_c(tmp_path / "model", X)
    with pytest.raises(ValueError, match="no identifier"):
        jit(lambda λ: λ).export_c(tmp_path / "model", X)
    with pytest.raises(ValueError, match="no identifier"):
        jit(lambda d: d["a b"]).export_c(tmp_path / "model", {"a b": X})
    with pytest.raises(ValueError, match="are called 'out'"):
        jit(lambda out: out).export_c(tmp_path / "model", X)
    with pytest.raises(ValueError, match="would be there twice"):
        jit(lambda x: x).export_c(tmp_path / "model", X, also={"abi": lambda x: x})
    assert not list(tmp_path.iterdir())
    jit(lambda params, *, scale: {"loss": scale * params["w"][0], "out": params["w"][1]}).export_c(
        tmp_path / "model", {"w": (X, X)}, scale=2.0
    )
    header = (tmp_path / "model.h").read_text()
    assert (
        "int model(const double *params_w_0, const double *params_w_1, const double *scale, double *out_loss, double *out_out, "
        in header
    )


def test_no_word_of_the_users_reaches_the_files(tmp_path: Path) -> None:
    secret = np.arange(3.0)

    def a_function_whose_name_is_long(x: Any) -> Any:
        """A docstring, */ and so on."""
        a_local_name = x * secret
        with funcad.named_scope("a scope */ int y;"):
            return funcad.checkpoint_name(np.sin(a_local_name), "*/ a name")

    for path in jit(a_function_whose_name_is_long).export_c(tmp_path / "model", X):
        text = Path(path).read_text()
        for word in ("long", "docstring", "local", "secret", "scope", "a name", __file__, os.fspath(tmp_path)):
            assert word not in text.replace("as long", ""), word


def test_what_is_captured_is_frozen_and_listed(tmp_path: Path) -> None:
    a, b = np.arange(3.0), np.float32(2.0)
    f = jit(lambda x: a * x + np.float64(b))
    f.export_c(tmp_path / "model", X)
    header = (tmp_path / "model.h").read_text()
    assert "frozen" in header and "constant 0: double[3], 24 bytes" in header
    large = np.ones(1 << 21 | 1)
    g = jit(lambda x: x[0] * large)
    with pytest.raises(ValueError, match='more than 16 MB of arrays(.|\n)*constants="arguments"'):
        g.export_c(tmp_path / "large", X)
    g.export_c(tmp_path / "large", X, constants="arguments")
    assert "const double *constant0" in (tmp_path / "large.h").read_text() and (tmp_path / "large.c").stat().st_size < 4000
    with pytest.raises(ValueError, match="frozen"):
        g.export_c(tmp_path / "large", X, overwrite=True, constants="files")


class _Counter:
    calls = 0


COUNTER = _Counter()


def _prints(x: Any) -> Any:
    print("hello")
    return x


def _stores(x: Any) -> Any:
    COUNTER.calls += 1
    return x * COUNTER.calls


def _writes(x: Any) -> Any:
    x[0] = 1.0
    return x


@pytest.mark.parametrize(("f", "why"), [
    (_prints, "calls Python back"),
    (lambda x: funcad.debug.print("{}", x), "calls Python back"),
    (lambda x: funcad.pure_callback(np.sin, x, x), "calls Python back"),
    (_stores, "stores what it computed"),
    (_writes, "writes into its arguments"),
    (lambda x: x * np.random.normal(), "generator of the host"),
    (lambda x: funcad.random.normal(funcad.random.key(x[0].astype(int)), (3,)), "no code in C"),
    (lambda x: np.linalg.svd(np.outer(x, x)), "singular values"),
    (lambda x: np.linalg.eigh(np.outer(x, x)), "eigenvalues"),
    (lambda x: np.fft.fft(x), "Fourier"),
    (lambda x: funcad.scipy.special.gammaln(x), "no code in C"),
    (lambda x: grad(lambda x: np.sum(funcad.while_loop(lambda x: x[0] < 9, lambda x: x * x + 1, x)))(x), "depends on values"),
    (lambda x: x.astype(np.float16), "float16"),
])  # fmt: skip
def test_what_has_no_c_is_refused_by_name_and_line(f: Any, why: str, tmp_path: Path) -> None:
    with pytest.raises(NotImplementedError, match=why) as caught:
        jit(f).export_c(tmp_path / "model", X)
    assert "Remedy" in str(caught.value) and not list(tmp_path.iterdir())
    assert f in (_stores, _writes) or why == "float16" or "test_c_library.py" in str(caught.value)


def test_python_that_asks_for_values_is_refused(tmp_path: Path) -> None:
    with pytest.raises(funcad.errors.FuncadError, match="Remedy"):
        jit(lambda x: x if x[0] > 0 else -x).export_c(tmp_path / "model", X)


# -- programs that call it

_C = r"""
#include <stdio.h>
#include <stdlib.h>
#include "model.h"
int main(void) {
    const double x[3] = {0.5, -1.0, 2.0};
    double out = 0, gradient[3];
    void *work = malloc(MODEL_GRADIENT_WORK + 1);
    if (model(x, &out, NULL) != MODEL_OK || model_gradient(x, gradient, work) != MODEL_OK) return 1;
    printf("%.17g %.17g %.17g %.17g %d\n", out, gradient[0], gradient[1], gradient[2], model_abi() >> 56 == 1);
    free(work);
    return 0;
}
"""
_CPP = r"""
#include <array>
#include <cstdio>
#include <vector>
#include "model.h"
int main() {
    std::array<double, 3> x{{0.5, -1.0, 2.0}}, gradient;
    std::vector<double> work(MODEL_GRADIENT_WORK / sizeof(double) + 1);
    double out;
    if (model(x.data(), &out, nullptr) || model_gradient(x.data(), gradient.data(), work.data())) return 1;
    std::printf("%.17g %.17g %.17g %.17g %d\n", out, gradient[0], gradient[1], gradient[2], model_abi() >> 56 == 1);
}
"""


@needs_compiler
@pytest.mark.parametrize(("compiler", "suffix", "text"), [("gcc", "c", _C), ("g++", "cpp", _CPP)])
def test_programs_that_call_it(compiler: str, suffix: str, text: str, tmp_path: Path) -> None:
    jit(energy).export_c(tmp_path / "model", X, also={"gradient": grad(energy)})
    (tmp_path / f"main.{suffix}").write_text(text)
    standard = ["-std=c99"] if compiler == "gcc" else ["-std=c++11"]
    c_compiler.run("gcc", "-std=c99", "-O2", *c_compiler.FLAGS, "-c", tmp_path / "model.c", "-o", tmp_path / "model.o")
    program = tmp_path / "main"
    c_compiler.run(
        compiler, *standard, "-O2", *c_compiler.FLAGS, f"-I{tmp_path}", tmp_path / f"main.{suffix}", tmp_path / "model.o",
        "-o", program, "-lm",
    )  # fmt: skip
    *found, abi = map(float, c_compiler.run(program).split())
    assert_close(np.array(found), np.array([energy(X), *grad(energy)(X)]), rtol=1e-14)
    assert abi == 1


_FORTRAN = r"""
program caller
  use, intrinsic :: iso_c_binding
  implicit none
  interface
    function model_gradient(x, out, work) bind(c) result(status)
      import :: c_double, c_int8_t, c_int
      real(c_double), intent(in) :: x(3)
      real(c_double), intent(out) :: out(3)
      integer(c_int8_t) :: work(*)
      integer(c_int) :: status
    end function
  end interface
  real(c_double) :: x(3) = [0.5d0, -1.0d0, 2.0d0], out(3)
  integer(c_int8_t) :: work(65536)
  if (model_gradient(x, out, work) /= 0) stop 1
  write (*, "(3es26.17)") out
end program
"""
_R = r"""
dyn.load(commandArgs(trailingOnly = TRUE)[1])
found <- .C("model_gradient", x = as.double(c(0.5, -1, 2)), out = double(3), work = raw(65536))
cat(sprintf("%.17g", found$out), "\n")
"""


@pytest.mark.parametrize("language", ["gfortran", "Rscript"])
def test_other_languages(language: str, tmp_path: Path) -> None:
    """As the manual's page has it."""
    if shutil.which(language) is None or not c_compiler.available():
        pytest.skip(f"there is no {language}")
    jit(energy).export_c(tmp_path / "model", X, also={"gradient": grad(energy)})
    library = c_compiler.built(tmp_path / "model")
    if language == "gfortran":
        (tmp_path / "main.f90").write_text(_FORTRAN)
        c_compiler.run("gfortran", tmp_path / "main.f90", library, "-o", tmp_path / "main", f"-Wl,-rpath,{tmp_path}")
        text = c_compiler.run(tmp_path / "main")
    else:
        (tmp_path / "main.R").write_text(_R)
        text = c_compiler.run("Rscript", tmp_path / "main.R", library)
    assert_close(np.array([float(x) for x in text.split()]), grad(energy)(X), rtol=1e-14)


@needs_compiler
def test_a_linker_sees_the_prefix_alone(tmp_path: Path) -> None:
    jit(lambda x: np.linalg.solve(np.outer(x, x) + np.eye(3), np.sort(x))).export_c(
        tmp_path / "model", X, also={"g": grad(energy)}
    )
    c_compiler.run("gcc", "-std=c99", "-O1", *c_compiler.FLAGS, "-c", tmp_path / "model.c", "-o", tmp_path / "model.o")
    table = c_compiler.run("nm", tmp_path / "model.o").splitlines()
    made = {line.split()[-1] for line in table if re.match(r"\w+ [A-Z] ", line)}
    assert made == {"model", "model_g", "model_abi"}
    assert not [line for line in table if re.match(r"\w+ [bBdDcC] ", line)]  # nothing that is kept between calls


@needs_compiler
def test_loading(tmp_path: Path) -> None:
    jit(lambda x, n: (x * n, n + 1)).export_c(tmp_path / "model", np.ones(3, np.float32), 2)
    library = c_compiler.built(tmp_path / "model")
    model = funcad.load_c(library, tmp_path / "model.h")
    assert "model(x: float32[3], n: int64[])" in repr(model.model) and "model" in dir(model) and "C library" in repr(model)
    y, n = model.model(np.ones(6, np.float32)[::2], 5)
    assert y.dtype == np.float32 and np.array_equal(y, [5.0, 5.0, 5.0]) and type(n) is np.int64 and n == 6
    with pytest.raises(ValueError, match="shape"):
        model.model(np.ones(2, np.float32), 1)
    with pytest.raises(TypeError, match="float32 in C"):
        model.model(np.ones(3), 1)
    with pytest.raises(TypeError, match="takes 2 arrays"):
        model.model(np.ones(3, np.float32))
    with pytest.raises(AttributeError, match="no function 'other'"):
        _ = model.other
    with pytest.raises(FileNotFoundError, match="header"):
        funcad.load_c(library)
    with pytest.raises(FileNotFoundError, match="library"):
        funcad.load_c(tmp_path / "libother.so")
    jit(lambda x, n: (x * n, n + 2, x)).export_c(tmp_path / "model", np.ones(3, np.float32), 2, overwrite=True)
    with pytest.raises(ValueError, match="was not built from the file"):
        funcad.load_c(library, tmp_path / "model.h")
    (tmp_path / "text.h").write_text("int x;")
    with pytest.raises(ValueError, match="no header that export_c wrote"):
        funcad.load_c(library, tmp_path / "text.h")


@needs_compiler
def test_the_header_is_found_beside_the_library(tmp_path: Path) -> None:
    jit(energy).export_c(tmp_path / "beside", X)
    built = c_compiler.built(tmp_path / "beside")
    built.rename(tmp_path / "libbeside.so")
    assert_close(funcad.load_c(tmp_path / "libbeside.so").beside(X), energy(X), rtol=1e-14)


def test_unused_names_go_however_long_their_chain() -> None:
    """A round that drops one line and adds another is not the last: `z1` is read by `v2` alone."""
    unread = ["    const fc_c128 *z1 = (const fc_c128 *)in0;", "    const fc_c128 v2 = z1[0];"]
    lines = ["    double a3[1];", "    a3[0] = in1[0];"]
    assert without_unused([*unread, *lines]) == [lines[0], "    (void)a3;", lines[1]]
