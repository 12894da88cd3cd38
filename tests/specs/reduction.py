"""Reductions over axes, and positions of extrema."""

import numpy as np

from funcad.primitives import reduction as r
from tests.specs import spec


def some(*shape):
    return lambda rng: (rng.normal(size=shape),)


def complex_(*shape):
    return lambda rng: (rng.normal(size=shape) + 1j * rng.normal(size=shape),)


def bools(*shape):
    return lambda rng: (rng.random(shape) < 0.5,)


def lines(axes, extremum, spread):
    """Tangents (or cotangents of the extremum), values with ties, and their extremum over the axes."""

    def sample(rng):
        x = rng.integers(0, 2, (2, 3)).astype(float)
        out = extremum(x, axis=axes)
        return rng.normal(size=np.shape(out) if spread else x.shape), x, out

    return sample


ZEROS = np.array([[0.0, 2.0, 3.0], [4.0, 0.0, 0.0]])
TIES = np.array([[1, 3, 3], [3, 2, 1]])

SPECS = [
    spec(r.reduce_sum_p, r.reduce_sum, [some(2, 3, 4), complex_(2, 3, 1), some(2, 0, 2)], params={"axes": (0, 2)},
         reference=lambda x: np.sum(x, axis=(0, 2))),
    spec(r.reduce_prod_p, r.reduce_prod, [some(2, 3, 2), complex_(2, 3, 1), some(2, 0, 2)], params={"axes": (0, 2)},
         reference=lambda x: np.prod(x, axis=(0, 2)), jax=lambda j: lambda x: j.numpy.prod(x, axis=(0, 2))),
    spec(r.reduce_prod_p, r.reduce_prod, [(ZEROS,), (ZEROS + 0j,)], params={"axes": (1,)},
         reference=lambda x: np.prod(x, axis=1),
         id="reduce_prod of zeros"),
]
for _p, _f, _u in ((r.reduce_max_p, r.reduce_max, np.max), (r.reduce_min_p, r.reduce_min, np.min)):
    _name = _u.__name__
    SPECS += [
        spec(_p, _f, [some(2, 3, 2), some(2, 0, 1)], params={"axes": (0, 2)}, dtypes=("f4",),
             reference=lambda x, u=_u: u(x, axis=(0, 2)),
             jax=lambda j, n=_name: lambda x: getattr(j.numpy, n)(x, axis=(0, 2))),
        spec(_p, _f, [(TIES,), (TIES > 2,), some(2, 2)], params={"axes": (0, 1)}, dtypes=("f4",), reference=_u),
    ]
    for _axes in ((1,), (0, 1)):
        SPECS += [
            spec(r.tied_mean_p, r.tied_mean_p, [lines(_axes, _u, False)], params={"axes": _axes}, nondiff=(1, 2),
                 dtypes=("f4",)),
            spec(r.tied_spread_p, r.tied_spread_p, [lines(_axes, _u, True)], params={"axes": _axes}, nondiff=(1, 2),
                 dtypes=("f4",)),
        ]
for _p, _f, _u in ((r.reduce_any, r.reduce_any, np.any), (r.reduce_all, r.reduce_all, np.all)):
    SPECS.append(spec(_p, _f, [bools(2, 3), bools(2, 0), some(2, 2)], params={"axes": (1,)}, order=0,
                      reference=lambda x, u=_u: u(x, axis=1)))
for _p, _f, _u in ((r.argmax_p, r.argmax, np.argmax), (r.argmin_p, r.argmin, np.argmin)):
    SPECS.append(spec(_p, _f, [some(2, 3), (TIES,), (np.array([[1.0, np.nan]]),)], params={"axis": 1}, order=0,
                      reference=lambda x, u=_u: u(x, axis=1)))
