"""Rotations of space under the names of `scipy.spatial.transform`, differentiable in everything they are made of.

Idea: a rotation is its quaternion (x, y, z, w) of length 1; whatever it is made from becomes one, whatever is asked of it is a
formula of it. Formulas that divide by an angle have series near 0, so the identity is a point like others. Invariant: as
SciPy's, a Rotation is one rotation or a row of them, and q and -q are the same.
Trap: where a representation jumps or is not unique (Euler angles in gimbal lock, half turns as vectors) so is its derivative.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from funcad import numpy as fnp
from funcad import tree
from funcad.api.tools import stop_gradient
from funcad.configuration import mirrors
from funcad.custom.custom_jvp import custom_jvp
from funcad.ir.aval import shape_of
from funcad.ir.tracer import Tracer
from funcad.memo import remembers
from funcad.scipy.door import scipy_function

# Angles below have series, whose next terms are below rounding.
_SMALL = 1e-3


def _array(x: Any) -> Any:
    return fnp.astype(fnp.asarray(x), np.float64)


def _rows(x: Any, shape: tuple[int, ...], what: str) -> Any:
    x = _array(x)
    n = len(shape)
    if shape_of(x)[-n:] != shape or len(shape_of(x)) not in (n, n + 1):
        size = ", ".join(map(str, shape))
        raise ValueError(f"Expected `{what}` to have shape ({size}) or (N, {size}), got {shape_of(x)}.")
    return x


@custom_jvp
def _principal(matrix: Any) -> Any:
    """The eigenvector of a symmetric matrix's largest eigenvalue; the others may be equal."""
    return fnp.linalg.eigh(matrix)[1][:, -1]


@_principal.defjvp
def _principal_slope(primals: tuple, tangents: tuple) -> tuple:
    (matrix,), (moved,) = primals, tangents
    v = _principal(matrix)
    others = matrix - fnp.dot(v, fnp.matmul(matrix, v)) * np.eye(4) + fnp.outer(v, v)
    turned = fnp.matmul(moved, v)
    return v, -fnp.matmul(fnp.linalg.pinv(others), turned - v * fnp.dot(v, turned))


def _meet(n: tuple[int, ...], m: tuple[int, ...]) -> None:
    if n and m and n[0] != 1 and m[0] != 1 and n != m:
        raise ValueError(f"Expected equal numbers of rotations and what they turn, or one of either, got {n[0]} and {m[0]}.")


def _times(p: Any, q: Any) -> Any:
    """The product of quaternions: first q turns, then p."""
    a, b = p[..., 3:], q[..., 3:]
    u, v = p[..., :3], q[..., :3]
    vector = a * v + b * u + _cross(u, v)
    return fnp.concatenate([vector, a * b - fnp.sum(u * v, axis=-1, keepdims=True)], axis=-1)


def _cross(u: Any, v: Any) -> Any:
    x, y, z = (u[..., i] for i in range(3))
    a, b, c = (v[..., i] for i in range(3))
    return fnp.stack([y * c - z * b, z * a - x * c, x * b - y * a], axis=-1)


def _about(axis: int, angle: Any) -> Any:
    """The quaternion of a turn about one of the three axes."""
    half, nothing = angle / 2.0, fnp.zeros_like(angle)
    parts = [nothing, nothing, nothing, fnp.cos(half)]
    parts[axis] = fnp.sin(half)
    return fnp.stack(parts, axis=-1)


def _of_vector(v: Any) -> Any:
    square = fnp.sum(v * v, axis=-1, keepdims=True)
    small = square < _SMALL**2
    angle = fnp.sqrt(fnp.where(small, 1.0, square))
    scale = fnp.where(small, 0.5 - square / 48.0 + square * square / 3840.0, fnp.sin(angle / 2.0) / angle)
    real = fnp.where(small, 1.0 - square / 8.0 + square * square / 384.0, fnp.cos(angle / 2.0))
    return fnp.concatenate([scale * v, real], axis=-1)


def _to_vector(q: Any) -> Any:
    q = fnp.where(q[..., 3:] < 0, -q, q)
    v = q[..., :3]
    square = fnp.sum(v * v, axis=-1, keepdims=True)
    small = square < _SMALL**2
    sine = fnp.sqrt(fnp.where(small, 1.0, square))
    series = 2.0 + square / 3.0 + 3.0 * square * square / 20.0
    return fnp.where(small, series, 2.0 * fnp.arctan2(sine, q[..., 3:]) / sine) * v


def _orthogonal(m: Any) -> Any:
    """The nearest orthogonal matrix, by Newton's iteration (Higham 1986), which is smooth where singular values coincide."""
    for _ in range(9):
        m = 0.5 * (m + fnp.swapaxes(fnp.linalg.inv(m), -1, -2))
    return m


def _of_matrix(m: Any) -> Any:
    """Shepperd's method: of four formulas the one that divides by the largest component."""
    x, y, z = m[..., 0, 0], m[..., 1, 1], m[..., 2, 2]
    trace = x + y + z
    a, b, c = m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]
    xy, xz, yz = m[..., 0, 1] + m[..., 1, 0], m[..., 0, 2] + m[..., 2, 0], m[..., 1, 2] + m[..., 2, 1]
    ways = [
        [1.0 + 2.0 * x - trace, xy, xz, a],
        [xy, 1.0 + 2.0 * y - trace, yz, b],
        [xz, yz, 1.0 + 2.0 * z - trace, c],
    ]
    ways.append([a, b, c, 1.0 + trace])
    q = fnp.stack(ways[3], axis=-1)
    largest = fnp.argmax(fnp.stack([x, y, z, trace], axis=-1), axis=-1)
    for k in range(3):
        q = fnp.where((largest == k)[..., None], fnp.stack(ways[k], axis=-1), q)
    return q / fnp.linalg.norm(q, axis=-1, keepdims=True)


def _axes(seq: str, most: int = 3) -> tuple[list[int], bool]:
    """The axes of a sequence as numbers, and whether they turn along."""
    if not 1 <= len(seq) <= most or not (set(seq) <= set("xyz") or set(seq) <= set("XYZ")):
        raise ValueError(f"Expected axes from `seq` to be from ['x', 'y', 'z'] or ['X', 'Y', 'Z'], got {seq}")
    if any([a == b for a, b in zip(seq, seq[1:])]):
        raise ValueError(f"Expected consecutive axes to be different, got {seq}")
    return ["xyz".index(a) for a in seq.lower()], seq.isupper()


class Rotation:
    """`scipy.spatial.transform.Rotation`: one rotation or a row of N, made of traced values.

    Made by `from_quat`, `from_matrix`, `from_rotvec`, `from_mrp`, `from_euler`, `identity`, `concatenate`, `align_vectors`.
    Names, conventions and shapes are SciPy's; `from_matrix` takes any matrix for the rotation that is nearest to it. A Rotation
    is a pytree with one leaf, so it is an argument and a result of `grad`, `vmap` and `jit`. Davenport angles, groups and
    random rotations are SciPy's own, which give quaternions to begin with.

    >>> import numpy as np, funcad
    >>> from funcad.scipy.spatial.transform import Rotation
    >>> turned = lambda v: Rotation.from_rotvec(v).apply(np.array([1.0, 0.0, 0.0]))
    >>> funcad.jacobian(turned)(np.zeros(3))
    array([[ 0.,  0.,  0.],
           [ 0.,  0.,  1.],
           [ 0., -1.,  0.]])
    """

    __array_ufunc__ = None
    __slots__ = ("_quat",)

    def __init__(self, quat: Any, normalize: bool = True, copy: bool = True, scalar_first: bool = False) -> None:
        q = _rows(quat, (4,), "quat")
        if scalar_first:
            q = fnp.roll(q, -1, axis=-1)
        self._quat = q / fnp.linalg.norm(q, axis=-1, keepdims=True) if normalize else q

    # -- made of

    @classmethod
    def _new(cls, q: Any) -> Rotation:
        return cls(q, normalize=False)

    @classmethod
    def from_quat(cls, quat: Any, *, scalar_first: bool = False) -> Rotation:
        """Of quaternions (4,) or (N, 4), which are normalised; the scalar comes last, or first."""
        return cls(quat, scalar_first=scalar_first)

    @classmethod
    def from_matrix(cls, matrix: Any, *, assume_valid: bool = False) -> Rotation:
        """Of matrices (3, 3) or (N, 3, 3); those that are not orthogonal are replaced by the nearest that are."""
        m = _rows(matrix, (3, 3), "matrix")
        return cls._new(_of_matrix(m if assume_valid else _orthogonal(m)))

    @classmethod
    def from_rotvec(cls, rotvec: Any, degrees: bool = False) -> Rotation:
        """Of vectors (3,) or (N, 3) along the axis, as long as the angle."""
        v = _rows(rotvec, (3,), "rot_vec")
        return cls._new(_of_vector(fnp.deg2rad(v) if degrees else v))

    @classmethod
    def from_mrp(cls, mrp: Any) -> Rotation:
        """Of modified Rodrigues parameters (3,) or (N, 3): along the axis, as long as tan(angle / 4)."""
        v = _rows(mrp, (3,), "mrp")
        square = fnp.sum(v * v, axis=-1, keepdims=True)
        return cls._new(fnp.concatenate([2.0 * v, 1.0 - square], axis=-1) / (1.0 + square))

    @classmethod
    def from_euler(cls, seq: str, angles: Any, degrees: bool = False) -> Rotation:
        """Of angles about the axes of `seq`: "xyz" about fixed axes, "XYZ" about those that turn along.

        One axis: a number, (N,) or (N, 1); more: (axes,) or (N, axes).
        """
        axes, along = _axes(seq)
        angles = _array(angles)
        if len(axes) == 1:
            single = not shape_of(angles)
            angles = fnp.reshape(angles, (1,)) if single else angles
            if len(shape_of(angles)) == 1:
                angles = angles[0:1] if single else angles[:, None]
        else:
            single = len(shape_of(angles)) == 1
        if shape_of(angles)[-1] != len(axes) or len(shape_of(angles)) > 2:
            raise ValueError(f"Expected `angles` to have {len(axes)} columns, one for each axis, got {shape_of(angles)}.")
        angles = fnp.deg2rad(angles) if degrees else angles
        q = _about(axes[0], angles[..., 0])
        for k, axis in enumerate(axes[1:], 1):
            turn = _about(axis, angles[..., k])
            q = _times(q, turn) if along else _times(turn, q)
        return cls._new(q)

    @classmethod
    def identity(cls, num: int | None = None) -> Rotation:
        """No rotation, once or `num` times."""
        return cls._new(np.array([0.0, 0.0, 0.0, 1.0]) if num is None else np.tile([0.0, 0.0, 0.0, 1.0], (num, 1)))

    @classmethod
    def concatenate(cls, rotations: Any) -> Rotation:
        """A row of all rotations of a Rotation or of a sequence of them."""
        if isinstance(rotations, Rotation):
            return cls._new(rotations._quat)
        return cls._new(fnp.concatenate([fnp.atleast_2d(_quaternion(r)) for r in rotations]))

    @classmethod
    def align_vectors(cls, a: Any, b: Any, weights: Any = None, return_sensitivity: bool = False) -> tuple[Any, ...]:
        """The rotation that turns the vectors b, (N, 3), as near to a as can be, and the root of what is left of the squares.

        By the singular vectors of a.T @ b (Kabsch). N is at least 2; infinite weights and the sensitivity are refused.
        """
        if return_sensitivity:
            raise TypeError(
                "align_vectors(return_sensitivity=True) is not there for traced vectors.\n"
                "Remedy: leave it out, and take a derivative."
            )
        a, b = _array(a), _array(b)
        if len(shape_of(a)) != 2 or shape_of(a) != shape_of(b) or shape_of(a)[1] != 3 or shape_of(a)[0] < 2:
            raise ValueError(f"Expected `a` and `b` to have one shape (N, 3), N > 1, got {shape_of(a)} and {shape_of(b)}.")
        w = fnp.ones(shape_of(a)[0]) if weights is None else _array(weights)
        u, _, vt = fnp.linalg.svd(fnp.matmul(fnp.transpose(a) * w, b))
        sign = fnp.where(fnp.linalg.det(u) * fnp.linalg.det(vt) < 0, -1.0, 1.0)
        m = fnp.matmul(u * fnp.stack([fnp.ones_like(sign), fnp.ones_like(sign), sign]), vt)
        found = cls._new(_of_matrix(m))
        left = fnp.sum(w * fnp.sum((a - found.apply(b)) ** 2, axis=1))
        return found, fnp.sqrt(left)

    # -- what it is

    @property
    def single(self) -> bool:
        """Is it one rotation, and no row?"""
        return len(shape_of(self._quat)) == 1

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(self._quat)[:-1]

    def as_quat(self, canonical: bool = False, *, scalar_first: bool = False) -> Any:
        """Quaternions (4,) or (N, 4); canonical ones have a first component that is not 0 positive, w before x, y, z."""
        q = self._quat
        if canonical:
            x, y, z, w = (q[..., k : k + 1] for k in range(4))
            first = fnp.where(w != 0, w, fnp.where(x != 0, x, fnp.where(y != 0, y, z)))
            q = fnp.where(first < 0, -q, q)
        return fnp.roll(q, 1, axis=-1) if scalar_first else q + 0.0

    def as_matrix(self) -> Any:
        """Matrices (3, 3) or (N, 3, 3)."""
        x, y, z, w = (self._quat[..., k] for k in range(4))
        rows = [
            [x * x - y * y - z * z + w * w, 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
            [2.0 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2.0 * (y * z - x * w)],
            [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), -x * x - y * y + z * z + w * w],
        ]
        return fnp.stack([fnp.stack(row, axis=-1) for row in rows], axis=-2)

    def as_rotvec(self, degrees: bool = False) -> Any:
        """Vectors (3,) or (N, 3) along the axis, as long as the angle, which is at most pi."""
        v = _to_vector(self._quat)
        return fnp.rad2deg(v) if degrees else v

    def as_mrp(self) -> Any:
        """Modified Rodrigues parameters (3,) or (N, 3), of angles up to pi."""
        q = fnp.where(self._quat[..., 3:] < 0, -self._quat, self._quat)
        return q[..., :3] / (1.0 + q[..., 3:])

    def as_euler(self, seq: str, degrees: bool = False) -> Any:
        """Angles (3,) or (N, 3) about three axes, as `from_euler`. In gimbal lock the third is 0.

        By the formulas of Bernardes and Viollet (2022) for quaternions.
        """
        axes, along = _axes(seq)
        if len(axes) != 3:
            raise ValueError(f"Expected 3 axes, got {seq}.")
        i, j, k = axes[::-1] if along else axes
        proper = i == k
        k = 3 - i - j if proper else k
        sign = (i - j) * (j - k) * (k - i) // 2
        q = self._quat
        w, qi, qj, qk = q[..., 3], q[..., i], q[..., j], q[..., k] * sign
        a, b, c, d = (w, qi, qj, qk) if proper else (w - qj, qi + qk, qj + w, qk - qi)
        middle = 2.0 * fnp.arctan2(fnp.hypot(c, d), fnp.hypot(a, b))
        total, difference = fnp.arctan2(b, a), fnp.arctan2(d, c)
        low, high = abs(middle) <= 1e-7, abs(middle - np.pi) <= 1e-7
        first = fnp.where(low, 2.0 * total, fnp.where(high, -2.0 * difference, total - difference))
        third = fnp.where(low | high, 0.0, total + difference)
        if along:
            first, third = (
                fnp.where(low | high, 0.0, total - difference),
                fnp.where(low, 2.0 * total, fnp.where(high, 2.0 * difference, total + difference)),
            )
        if not proper:
            third, middle = third * sign, middle - np.pi / 2.0
        angles = [third, middle, first] if along else [first, middle, third]
        out = fnp.stack(angles, axis=-1)
        out = fnp.where(out < -np.pi, out + 2.0 * np.pi, fnp.where(out > np.pi, out - 2.0 * np.pi, out))
        return fnp.rad2deg(out) if degrees else out

    def magnitude(self) -> Any:
        """The angle, from 0 to pi."""
        return 2.0 * fnp.arctan2(fnp.linalg.norm(self._quat[..., :3], axis=-1), abs(self._quat[..., 3]))

    # -- what it does

    def apply(self, vectors: Any, inverse: bool = False) -> Any:
        """The vectors, (3,) or (N, 3), turned; one rotation turns many, many turn one."""
        v = _rows(vectors, (3,), "vectors")
        _meet(self.shape, shape_of(v)[:-1])
        u, w = self._quat[..., :3], self._quat[..., 3:]
        w = -w if inverse else w
        u, v = fnp.broadcast_arrays(u, v)
        twice = 2.0 * _cross(u, v)
        return v + w * twice + _cross(u, twice)

    def inv(self) -> Rotation:
        """The rotation back."""
        return self._new(self._quat * np.array([-1.0, -1.0, -1.0, 1.0]))

    def __mul__(self, other: Any) -> Rotation:
        """First `other`, then this one."""
        q = _quaternion(other)
        _meet(self.shape, shape_of(q)[:-1])
        p, q = fnp.broadcast_arrays(self._quat, q)
        product = _times(p, q)
        return self._new(product / fnp.linalg.norm(product, axis=-1, keepdims=True))

    def __rmul__(self, other: Any) -> Rotation:
        return self._new(_quaternion(other)) * self

    def __pow__(self, n: Any, modulus: None = None) -> Rotation:
        """n times the angle about the same axis; n may be any number, and traced."""
        if modulus is not None:
            raise NotImplementedError("pow(rotation, n, modulus) is not supported.\nRemedy: rotation**n.")
        return self.from_rotvec(_array(n) * self.as_rotvec())

    def mean(self, weights: Any = None) -> Rotation:
        """The mean of a row: the quaternion with the largest sum of squared products (Markley and others 2007)."""
        if self.single:
            raise ValueError("Cannot take the mean of a single rotation.")
        q = self._quat
        w = fnp.ones(shape_of(q)[0]) if weights is None else _array(weights)
        return self._new(_principal(fnp.matmul(fnp.transpose(q) * w, q)))

    def approx_equal(self, other: Any, atol: Any = None, degrees: bool = False) -> Any:
        """Is the angle between two rotations less than `atol` (1e-8 radians)?"""
        bound = 1e-8 if atol is None else np.deg2rad(atol) if degrees else atol
        found = (self._new(_quaternion(other)) * self.inv()).magnitude() < bound
        return found if np.ndim(found) else fnp.reshape(found, _shape_of_one())

    def __getitem__(self, index: Any) -> Rotation:
        if self.single:
            raise TypeError("Single rotation is not subscriptable.")
        return self._new(self._quat[index])

    def __len__(self) -> int:
        if self.single:
            raise TypeError("Single rotation has no len().")
        return shape_of(self._quat)[0]

    def __iter__(self) -> Iterator[Rotation]:
        return (self[k] for k in range(len(self)))

    def __repr__(self) -> str:
        return f"Rotation.from_quat({self._quat!r})"


@remembers(1)
def _shape_of_one() -> tuple[int, ...]:
    """Of what SciPy answers where both are single: since 1.17 it is a row of one."""
    one = scipy_function("spatial.transform.Rotation").identity()
    return np.shape(one.approx_equal(one))


def _quaternion(rotation: Any) -> Any:
    """Of a rotation of funcad's or SciPy's."""
    return rotation._quat if isinstance(rotation, Rotation) else rotation.as_quat()


class Slerp:
    """`scipy.spatial.transform.Slerp`: rotations between those of a row, at constant angular speed.

    `times` (N,) increase, `rotations` are N; both may be traced, as may be the times of evaluation, which lie between the
    first and the last: those that have no values, inside jit and vmap, are not checked.

    >>> import numpy as np, funcad
    >>> from funcad.scipy.spatial.transform import Rotation, Slerp
    >>> turns = Slerp([0.0, 1.0], Rotation.from_euler("z", np.array([0.0, 1.0])))
    >>> funcad.grad(lambda t: turns(t).magnitude())(0.25).round(6)
    np.float64(1.0)
    """

    def __init__(self, times: Any, rotations: Any) -> None:
        q = _quaternion(rotations)
        if len(shape_of(q)) != 2 or shape_of(q)[0] < 2:
            raise ValueError("`rotations` must be a sequence of at least 2 rotations.")
        self.times = _array(times)
        if shape_of(self.times) != shape_of(q)[:1]:
            raise ValueError(
                f"Expected number of rotations to be equal to number of timestamps given, got {shape_of(q)[0]} rotations and "
                f"{shape_of(self.times)} timestamps."
            )
        self.rotations = Rotation._new(q[:-1])
        self.rotvecs = (self.rotations.inv() * Rotation._new(q[1:])).as_rotvec()

    @classmethod
    def of(cls, theirs: Any) -> Slerp:
        """Of an interpolation of SciPy's, which keeps the last rotation as the turn that leads to it."""
        first = Rotation.from_quat(theirs.rotations.as_quat())
        turn = Rotation.from_rotvec(theirs.rotvecs[-1])
        last = first[-1] * turn
        return cls(theirs.times, Rotation.concatenate([first, last]))

    def __call__(self, times: Any) -> Rotation:
        """The rotation at a time, or a row of them at (M,) times."""
        t = _array(times)
        if len(shape_of(t)) > 1:
            raise ValueError("`times` must be at most 1-dimensional.")
        last = shape_of(self.times)[0] - 2
        first, end, known = (stop_gradient(x) for x in (self.times[0], self.times[-1], t))
        if Tracer not in (type(first), type(known)) and np.any((known < first) | (known > end)):
            raise ValueError(f"Interpolation times must be within the range [{first}, {end}], both inclusive.")
        at = fnp.clip(fnp.searchsorted(self.times, t, side="left") - 1, 0, last)
        share = (t - self.times[at]) / (self.times[at + 1] - self.times[at])
        turn = Rotation.from_rotvec(share[..., None] * self.rotvecs[at])
        return Rotation._new(self.rotations._quat[at]) * turn


def _with(_: None, leaves: Any) -> Rotation:
    rotation = Rotation.__new__(Rotation)
    rotation._quat = leaves[0]  # which is no array where a tree stands for something else
    return rotation


tree.register_pytree_node(Rotation, lambda r: ((r._quat,), None), _with)
mirrors([Rotation, Slerp], "scipy.spatial.transform")
