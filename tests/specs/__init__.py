"""The table of operations: what `tests/ir/test_every_primitive.py` checks of every primitive.

Each file of this folder holds one family, `SPECS = [spec(...), ...]`. A spec says how to call one primitive and on what:

    spec(sin, sin, [(np.array([0.1, 2.0]),), lambda rng: (rng.normal(size=(2, 3)),)], reference=np.sin)

* `primitive`: the Primitive that is covered, or a tuple of them.
* `fn(*arrays, **params)`: binds it through its module's public function; may give a list of results (multiple outputs).
* `samples`: argument tuples, or functions `rng -> tuple`. Arrays, NumPy scalars and Python scalars (a scalar beside shaped
  operands is a literal: neither traced nor differentiated). Shapes small (3 x 2), values away from kinks and poles; several
  samples to exercise rank 0, size 0, complex numbers. Write them down or draw them from `rng`; never from a global generator.
* `params`: keyword arguments of fn (not of `reference` and `jax`), the same for all samples.
* `order`: how often it may be differentiated: 0 (not at all), 1, 2.
* `domain`: `(low, high)`, the open interval of the float arguments; numeric steps stay inside, and two more samples, drawn from
  it in the shapes of the first, are added. None: no limits.
* `tolerance`: relative to the size of the derivative, for first derivatives in float64; second ones get a hundred times more.
* `reference(*arrays)`: NumPy's or SciPy's value; None if there is none.
* `nondiff`: positions of the arguments that have no derivative although they are float. Integer arguments have none anyway.
* `jax`: a function `jax_module -> callable(*arrays)`, for the differential test; None leaves the spec out of it.
* `backends`: where it runs; take "cupy" out with a comment that says why.
* `dtypes`: further dtypes in which the predicted result is compared with the real one; complex ones are tried only if both the
  prediction and NumPy accept them.
* `public`: the path of the public function under funcad, `"nn.relu"`, or (path, keyword arguments) if these are not `params`:
  the first sample becomes a line of the table of public functions (tests/surface), with this spec's reference and tolerance.
* `batch`: False leaves out batching (higher-order and effectful primitives that are tested elsewhere).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.ir.aval import aval_of
from funcad.ir.jaxpr import Jaxpr
from funcad.ir.trace import trace_function

__all__ = ["spec", "all_specs", "OpSpec"]


class OpSpec:
    """One line of the table; see the module's text."""

    __slots__ = (
        "primitives",
        "fn",
        "params",
        "order",
        "domain",
        "tolerance",
        "reference",
        "nondiff",
        "jax",
        "backends",
        "dtypes",
        "batch",
        "public",
        "id",
        "_samples",
    )

    def __init__(self, primitives: tuple, fn: Callable[..., Any], samples: Sequence[Any], **fields: Any):
        self.primitives = primitives
        self.fn = fn
        self._samples = list(samples)
        for name, value in fields.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        return f"<spec {self.id}>"

    def samples(self) -> list[tuple]:
        """Fresh argument tuples, the same ones at every call."""
        rng = np.random.default_rng(0)
        found = [tuple(s(rng)) if callable(s) else tuple(_copy(x) for x in s) for s in self._samples]
        if self.domain is not None and found:
            found += [tuple(self._draw(rng, x, i) for i, x in enumerate(found[0])) for _ in range(2)]
        return found

    def _draw(self, rng: np.random.Generator, x: Any, position: int) -> Any:
        x = np.asarray(x)
        if x.dtype.kind != "f" or position in self.nondiff:
            return _copy(x)
        low, high = (max(self.domain[0], -4.0), min(self.domain[1], 4.0))
        margin = 0.05 * (high - low)
        return rng.uniform(low + margin, high - margin, x.shape).astype(x.dtype)

    def call(self, *args: Any) -> list[Any]:
        """The results, as a list."""
        out = self.fn(*args, **self.params)
        return list(out) if isinstance(out, (list, tuple)) else [out]

    def program(self, args: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
        """The call traced, and the values of the program's inputs."""
        traced = self.variables(args)
        jaxpr, consts = trace_function(self.of_variables(args), [aval_of(args[i]) for i in traced], name="spec")
        return jaxpr, [*consts, *[args[i] for i in traced]]

    def variables(self, args: Sequence[Any]) -> list[int]:
        """Positions of the arguments that may be traced: a scalar beside shaped operands is a literal."""
        shaped = any(np.ndim(x) for x in args)
        return [i for i, x in enumerate(args) if not shaped or isinstance(x, np.ndarray)]

    def of_variables(self, args: Sequence[Any], positions: Sequence[int] | None = None) -> Callable[..., list[Any]]:
        """`call` as a function of the arguments at some positions (those of `variables`), the others being as they are."""
        chosen = self.variables(args) if positions is None else list(positions)

        def f(*values: Any) -> list[Any]:
            full = list(args)
            for i, x in zip(chosen, values):
                full[i] = x
            return self.call(*full)

        return f

    def differentiable(self, args: Sequence[Any]) -> list[int]:
        """Positions of the arguments with a derivative."""
        return [i for i in self.variables(args) if i not in self.nondiff and np.asarray(args[i]).dtype.kind in "fc"]


def _copy(x: Any) -> Any:
    return x.copy() if isinstance(x, np.ndarray) else x


def spec(
    primitive: Any,
    fn: Callable[..., Any],
    samples: Sequence[Any],
    *,
    params: dict[str, Any] | None = None,
    order: int = 2,
    domain: tuple[float, float] | None = None,
    tolerance: float = 1e-6,
    reference: Callable[..., Any] | None = None,
    nondiff: Sequence[int] = (),
    jax: Callable[..., Any] | None = None,
    backends: Sequence[str] = ("numpy", "cupy"),
    dtypes: Sequence[str] = ("f4", "c16"),
    batch: bool = True,
    public: Any = None,
    id: str | None = None,
) -> OpSpec:
    """One line of the table; see the module's text."""
    primitives = primitive if isinstance(primitive, tuple) else (primitive,)
    if not samples:
        raise ValueError(f"spec of {primitives[0]}: no samples")
    return OpSpec(
        primitives,
        fn,
        samples,
        params=dict(params or {}),
        order=order,
        domain=domain,
        tolerance=tolerance,
        reference=reference,
        nondiff=tuple(nondiff),
        jax=jax,
        backends=tuple(backends),
        dtypes=tuple(dtypes),
        batch=batch,
        public=(public, dict(params or {})) if isinstance(public, str) else public,
        id=id or primitives[0].name,
    )


def all_specs() -> list[OpSpec]:
    """The specs of every file of this folder, in alphabetical order of files; ids made unique by a number."""
    found: list[OpSpec] = []
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda m: m.name):
        found += importlib.import_module(f"{__name__}.{module.name}").SPECS
    seen: dict[str, int] = {}
    for s in found:
        n = seen[s.id] = seen.get(s.id, 0) + 1
        if n > 1:
            s.id = f"{s.id}-{n}"
    return found
