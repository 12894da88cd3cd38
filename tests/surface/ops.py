"""Cases of funcad.ops, funcad.image and funcad.flatten_util."""

from functools import partial

import numpy as np

from tests.surface import case

DATA = np.array([0.7, -1.2, 2.1, 0.4, -0.3, 1.6])
ROWS = np.stack([DATA, DATA[::-1] + 0.05], axis=1)
IDS = np.array([2, 0, 2, 3, 0, 2])  # nothing in segment 1
OUTSIDE = np.array([2, 0, -1, 7, 1, 2])
FULL = np.array([1, 0, 1, 2, 0, 1])
IMAGE = np.array([[0.3, -0.8, 1.2, 0.5], [0.9, 0.1, -0.4, 1.7], [-1.1, 0.6, 0.2, 0.8]])
REDUCE = {
    "segment_sum": lambda x: x.sum(0),
    "segment_prod": lambda x: x.prod(0),
    "segment_max": lambda x: x.max(0),
    "segment_min": lambda x: x.min(0),
}
EMPTY = {"segment_sum": 0.0, "segment_prod": 1.0, "segment_max": -np.inf, "segment_min": np.inf}


def segments(name):
    def reference(data, ids, num_segments=None, mode=None, unique_indices=False):
        number = ids.max() + 1 if num_segments is None else num_segments
        ids = np.clip(ids, 0, number - 1) if mode == "clip" else ids
        if data.dtype.kind == "f":
            empty = EMPTY[name]
        else:
            info = np.iinfo(data.dtype)
            empty = {"segment_sum": 0, "segment_prod": 1, "segment_max": info.min, "segment_min": info.max}[name]
        out = np.full((number, *data.shape[1:]), empty, data.dtype)
        for i in range(number):
            if (ids == i).any():
                out[i] = REDUCE[name](data[ids == i])
        return out

    return reference


def bilinear(image, rows, columns):
    """`resize` by "linear", upwards."""
    for axis, n in ((0, rows), (1, columns)):
        m = image.shape[axis]
        places = np.clip((np.arange(n) + 0.5) * m / n - 0.5, 0, m - 1)
        image = np.apply_along_axis(partial(np.interp, places, np.arange(m)), axis, image).astype(image.dtype)
    return image


TREE = {"b": 0.7, "w": np.array([[1.0, -2.0], [0.5, 3.0]])}

CASES = [
    case("image.ResizeMethod", 1, reference=False, call=lambda f, i: f(i).value),
    *[
        case(
            f"ops.{name}",
            data,
            ids,
            static=(1,) if number is None else (),
            kwargs=dict(num_segments=number, mode=mode),
            reference=segments(name),
        )
        for name in REDUCE
        for data in (DATA, ROWS)
        for ids, number, mode in ((FULL, 3, None), (FULL, None, None), (OUTSIDE, 3, "clip"))
    ],
    *[
        case(f"ops.{name}", DATA, ids, kwargs=dict(num_segments=4), reference=segments(name))
        for name in ("segment_sum", "segment_prod")
        for ids in (IDS, OUTSIDE)
    ],
    *[
        case(f"ops.{name}", np.array([3, 1, 2, 5, 4, 2]), OUTSIDE, kwargs=dict(num_segments=4), reference=segments(name))
        for name in REDUCE
    ],
    case(
        "ops.segment_sum",
        DATA,
        np.array([3, 0, 5, 4, 1, 2]),
        kwargs=dict(num_segments=6, unique_indices=True),
        reference=segments("segment_sum"),
    ),
    *[
        case("image.resize", IMAGE, (n, m), "linear", kwargs={}, reference=lambda x, s, method: bilinear(x, *s))
        for n, m in ((6, 4), (5, 9))
    ],
    *[
        case("image.resize", IMAGE, shape, method, antialias, reference=False)
        for method in ("nearest", "linear", "lanczos3", "lanczos5", "cubic", "cubic-pytorch", "area")
        for shape, antialias in (((2, 7), True), ((2, 3), False), ((3, 4), True))
    ],
    *[
        case(
            "image.scale_and_translate",
            IMAGE,
            (4, 3),
            (0, 1),
            np.array([1.21, 0.63]),
            np.array([0.17, -0.28]),
            method,
            antialias,
            static=(1, 2),
            reference=False,
        )
        for method in ("linear", "lanczos3", "lanczos5", "cubic", "cubic-pytorch", "area")
        for antialias in (True, False)
    ],
    case(
        "flatten_util.ravel_pytree",
        TREE,
        reference=lambda t: np.concatenate([[t["b"]], t["w"].ravel()]),
        call=lambda f, t: f(t)[0],
    ),
    case(
        "flatten_util.ravel_pytree",
        TREE,
        reference=lambda t: {"b": np.float64(t["b"]) ** 2, "w": t["w"] ** 2},
        call=lambda f, t: f(t)[1](f(t)[0] ** 2),
    ),
]
