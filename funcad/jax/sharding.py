"""`jax.sharding`: the names, for programs that say where an array lies: in this process, in one piece.

A mesh of one device, and what lies on it, means nothing and is accepted; what would spread an array over several devices raises
NotImplementedError.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any, NoReturn

import numpy as np

from funcad.device import devices as _names

__all__ = [
    "AxisType",
    "Device",
    "Mesh",
    "NamedSharding",
    "PartitionSpec",
    "Sharding",
    "SingleDeviceSharding",
    "devices",
    "make_mesh",
    "set_mesh",
]


class Device(str):
    """The name of a device, as `funcad.device_put` takes it, with what JAX's devices tell of themselves.

    >>> Device("cuda:1").platform, Device("cuda:1").id, Device("cpu").device_kind
    ('gpu', 1, 'cpu')
    """

    process_index = 0

    @property
    def platform(self) -> str:
        return "gpu" if self.startswith("cuda") else "cpu"

    device_kind = client = platform

    @property
    def id(self) -> int:
        return int(self.partition(":")[2] or 0)


def devices(backend: str | None = None) -> list[Device]:
    """The devices that `funcad.devices` names, of one platform where it is given. RuntimeError if it has none.

    >>> devices("cpu")
    ['cpu']
    """
    wanted = "gpu" if backend in ("cuda", "gpu") else backend
    found = [device for device in map(Device, _names()) if wanted in (None, device.platform)]
    if not found:
        raise RuntimeError(f"devices({backend!r}): there is none of this platform; funcad.devices() names all that there are")
    return found


class AxisType(enum.Enum):
    """Who decides how arrays are spread along an axis of a mesh: with one device nobody need."""

    Auto = "auto"
    Explicit = "explicit"
    Manual = "manual"


class PartitionSpec(tuple[Any, ...]):
    """Names of mesh axes by axis of an array: a tuple.

    >>> PartitionSpec("data", None)
    PartitionSpec('data', None)
    """

    def __new__(cls, *parts: Any) -> PartitionSpec:
        return super().__new__(cls, parts)

    def __repr__(self) -> str:
        return f"PartitionSpec({', '.join(map(repr, self))})"

    def axes(self) -> list[str]:
        """The names in it."""
        parts = [part if isinstance(part, (tuple, list)) else (part,) for part in self]
        return [name for part in parts for name in part if name is not None]


class Mesh:
    """An array of devices whose axes have names: of one device, or of none.

    >>> mesh = Mesh(["cpu"], ("data",))
    >>> dict(mesh.shape), mesh.empty
    ({'data': 1}, False)
    """

    def __init__(self, devices: Any = (), axis_names: Any = (), *, axis_types: Any = None):
        self.devices = np.asarray(devices, object)
        self.axis_names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        self.axis_types = axis_types
        if self.devices.size > 1:
            _refuse(f"Mesh of {self.devices.size} devices")
        if self.axis_names and self.devices.ndim != len(self.axis_names):
            raise ValueError(f"Mesh: {self.devices.ndim} axes of devices have the names {self.axis_names}; give one for each")

    are_all_axes_explicit = False

    @property
    def empty(self) -> bool:
        return not self.devices.size

    @property
    def size(self) -> int:
        return int(self.devices.size)

    @property
    def shape(self) -> dict[str, int]:
        return dict(zip(self.axis_names, self.devices.shape))

    def __enter__(self) -> Mesh:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing was set: all arrays are on the one device in any case."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and (self.axis_names, self.size) == (other.axis_names, other.size)

    def __hash__(self) -> int:
        return hash((self.axis_names, self.size))

    def __repr__(self) -> str:
        return f"Mesh({', '.join([f'{name!r}: {n}' for name, n in self.shape.items()])})"


class Sharding:
    """How an array is spread over devices: here it is whole, in this process."""

    mesh = Mesh()
    spec = PartitionSpec()
    is_fully_replicated = is_fully_addressable = True
    num_devices = 1
    memory_kind = None

    @property
    def device_set(self) -> set[Any]:
        return set(self.mesh.devices.reshape(-1).tolist() or devices()[:1])

    addressable_devices = device_set

    def shard_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(shape)

    def is_equivalent_to(self, other: Any, ndim: int) -> bool:
        """All that lies on the one device lies alike."""
        return isinstance(other, Sharding)

    def devices_indices_map(self, shape: tuple[int, ...]) -> dict[Any, tuple[slice, ...]]:
        return {device: (slice(None),) * len(shape) for device in self.device_set}


class SingleDeviceSharding(Sharding):
    """The whole array on one device.

    >>> SingleDeviceSharding().shard_shape((4, 2))
    (4, 2)
    """

    def __init__(self, device: Any = None):
        self.device = device


class NamedSharding(Sharding):
    """An array over the axes of a mesh, which has one device.

    >>> NamedSharding(make_mesh((1,), ("data",)), PartitionSpec("data")).is_fully_replicated
    True
    """

    def __init__(self, mesh: Mesh, spec: Any, *, memory_kind: Any = None):
        if not isinstance(mesh, Mesh):
            raise TypeError(f"NamedSharding takes a Mesh, got {type(mesh).__name__}")
        self.mesh, self.spec, self.memory_kind = mesh, PartitionSpec(*spec), memory_kind
        unknown = [name for name in self.spec.axes() if name not in mesh.axis_names]
        if unknown:
            raise ValueError(f"NamedSharding: the mesh has the axes {mesh.axis_names}, and no axis {unknown[0]!r}")

    def update(self, **changed: Any) -> NamedSharding:
        return NamedSharding(**{"mesh": self.mesh, "spec": self.spec, "memory_kind": self.memory_kind, **changed})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedSharding) and (self.mesh, self.spec) == (other.mesh, other.spec)

    def __hash__(self) -> int:
        return hash((self.mesh, self.spec))

    def __repr__(self) -> str:
        return f"NamedSharding(mesh={self.mesh!r}, spec={self.spec!r})"


def make_mesh(axis_shapes: Sequence[int], axis_names: Sequence[str], axis_types: Any = None, *, devices: Any = None) -> Mesh:
    """The mesh of these sizes, of which each must be 1.

    >>> make_mesh((1, 1), ("data", "model"))
    Mesh('data': 1, 'model': 1)
    """
    if prod(axis_shapes) != 1:
        _refuse(f"make_mesh({tuple(axis_shapes)}, {tuple(axis_names)})")
    given = [Device(_names()[0])] if devices is None else devices
    return Mesh(np.asarray(given, object).reshape(tuple(axis_shapes)), axis_names, axis_types=axis_types)


@contextmanager
def set_mesh(mesh: Mesh) -> Iterator[Mesh]:
    """A context in which arrays lie on this mesh, of one device: as they do anyway.

    >>> with set_mesh(make_mesh((1,), ("data",))) as mesh:
    ...     mesh.size
    1
    """
    yield mesh


def _refuse(what: str) -> NoReturn:
    raise NotImplementedError(
        f"{what}: funcad computes in one process on the device of its operands.\n"
        "Remedy: leave the sharding out; funcad.device_put(x, 'cuda:1') chooses a device."
    )
