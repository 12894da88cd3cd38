"""Basic indices, dynamic slices, gather and scatter with repeated indices in every mode."""

import numpy as np

from funcad.primitives import basic_indexing as ix
from funcad.primitives import basic_indexing as sc
from funcad.primitives import computed_slices as cs
from funcad.primitives import computed_slices as rp
from tests.specs import spec

REPEATED = np.array([0, 2, 2, -1])
OTHER = np.array([1, 0, -2, 1])
LANES = np.array([[0, 1, 1], [2, 2, 2]])
MIXED = (2, None, (2, 3, -1))  # x[2, None, ::-1] of shape (4, 3)


def some(*shape):
    return lambda rng: (rng.normal(size=shape),)


def two(first, second, scale=1.0):
    return lambda rng: (rng.normal(size=first) * scale, rng.normal(size=second))


def at_row(f, *indices):
    return lambda *xs, **params: f(*xs, *indices, **params)


def written(x, u):
    out = x.copy()
    out[REPEATED] = u
    return out


def accumulated(ufunc):
    def reference(x, u, i):
        out = x.copy()
        for k, row in enumerate(i):
            out[row] = ufunc(out[row], u[k])
        return out

    return reference


UFUNCS = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}

SPECS = [
    spec(ix.stack_p, ix.stack_p, [two((2, 3), (2, 3)), two((0, 3), (0, 3))], params={"axis": 1}, dtypes=("f4", "c16"),
         reference=lambda *xs: np.stack(xs, axis=1)),
    spec(ix.stack_p, ix.stack_p, [(np.float64(0.3), np.float64(0.7), np.float64(-2.0))], params={"axis": 0},
         reference=lambda *xs: np.stack(xs)),
    spec(ix.basic_index_p, ix.basic_index, [some(4, 3)], params={"index": MIXED}, reference=lambda x: x[2, None, ::-1]),
    spec(ix.basic_index_p, ix.basic_index, [some(3)], params={"index": (1,)}, reference=lambda x: x[1]),
    spec(ix.basic_index_p, ix.basic_index, [some(3)], params={"index": ((2, 0, 1),)}, reference=lambda x: x[2:2]),
    spec(ix.basic_place_p, ix.basic_place_p, [some(1, 3)], params={"index": MIXED, "shape": (4, 3)}),
    spec(ix.place_sum_p, ix.place_sum_p, [two((4, 2), (1, 3))],
         params={"indices": (((0, 4, 1), (1, 2, 1)), (2, None, (2, 3, -1))), "shape": (4, 3)}),
    spec(ix.place_sum_p, ix.place_sum_p, [two((2,), (2,)), (np.array([-0.0, -0.0]), np.array([-0.0, 1.0]))],
         params={"indices": (((0, 2, 1),), ((1, 2, 1),)), "shape": (3,)},
         reference=lambda x, y: np.append(x, 0.0) + np.append(0.0, y)),
    spec(ix.basic_update_p, ix.basic_update, [two((4, 3), (1, 3))], params={"index": MIXED}),
    spec(ix.basic_update_p, ix.basic_update, [(np.array(1.0), np.array(2.0))], params={"index": ()}, reference=lambda x, u: u),
    spec(ix.basic_add_p, ix.basic_add_p, [two((4, 3), (1, 3))], params={"index": MIXED}, dtypes=("f4", "c16"),
         reference=lambda x, u: x + ix.basic_place_p.impl(np, u, index=MIXED, shape=(4, 3))),
    spec(ix.basic_add_p, ix.basic_add_p, [(np.array(1.0), np.array(2.0))], params={"index": ()}, reference=lambda x, u: x + u),
    spec(cs.dynamic_slice_p, lambda x, i, j, sizes: cs.dynamic_slice(x, (i, j), sizes),
         [lambda rng: (rng.normal(size=(4, 3)), np.array(3), np.array(-1))], params={"sizes": (2, 1)},
         reference=lambda x, i, j: x[2:4, 2:3], jax=lambda k: lambda x, i, j: k.lax.dynamic_slice(x, (i, j), (2, 1))),
    spec(cs.dynamic_slice_p, lambda x, i: cs.dynamic_slice(x, (i, 0), (2, 3)),
         [lambda rng: (rng.normal(size=(4, 3)), np.array(1))], reference=lambda x, i: x[1:3]),
    spec(cs.dynamic_update_slice_p, lambda x, u, i, j: cs.dynamic_update_slice(x, u, (i, j)),
         [lambda rng: (rng.normal(size=(4, 3)), rng.normal(size=(2, 1)), np.array(-1), np.array(7))],
         jax=lambda k: lambda x, u, i, j: k.lax.dynamic_update_slice(x, u, (i, j))),
    spec(cs.dynamic_add_p, cs.dynamic_add_p,
         [lambda rng: (rng.normal(size=(4, 3)), rng.normal(size=(2, 1)), np.array(-1), np.array(7))], dtypes=("f4", "c16"),
         reference=lambda x, u, i, j: x + np.pad(u, ((2, 0), (2, 0)))),
    spec(cs.window_indices_p, lambda i, j: cs.window_indices_p(i, j, sizes=(2, 1), extents=(4, 3)),
         [(np.array([-9, -2, 0, 9]), np.array([0, 1, 2, 3]))], order=0,
         reference=lambda i, j: [np.array([[[0], [1]], [[2], [3]], [[0], [1]], [[2], [3]]]),
                                 np.array([[[0], [0]], [[1], [1]], [[2], [2]], [[2], [2]]])]),
    spec(sc.gather_p, sc.gather, [lambda rng: (rng.normal(size=(3, 2)), REPEATED),
                                  lambda rng: (rng.normal(size=(3, 2)), LANES),
                                  lambda rng: (rng.normal(size=(3, 2)), REPEATED, OTHER),
                                  lambda rng: (rng.normal(size=(3, 2)), np.array(-1)),
                                  lambda rng: (rng.normal(size=(3, 2)), np.zeros((0, 2), int)),
                                  lambda rng: (rng.normal(size=(3, 2)) * (1 + 1j), REPEATED)],
         reference=lambda x, *i: x[i]),
    spec(sc.gather_p, sc.gather, [lambda rng: (rng.normal(size=(2, 3, 2)), LANES)], params={"batch_dims": 1},
         reference=lambda x, i: x[np.arange(2)[:, None], i]),
    spec(sc.gather_p, sc.gather, [lambda rng: (rng.normal(size=(4, 2)), np.array([2, 0, 3]))], params={"unique": True},
         reference=lambda x, i: x[i]),
    spec(sc.scatter_p, sc.scatter, [lambda rng: (rng.normal(size=(3, 2)), rng.normal(size=(4, 2)), REPEATED)],
         reference=lambda x, u, i: written(x, u), id="scatter set"),
    spec(sc.scatter_p, sc.scatter, [lambda rng: (rng.normal(size=(4, 2)), rng.normal(size=(3, 2)), np.array([3, 0, 1]))],
         params={"unique": True}, id="scatter unique"),
    spec(sc.is_last_p, sc.is_last_p, [(REPEATED,)], params={"dims": (3,)}, order=0,
         reference=lambda i: np.array([True, False, False, True])),
    spec(sc.is_last_p, sc.is_last_p, [(LANES,)], params={"dims": (2, 3)}, order=0),
    spec(sc.segments_p, lambda i: sc.segments_p(i, dims=(3,), lanes=0), [(REPEATED,)], order=0),
    spec(sc.segments_p, lambda i: sc.segments_p(i, dims=(2, 3), lanes=0), [(LANES,)], order=0),
    spec(rp.checked_index_p, rp.checked_index_p, [(np.array([[2], [-1], [0]]),)], order=0,
         params={"shape": (3,), "size": 4, "axis": 1, "dtype": np.dtype(np.int32)},
         reference=lambda i: np.array([2, 3, 0], np.int32)),
    spec(rp.positions_p, rp.positions_p, [()], params={"size": 3, "dtype": np.dtype(np.int32)}, order=0,
         reference=lambda: np.arange(3, dtype=np.int32)),
    spec(sc.attains_p, sc.attains_p, [(np.array([1.0, 2.0, np.nan]), np.array([1.0, 3.0, np.nan]))], order=0,
         reference=lambda x, y: np.array([True, False, True])),
]
for _mode, _ufunc in UFUNCS.items():
    _dtypes = ("f4",) if _mode in ("min", "max") else ("f4", "c16")
    SPECS += [
        spec(sc.scatter_p, sc.scatter,
             [lambda rng: (rng.normal(size=(3, 2)), rng.normal(size=(4, 2)), REPEATED),
              lambda rng: (rng.normal(size=3), rng.normal(size=4), REPEATED),
              lambda rng: (rng.integers(1, 9, 3), rng.integers(1, 9, 4), REPEATED)],
             params={"mode": _mode}, reference=accumulated(_ufunc), dtypes=_dtypes, id=f"scatter {_mode}"),
        spec(sc.scatter_p, sc.scatter,
             [lambda rng: (rng.normal(size=(2, 3, 2)), rng.normal(size=(2, 3, 2)), LANES)],
             params={"mode": _mode, "batch_dims": 1}, dtypes=_dtypes, id=f"scatter {_mode} in lanes"),
        spec(sc.scatter_p, sc.scatter,
             [lambda rng: (rng.normal(size=(3, 2)), rng.normal(size=4), REPEATED, OTHER)],
             params={"mode": _mode}, dtypes=_dtypes, id=f"scatter {_mode} at points"),
    ]
