"""`jax.sharding`: the names, for programs that ask where an array lies: in this process, in one piece.

What would spread an array over devices raises NotImplementedError.
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["Mesh", "NamedSharding", "PartitionSpec", "Sharding", "SingleDeviceSharding"]


class PartitionSpec(tuple[Any, ...]):
    """Names of mesh axes by axis of an array: a tuple.

    >>> PartitionSpec("data", None)
    PartitionSpec('data', None)
    """

    def __new__(cls, *parts: Any) -> PartitionSpec:
        return super().__new__(cls, parts)

    def __repr__(self) -> str:
        return f"PartitionSpec({', '.join(map(repr, self))})"


class Mesh:
    """The mesh that an unsharded array lies on: no axes. A mesh of devices raises.

    >>> from funcad.jax import typeof
    >>> typeof(1.0).sharding.mesh.empty
    True
    """

    axis_names: tuple[str, ...] = ()
    empty = True
    are_all_axes_explicit = False

    def __init__(self, *args: Any, **kwargs: Any):
        if args or kwargs:
            _refuse("Mesh")


class Sharding:
    """How an array is spread over devices: here it is not."""


class SingleDeviceSharding(Sharding):
    """The whole array in this process.

    >>> SingleDeviceSharding().shard_shape((4, 2))
    (4, 2)
    """

    mesh = Mesh()
    spec = PartitionSpec()

    def __init__(self, device: Any = None):
        self.device = device

    def shard_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape


class NamedSharding(Sharding):
    """An array spread over a mesh, which raises."""

    def __init__(self, mesh: Any, spec: Any, **options: Any):
        _refuse("NamedSharding")


def _refuse(what: str) -> NoReturn:
    raise NotImplementedError(
        f"{what}: funcad computes in one process on the device of its operands.\n"
        "Remedy: leave the sharding out; funcad.device_put(x, 'cuda:1') chooses a device."
    )
