"""What JAX has at its top and funcad has not: flags, devices, the type of a value."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad import device as placement
from funcad import tree
from funcad.api.tools import named_scope
from funcad.api.vmap import vmap
from funcad.configuration import config as settings
from funcad.debug import debug_infs, debug_nans
from funcad.errors import PlacementError
from funcad.host.real_types import HALVES
from funcad.ir.aval import aval_of
from funcad.jax.jax_arrays import handed, placed
from funcad.jax.jax_transforms import Handing
from funcad.jax.sharding import Sharding, SingleDeviceSharding, devices
from funcad.jitted.jit import disable_jit, jit
from funcad.jitted.jit_cache import clear_caches

__all__ = [
    "checking_leaks",
    "config",
    "default_backend",
    "default_matmul_precision",
    "device_count",
    "device_put",
    "enable_checks",
    "ensure_compile_time_eval",
    "enable_x64",
    "local_device_count",
    "local_devices",
    "log_compiles",
    "make_array_from_callback",
    "named_call",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
    "pmap",
    "process_count",
    "process_index",
    "transfer_guard",
    "typeof",
]


class _Flags:
    """JAX's flags, as far as they have a meaning here; `update` of another raises."""

    _FIXED = {  # what is so in any case
        "jax_numpy_rank_promotion": "allow",
        "jax_numpy_dtype_promotion": "standard",
        "jax_platforms": "cpu",
        "jax_platform_name": "cpu",
        "jax_default_matmul_precision": None,
        "jax_enable_custom_prng": False,
        "jax_threefry_partitionable": False,
        **dict.fromkeys("jax_check_tracer_leaks jax_debug_key_reuse jax_enable_checks jax_legacy_prng_key".split(), False),
        **dict.fromkeys("jax_compilation_cache_dir jax_default_device jax_transfer_guard".split()),
        "jax_default_prng_impl": "threefry2x32",
        "jax_persistent_cache_min_compile_time_secs": 1.0,
        "jax_persistent_cache_min_entry_size_bytes": 0,
        "jax_softmax_custom_jvp": True,
        "jax_traceback_filtering": "auto",
    }
    _HARMLESS = set(  # nobody sees a difference
        "jax_compilation_cache_dir jax_default_matmul_precision jax_persistent_cache_min_compile_time_secs jax_platforms "
        "jax_persistent_cache_min_entry_size_bytes jax_platform_name jax_softmax_custom_jvp jax_threefry_partitionable "
        "jax_transfer_guard".split()
    )
    _OWN: dict[str, Callable[[], Any]] = {
        "jax_debug_nans": debug_nans, "jax_debug_infs": debug_infs, "jax_disable_jit": disable_jit,
        "jax_log_compiles": lambda: settings.set(explain_cache_misses=True),
    }  # fmt: skip

    def __init__(self) -> None:
        self._on: dict[str, contextlib.ExitStack] = {}

    def __getattr__(self, name: str) -> Any:
        if name in ("jax_enable_x64", "x64_enabled"):
            return not HALVES
        if name in self._FIXED:
            return self._FIXED[name]
        if name in self._OWN:
            return name in self._on
        raise AttributeError(f"jax.config.{name} has no meaning in funcad; see funcad.show_config() for funcad's settings")

    def read(self, name: str) -> Any:
        return getattr(self, name)

    def update(self, name: str, value: Any) -> None:
        """Set a flag, from now on: jax_debug_nans, jax_debug_infs, jax_disable_jit, jax_enable_x64.

        jax_enable_x64, which is on at first, also follows the variable JAX_ENABLE_X64 of the environment. Off, what
        `jax.numpy` makes and what the transformations take and give has 32 bits; NumPy's operators follow NumPy's rules.

        >>> import funcad.jax as jax
        >>> with jax.enable_x64(False):
        ...     jax.numpy.ones(2).dtype, jax.grad(lambda x: x * x)(3.0).dtype, jax.config.jax_enable_x64
        (dtype('float32'), dtype('float32'), False)
        """
        if name == "jax_enable_x64":
            if bool(HALVES) is bool(value):
                clear_caches()  # programs have the width that was asked for when they were traced
            HALVES.clear()
            for wide, half in () if value else ("df", "DF", "qi", "li", "QI", "LI"):
                HALVES[np.dtype(wide)] = np.dtype(half)
        elif name in self._OWN:
            if value and name not in self._on:
                self._on[name] = stack = contextlib.ExitStack()
                stack.enter_context(self._OWN[name]())
            elif not value and name in self._on:
                self._on.pop(name).close()
        elif name not in self._FIXED:
            raise AttributeError(f"jax.config.{name} has no meaning in funcad; see funcad.show_config() for funcad's settings")
        elif name not in self._HARMLESS and value != self._FIXED[name]:
            raise ValueError(
                f"jax.config.update({name!r}, {value!r}): in funcad it is always {self._FIXED[name]!r}.\nRemedy: leave it out."
            )


config = _Flags()
if os.environ.get("JAX_ENABLE_X64", "1").lower() in ("0", "false", "no", "off", "f", "n", ""):
    config.update("jax_enable_x64", False)


def _context(flag: str) -> Callable[..., Any]:
    """`with enable_x64(value):` and its like: the flag has that value inside, if it may."""

    @contextlib.contextmanager
    def setting(new_val: Any = True) -> Iterator[None]:
        before = config.read(flag)
        config.update(flag, new_val)
        try:
            yield
        finally:
            config.update(flag, before)

    setting.__name__ = setting.__qualname__ = flag.removeprefix("jax_")
    setting.__doc__ = f"The flag `{flag}` inside a `with` block; see `config.update`."
    return setting


enable_x64, enable_checks, checking_leaks = map(_context, ("jax_enable_x64", "jax_enable_checks", "jax_check_tracer_leaks"))
numpy_rank_promotion, numpy_dtype_promotion = map(_context, ("jax_numpy_rank_promotion", "jax_numpy_dtype_promotion"))
ensure_compile_time_eval = contextlib.nullcontext  # what has values is computed while a function is traced
default_matmul_precision, transfer_guard = map(_context, ("jax_default_matmul_precision", "jax_transfer_guard"))


class _Type:
    """`typeof(x)`: shape, dtype and place of a value."""

    def __init__(self, x: Any):
        aval = aval_of(x)
        self.shape, self.dtype, self.ndim, self.size = aval.shape, aval.dtype, aval.ndim, aval.size
        self.weak_type, self.sharding = bool(getattr(aval, "weak", False)), SingleDeviceSharding()

    def __repr__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


def typeof(x: Any) -> _Type:
    """The shape, dtype, weak_type and sharding of a value.

    >>> import numpy as np
    >>> typeof(np.zeros((2, 3)))
    float64[2,3]
    """
    return _Type(x)


def effects_barrier() -> None:
    """Does nothing: effects have happened when a call returns.

    >>> effects_barrier()
    """


def default_backend() -> str:
    """ "cpu": funcad computes where its operands are.

    >>> default_backend()
    'cpu'
    """
    return "cpu"


def device_put(x: Any, device: Any = None, **options: Any) -> Any:
    """`funcad.device_put`; without CuPy, and with a sharding, which is of one device, x as it is.

    >>> import numpy as np
    >>> device_put(np.ones(2))
    Array([1., 1.])
    """
    if device is None or isinstance(device, Sharding):
        try:
            found = placement.device_put(x)
        except PlacementError:
            found = tree.map(lambda leaf: handed(fnp.asarray(leaf)), x)
        return found if device is None else tree.map(lambda leaf: placed(leaf, device), found)
    return placement.device_put(x, device)


def device_count(backend: Any = None) -> int:
    """How many devices `funcad.devices()` names.

    >>> device_count() >= 1
    True
    """
    return len(devices(backend))


local_device_count, local_devices = device_count, devices


def process_index(backend: Any = None) -> int:
    """0: there is one process.

    >>> process_index()
    0
    """
    return 0


def process_count(backend: Any = None) -> int:
    """1: there is one process.

    >>> process_count()
    1
    """
    return 1


def make_array_from_callback(shape: Any, sharding: Sharding, data_callback: Callable[[Any], Any]) -> Any:
    """The array of that shape whose one piece the callback gives, asked for the whole.

    >>> import numpy as np
    >>> make_array_from_callback((2,), SingleDeviceSharding(), lambda index: np.ones(3)[index][:2])
    Array([1., 1.])
    """
    return device_put(data_callback(tuple([slice(None) for _ in shape])), sharding)


def named_call(fun: Callable[..., Any], *, name: str | None = None) -> Callable[..., Any]:
    """fun inside a `funcad.named_scope` of its name.

    >>> named_call(lambda x: x + 1, name="next")(1)
    2
    """

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        with named_scope(name or getattr(fun, "__name__", "call")):
            return fun(*args, **kwargs)

    return call


def pmap(fun: Callable[..., Any], axis_name: Any = None, **options: Any) -> Callable[..., Any]:
    """`jit(vmap(fun, axis_name=...))`: there is one device, which takes all lanes.

    >>> import numpy as np, funcad.jax as jax
    >>> pmap(lambda x: x / jax.lax.psum(x, "i"), axis_name="i")(np.ones(2))
    Array([0.5, 0.5])
    """
    mapped = {name: options.pop(name) for name in ("in_axes", "out_axes", "axis_size") if name in options}
    return Handing(jit(vmap(fun, axis_name=axis_name, **mapped), **options))


@contextlib.contextmanager
def log_compiles(enabled: bool = True) -> Iterator[None]:
    """Say why functions are compiled, as `funcad.config.explain_cache_misses` does.

    >>> with log_compiles():
    ...     pass
    """
    with settings.set(explain_cache_misses=enabled):
        yield
