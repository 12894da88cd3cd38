"""Series and Laplacians through every operation of the table agree with nested jvp's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from funcad import jet, jvp, laplacian
from tests.shards import shard
from tests.specs import OpSpec, all_specs


def doubles(spec: OpSpec) -> list[int]:
    """Positions of the first sample's float64 arguments that have a derivative."""
    args = spec.samples()[0]
    return [i for i in spec.differentiable(args) if np.asarray(args[i]).dtype == np.float64]


SPECS = [s for s in all_specs() if s.order >= 2 and any(s.differentiable(args) for args in s.samples()[:2])]
REAL = [s for s in SPECS if doubles(s)]
FIRST = list({s.primitives[0].name: s for s in reversed(REAL)}.values())  # of each primitive


def close(found: Any, wanted: Any) -> None:
    found, wanted = np.asarray(found), np.asarray(wanted)
    if wanted.dtype.kind in "fc":
        scale = 1 + np.max(np.abs(np.nan_to_num(wanted)), initial=0.0)
        tolerance = 1e-9 if wanted.dtype.itemsize >= 8 and wanted.real.dtype.itemsize >= 8 else 1e-3
        np.testing.assert_allclose(found / scale, wanted / scale, atol=tolerance, rtol=0)


@pytest.mark.share(4)
@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.id)
def test_as_nested_jvps(spec: OpSpec) -> None:
    rng = np.random.default_rng(1)
    for args in spec.samples()[:2]:
        places = spec.differentiable(args)
        if not places:
            continue
        f = spec.of_variables(args, places)
        x = tuple(np.asarray(args[i])[()] for i in places)
        first, second = [tuple([rng.normal(size=v.shape).astype(v.dtype) for v in x]) for _ in range(2)]
        with np.errstate(all="ignore"):
            value, (one, two) = jet(f, x, tuple(zip(first, second)))
            slope = lambda *x, f=f, first=first: jvp(f, x, first)[1]
            expected, direct = jvp(slope, x, first)
            bent = jvp(f, x, second)[1]
        for v, a, b, c, d, e in zip(value, one, expected, two, direct, bent):
            if np.asarray(v).dtype.kind in "fc":
                close(a, b)
                close(c, d + e)


def laplacian_is_the_sum_of_second_derivatives(spec: OpSpec) -> None:
    rng = np.random.default_rng(2)
    args = spec.samples()[0]
    places = doubles(spec)
    ways = [rng.normal(size=(*np.shape(args[i]), 2)) for i in places]
    f = spec.of_variables(args, places)
    moved = lambda u: [v for v in f(*[args[i] + w @ u for i, w in zip(places, ways)]) if v.dtype.kind == "f"]
    with np.errstate(all="ignore"):
        found = laplacian(moved)(np.zeros(2))
        wanted = [jet(moved, (np.zeros(2),), ([e, np.zeros(2)],))[1][1] for e in np.eye(2)]
    for a, b, c in zip(found, *wanted):
        close(a, b + c)


@pytest.mark.share(4)
@pytest.mark.parametrize("spec", FIRST, ids=lambda s: s.id)
def test_laplacian(spec: OpSpec) -> None:
    laplacian_is_the_sum_of_second_derivatives(spec)


@pytest.mark.slow
@pytest.mark.parametrize("spec", shard([s for s in REAL if s not in FIRST]), ids=lambda s: s.id)
def test_laplacian_of_further_specs(spec: OpSpec) -> None:
    laplacian_is_the_sum_of_second_derivatives(spec)
