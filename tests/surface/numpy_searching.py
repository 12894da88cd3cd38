"""Cases of funcad.numpy's functions that sort, search, select, index and map."""

import numpy as np

from tests.surface import case

X = np.array([[-1.3, 0.4, 2.1], [0.7, -0.2, 1.6]])
Y = np.array([[0.6, -1.7, 0.9], [1.2, 2.3, -0.5]])
V = np.array([0.5, -1.5, 2.5, 0.9])
TIES = np.array([2.0, 1.0, 2.0, 3.0, 1.0])
C = np.array([0.5 + 0.3j, -1.2 + 0.8j, 0.7 - 0.4j])
D = np.array([2.0, 1.0, 2.5, 3.0, 1.5])  # distinct, for what equal elements would make discontinuous
I = np.array([[2, 0, 1], [1, 1, 0]])
M = np.array([[True, False, True], [False, True, True]])

BATCH = {"vmap": "the shape of the result depends on values"}
SIZE = {"jit": "the shape of the result depends on values", "vmap": "the shape of the result depends on values"}
COMPILED = {"jit": SIZE["jit"]}
SAME = "its size= is JAX's argument, which NumPy's own function does not have"
WRITES = {"plain": "NumPy's own writes into its argument"}


def _put_along(x, i, v, axis, inplace):
    x = x.copy()
    np.put_along_axis(x, i, v, axis)
    return x


def _put(x, i, v, inplace, mode="raise"):
    x = x.copy()
    np.put(x, i, v, mode)
    return x


def _place(x, m, v, inplace):
    x = x.copy()
    np.place(x, m, v)
    return x


UPDATES = {
    "set": lambda a, b: b + 0.0 * a,
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "power": np.power,
    "min": np.minimum,
    "max": np.maximum,
}


def _updated(function):
    def reference(x, v):
        x = x.copy()
        x[1:, ::2] = function(x[1:, ::2], v)
        return x

    return reference


def _added(x, i, v):
    x = x.copy()
    np.add.at(x[0], i, np.broadcast_to(v, i.shape))
    return x


def _at(method):
    return lambda at, x, v: getattr(at(x)[1:, ::2], method)(v)


SETS = "unique unique_values unique_all unique_counts unique_inverse".split()
TWO = "union1d intersect1d setdiff1d setxor1d".split()
ALL = {"return_index": True, "return_inverse": True, "return_counts": True}


def _padded_unique(x):
    values, index, inverse, counts = np.unique(x, **ALL)
    return np.append(values, values[:1].repeat(2)), np.append(index, index[:1].repeat(2)), inverse, np.append(counts, [0, 0])


def _first(name):
    """NumPy's function, with 4 of the 5 unique elements (in rising order)."""

    def reference(x, size):
        full = dict(zip(("values", "indices", "inverse_indices", "counts"), np.unique(x, **ALL)))
        found = getattr(np, name)(x)
        if not isinstance(found, tuple):
            return full["values"][:size]
        return type(found)(*[full[f] if f == "inverse_indices" else full[f][:size] for f in found._fields])

    return reference


CASES = [
    # sorting
    *[case(f"numpy.{n}", X) for n in "sort argsort".split()],
    *[case(f"numpy.{n}", X, 0) for n in "sort argsort".split()],
    case("numpy.sort", X, None),
    case("numpy.sort", C),
    case("numpy.sort_complex", C),
    case("numpy.sort_complex", V),
    case("numpy.argsort", TIES, kwargs={"stable": True}),
    case("numpy.partition", V, 1, gauge=np.sort),
    case("numpy.argpartition", V, 3, gauge=lambda i: i[3:]),
    case("numpy.lexsort", (TIES, V[[0, 1, 2, 3, 1]])),
    case("numpy.searchsorted", np.array([0.1, 0.7, 1.4]), V),
    case("numpy.searchsorted", np.array([0.1, 0.7, 1.4]), V, "right"),
    # choosing
    case("numpy.where", M, X, Y),
    case("numpy.where", M, X, 0.5),
    case("numpy.where", M),
    case("numpy.select", [M, ~M], [X, Y], 0.5, nondiff=(2,)),
    case("numpy.select", [X > 1.0, X > 0.0], [X, Y**2], static=(0,)),
    case("numpy.piecewise", X, [X < 0.0, X >= 0.0], [np.sin, lambda x: x**2], static=(1,)),
    case("numpy.piecewise", X, [X < 0.0], [np.sin, 0.5], static=(1, 2)),
    case("numpy.choose", I, [X, Y, X * Y]),
    case("numpy.choose", I + 1, [X, Y, X * Y], kwargs={"mode": "clip"}),
    case("numpy.compress", np.array([False, True]), X, 0, static=(0,)),
    case("numpy.compress", np.array([False, True]), X, 0),
    case("numpy.extract", M, X, static=(0,)),
    case("numpy.extract", M, X),
    case("numpy.take", V, np.array([2, 0, 2])),
    case("numpy.take", X, I, kwargs={"axis": 1}),
    case("numpy.take", V, np.array([5, -6]), kwargs={"mode": "wrap"}),
    case("numpy.take", V, np.array([5, -6]), kwargs={"mode": "clip"}),
    case("numpy.take_along_axis", X, I, 1),
    case("numpy.take_along_axis", V, np.array([3, 3]), None),
    case("numpy.put_along_axis", X, I[:, :1], Y[:, :1], 1, kwargs={"inplace": False}, reference=_put_along, missing=WRITES),
    case("numpy.put", X, np.array([0, 4]), np.array([0.5, 0.7]), kwargs={"inplace": False}, reference=_put, missing=WRITES),
    case("numpy.put", X, np.array([0, 9]), 0.5, kwargs={"inplace": False, "mode": "wrap"}, reference=_put, missing=WRITES),
    case("numpy.place", X, M, np.array([0.5, 0.7]), kwargs={"inplace": False}, reference=_place, missing=WRITES),
    *[case("numpy.at", X, 0.5, call=_at(m), reference=_updated(f)) for m, f in UPDATES.items() if m != "power"],
    case("numpy.at", np.abs(X), 0.5, call=_at("power"), reference=_updated(UPDATES["power"])),
    case(
        "numpy.at",
        X,
        call=lambda at, x: at(x)[1:, ::2].apply(np.sin),
        reference=lambda x: _updated(lambda a, b: np.sin(a))(x, 0.0),
    ),
    case("numpy.at", X, call=lambda at, x: at(x)[I[:, 1:]].get(), reference=lambda x: x[I[:, 1:]]),
    case("numpy.at", X, I, Y[0], call=lambda at, x, i, v: at(x)[0, i].add(v), reference=_added),
    # positions
    case("numpy.nonzero", M),
    case("numpy.flatnonzero", M),
    case("numpy.argwhere", M),
    case(
        "numpy.nonzero",
        M,
        kwargs={"size": 5, "fill_value": 1},
        missing={"plain": SAME},
        reference=lambda x, size, fill_value: tuple(np.append(i, 1) for i in np.nonzero(x)),
    ),
    case("numpy.flatnonzero", M, kwargs={"size": 3}, missing={"plain": SAME}, reference=lambda x, size: np.flatnonzero(x)[:3]),
    case(
        "numpy.argwhere",
        M,
        kwargs={"size": 5},
        missing={"plain": SAME},
        reference=lambda x, size: np.append(np.argwhere(x), [[0, 0]], 0),
    ),
    case("numpy.where", M, kwargs={"size": 4}, missing={"plain": SAME}, reference=lambda x, size: np.nonzero(x)),
    # sets
    *[
        case(f"numpy.{n}", x, missing=COMPILED if n == "unique_values" else None, nondiff=d)
        for n in SETS
        for x, d in ((TIES, (0,)), (D, ()), (I, ()))
    ],
    case("numpy.unique", TIES, nondiff=(0,), kwargs=ALL),
    case("numpy.unique", D, kwargs=ALL),
    case("numpy.unique", X[[0, 1, 0]], nondiff=(0,), kwargs={"axis": 0}, missing=COMPILED),
    case("numpy.unique", X, kwargs={"axis": 0}, missing=COMPILED),
    case("numpy.unique", np.array([2.0, np.nan, 1.0, np.nan]), nondiff=(0,)),
    case("numpy.unique_values", np.array([2.0, np.nan, 1.0, np.nan]), nondiff=(0,), missing=COMPILED),
    case(
        "numpy.unique",
        TIES,
        nondiff=(0,),
        kwargs={"size": 4, "fill_value": 9.0, "return_counts": True},
        missing={"plain": SAME},
        reference=lambda x, size, fill_value, return_counts: (
            np.array([1.0, 2.0, 3.0, 9.0]).astype(x.dtype),
            np.array([2, 2, 1, 0]),
        ),
    ),
    case(
        "numpy.unique",
        D,
        kwargs={"size": 7, **ALL},
        missing={"plain": SAME},
        reference=lambda x, size, **options: _padded_unique(x),
    ),
    case("numpy.unique", D, kwargs={"size": 2}, missing={"plain": SAME}, reference=lambda x, size: np.unique(x)[:2]),
    *[case(f"numpy.{n}", D, kwargs={"size": 4}, missing={"plain": SAME}, reference=_first(n)) for n in SETS if n != "unique"],
    *[case(f"numpy.{n}", TIES, V + 0.5, nondiff=(0, 1), missing=BATCH) for n in TWO],
    *[case(f"numpy.{n}", D, V + 0.03) for n in TWO if n != "intersect1d"],
    *[case(f"numpy.{n}", I, np.array([2, 5])) for n in TWO],
    *[
        case(
            f"numpy.{n}",
            I,
            np.array([2, 5]),
            kwargs={"size": 6, "fill_value": -1},
            missing={"plain": SAME},
            reference=lambda x, y, size, fill_value, n=n: np.pad(
                getattr(np, n)(x, y), (0, 6 - len(getattr(np, n)(x, y))), constant_values=-1
            ),
        )
        for n in TWO
    ],
    case("numpy.intersect1d", TIES, V + 0.5, nondiff=(0, 1), kwargs={"return_indices": True}, missing=SIZE),
    case(
        "numpy.union1d",
        D,
        V + 0.03,
        kwargs={"size": 11},
        missing={"plain": SAME},
        reference=lambda x, y, size: np.append(np.union1d(x, y), [np.min(y)] * 2),
    ),
    case("numpy.isin", TIES, np.array([1.0, 3.0])),
    case("numpy.isin", I, np.array([1, 5]), kwargs={"invert": True}),
    # mapping
    case("numpy.vectorize", X, X[0], call=lambda vectorize, x, y: vectorize(lambda a, b: a * b + a)(x, y)),
    case(
        "numpy.vectorize",
        X,
        X[0],
        call=lambda vectorize, x, y: vectorize(lambda a, b: a @ b, signature="(n),(n)->()")(x, y),
    ),
    case(
        "numpy.vectorize", X, 2.0, call=lambda vectorize, x, y: vectorize(lambda a, b: a * b, excluded={1})(x, y)
    ),
    case(
        "numpy.vectorize",
        X,
        call=lambda vectorize, x: vectorize(lambda a: a * 2.0, otypes=[np.float64])(x),
        missing={"dtype": "otypes says float64"},
    ),
]
