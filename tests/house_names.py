"""Rules of names and parameters: each function returns what breaks it, each table says what may, and why.

An exemption that nothing needs any more is an offence, too. Those of the code that is going to be rebuilt carry the title of
the issue that does it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

LOOPS = "Loops as data"  # the title of the issue that rebuilds it

SCIPY = "the signature is SciPy's"
JAX = "the signature is JAX's"
OWN = "public: its options are documented by their names"

MOST = 9  # parameters of a function, without `self`, `*args` and `**kwargs`

SHARED_CLASSES = {
    "Tracer": "jax.core.Tracer is the name of JAX's class",
    "Node": "autograd.tracer.Node is autograd's",
    "Box": "autograd.tracer.Box is autograd's",
}

MANY_PARAMETERS = {
    "nn/attention.py dot_product_attention": JAX,
    "primitives/convolution.py conv_general_dilated": JAX,
    "scipy/integrate/initial_values.py solve_bvp": SCIPY,
    "scipy/integrate/quadrature.py quad_vec": SCIPY,
    "scipy/integrate/quadrature.py tplquad": SCIPY,
    "scipy/interpolate/splines.py splrep": SCIPY,
    "scipy/linalg/decompositions.py eigh": SCIPY,
    "scipy/linalg/decompositions.py eigvalsh": SCIPY,
    "scipy/optimize/minimizing.py curve_fit": SCIPY,
    "scipy/optimize/minimizing.py least_squares": SCIPY,
    "scipy/optimize/linear_problems.py linprog": SCIPY,
    "scipy/optimize/linear_problems.py lsq_linear": SCIPY,
    "scipy/optimize/minimizing.py minimize": SCIPY,
    "scipy/optimize/minimizing.py fsolve": SCIPY,
    "scipy/optimize/minimizing.py leastsq": SCIPY,
    "scipy/optimize/roots.py newton": SCIPY,
    "scipy/optimize/roots.py root_scalar": SCIPY,
    "scipy/optimize/roots.py toms748": SCIPY,
    "scipy/signal/spectra.py csd": SCIPY,
    "scipy/signal/spectra.py istft": SCIPY,
    "scipy/signal/spectra.py spectrogram": SCIPY,
    "scipy/signal/spectra.py stft": SCIPY,
    "scipy/sparse/factorized_systems.py eigsh": SCIPY,
    "scipy/sparse/krylov_solvers.py gmres": SCIPY,
    "scipy/sparse/krylov_solvers.py lsqr": SCIPY,
    "stats/sampling.py sample": OWN,
}

Classes = Iterable[tuple[str, list[tuple[str, int]]]]  # of each file: its classes, and the line of each
Functions = Iterable[tuple[str, list[tuple[str, int]]]]  # of each file: its functions, and how many parameters each has


def classes(nodes: Iterable[ast.AST]) -> list[tuple[str, int]]:
    """Names of the classes of a file, nested ones as well, with their lines."""
    return [(node.name, node.lineno) for node in nodes if isinstance(node, ast.ClassDef)]


def shared_classes(files: Classes) -> list[str]:
    """Classes that have their name in common with another one."""
    places: dict[str, list[str]] = {}
    for path, found in files:
        for name, line in found:
            places.setdefault(name, []).append(f"{path}:{line}")
    shared = {name: where for name, where in places.items() if len(where) > 1}
    return [f"{name}: {', '.join(where)}" for name, where in shared.items() if name not in SHARED_CLASSES] + [
        f"{name}: one class, no exemption is needed" for name in SHARED_CLASSES if name not in shared
    ]


def functions(tree: ast.AST, inside: str = "") -> Iterable[tuple[str, int]]:
    """Qualified names of the functions of a file, with how many parameters each has."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr):
            continue
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            named = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            yield inside + node.name, len(named) - bool(named and named[0].arg in ("self", "cls"))
        is_scope = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        yield from functions(node, f"{inside}{node.name}." if is_scope else inside)  # type: ignore[attr-defined]


def many_parameters(files: Functions) -> list[str]:
    """Functions with more parameters than anybody can keep in mind."""
    many = {f"{path} {name}": n for path, found in files for name, n in found if n > MOST}
    return [f"{where}: {n} parameters" for where, n in many.items() if where not in MANY_PARAMETERS] + [
        f"{where}: no exemption is needed" for where in MANY_PARAMETERS if where not in many
    ]
