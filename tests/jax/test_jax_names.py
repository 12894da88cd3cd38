"""funcad.jax: JAX's names on NumPy arrays, `x.at` on concrete arrays, the alias for programs that stay as they are."""

from __future__ import annotations

import dataclasses
import importlib.util
import warnings
from typing import Any

import numpy as np
import pytest

import funcad
import funcad.jax as jax
from funcad.jax import dtypes, experimental, sharding
from funcad.jax import numpy as jnp
from tests.forked import in_a_process


def test_install_finds_every_part_under_jaxs_names() -> None:
    assert (
        in_a_process("""
import funcad.jax
funcad.jax.install()
funcad.jax.install()
import jax, jax.numpy as jnp, jax.scipy.stats.norm as normal, jax.scipy.special, jax.tree_util as jtu, jax.numpy.linalg
from jax import lax, nn, random, flatten_util, grad, jit, vmap
from jax.ad_checkpoint import checkpoint_name, print_saved_residuals
from jax.custom_batching import custom_vmap
from jax.scipy.special import logsumexp
from jax.sharding import PartitionSpec
from jax.test_util import check_grads
from jax.typing import ArrayLike, DTypeLike
assert jax is funcad.jax and jit.__wrapped__ is funcad.jit and jtu is funcad.jax.tree_util
assert jtu.tree_unflatten is funcad.tree.unflatten
assert abs(normal.logpdf(0.0) + 0.9189385332046727) < 1e-12
for missing in ("jax.nothing", "jax.numpy.nothing", "jax.scipy.special.nothing"):
    try:
        __import__(missing)
    except ModuleNotFoundError as error:
        assert missing in str(error), error
    else:
        raise SystemExit("found")
print(grad(lambda x: jnp.sum(logsumexp(x)))(jnp.zeros(2)), jnp.zeros(2).at[0].set(1.0))
""")
        == "[0.5 0.5] [1. 0.]"
    )


def test_install_comes_first() -> None:
    assert "jax has been imported already" in in_a_process("""
import sys, types
sys.modules["jax"] = types.ModuleType("jax")
sys.modules["jax"].__file__ = "elsewhere"
import funcad.jax
try:
    funcad.jax.install()
except RuntimeError as error:
    print(error)
""")


def test_concrete_arrays_have_at() -> None:
    x = jnp.arange(4.0)
    assert type(x) is jax.Array
    np.testing.assert_array_equal(x.at[1].set(9.0), [0, 9, 2, 3])
    np.testing.assert_array_equal(x.at[1:3].add(1.0).at[0].multiply(5.0).at[3].apply(np.sqrt), [0, 2, 3, np.sqrt(3)])
    np.testing.assert_array_equal((2 * x + 1).at[x > 1].set(0.0), [1, 3, 0, 0])
    np.testing.assert_array_equal(jnp.linalg.inv(2 * jnp.eye(2)).at[0, 0].set(0.0), [[0, 0], [0, 0.5]])
    np.testing.assert_array_equal(jax.nn.relu(x - 1.5).at[0].set(7.0), [7, 0, 0.5, 1.5])
    np.testing.assert_array_equal(jax.scipy.special.expit(0 * x).at[0].set(7.0), [7, 0.5, 0.5, 0.5])
    assert jax.random.normal(jax.random.key(0), (3,)).at[0].set(0.0)[0] == 0.0
    assert x.at[2].get() == 2.0
    np.testing.assert_array_equal(x, [0, 1, 2, 3])


def update(x: Any) -> Any:
    y = jnp.zeros(3).at[0].set(x[0] ** 2)
    return jnp.sum(y.at[1:].add(x[1:] * 3.0))


def test_at_goes_through_the_transformations() -> None:
    x = jnp.array([2.0, 5.0, 7.0])
    for f in (jax.grad(update), jax.jit(jax.grad(update)), jax.grad(jax.jit(update))):
        np.testing.assert_allclose(f(x), [4.0, 3.0, 3.0])
    np.testing.assert_allclose(jax.vmap(jax.grad(update))(jnp.stack([x, x]))[1], [4.0, 3.0, 3.0])
    np.testing.assert_allclose(jax.hessian(update)(x)[0], [2.0, 0.0, 0.0])


def _first_set(x: Any) -> Any:
    return x.at[0].set(5.0)


def test_arguments_of_traced_functions_have_at() -> None:
    """Plain arrays too, which have none themselves, and at the first call too, which runs other functions un-jitted."""
    x = np.ones(3)
    nested = lambda x: jax.jit(_first_set)(x).at[1].set(2.0)
    for f in (jax.jit(_first_set), jax.jit(lambda x: _first_set(x)), jax.jit(lambda tree: tree["a"].at[0].set(5.0))):
        for _ in range(3):
            given = {"a": x} if f.__wrapped__.__code__.co_varnames == ("tree",) else x
            np.testing.assert_array_equal(f(given), [5.0, 1.0, 1.0])
    np.testing.assert_array_equal(jax.jit(nested)(x), [5.0, 2.0, 1.0])
    np.testing.assert_array_equal(jax.lax.cond(True, _first_set, lambda x: x, x), [5.0, 1.0, 1.0])
    np.testing.assert_array_equal(jax.lax.scan(lambda c, _: (c.at[0].add(1.0), None), x, None, length=3)[0], [4.0, 1.0, 1.0])


def test_traced_arrays_do_not_change() -> None:
    def f(x: Any) -> Any:
        y = x
        y += 1.0
        y *= jnp.ones((2, 1))
        return jnp.sum(x * y)

    x = np.array([1.0, 2.0])
    np.testing.assert_array_equal(jax.grad(f)(x), [6.0, 10.0])
    assert [float(jax.jit(f)(x)) for _ in range(3)] == [16.0] * 3 and x.tolist() == [1.0, 2.0]
    names: dict[str, Any] = {"np": np}
    exec("def g(x):\n    y = x\n    y += 1.0\n    return np.sum(x * y)", names)  # as NumPy has it: both change
    np.testing.assert_array_equal(funcad.grad(names["g"])(x), [4.0, 6.0])


def test_methods_of_traced_values_take_no_mask() -> None:
    x = np.array([1.0, 2.0])
    np.testing.assert_array_equal(jax.grad(lambda x: (x * x).sum(0, where=None))(x), [2.0, 4.0])
    np.testing.assert_array_equal(jax.vmap(lambda x: x.mean(where=None))(x[None]), [1.5])
    names: dict[str, Any] = {}
    exec("f = lambda x: x.sum(where=None)", names)
    assert funcad.jvp(names["f"], (x,), (x,))[0] == x.sum(where=None)


def test_every_array_is_one() -> None:
    seen = []
    jax.jit(lambda x: seen.append((isinstance(x, jax.Array), isinstance(x, jnp.ndarray), isinstance(x, jax.core.Tracer))))(1.0)
    assert seen == [(True, True, True)]
    for x in (np.zeros(2), np.float64(1.0), jnp.zeros(())):
        assert isinstance(x, jax.Array) and isinstance(x, jnp.ndarray) and not isinstance(x, jax.core.Tracer)
    for other in (1.0, [1.0], "x", None):
        assert not isinstance(other, jax.Array)


def test_no_mask_is_no_mask() -> None:
    """Of JAX's functions and of what they made; NumPy's own, traced or not, take None for False."""
    x = np.arange(6.0).reshape(2, 3)
    for name in ("sum", "prod", "mean", "std", "var", "any", "all"):
        plain = getattr(np, name)(x, axis=1)
        np.testing.assert_array_equal(getattr(jnp, name)(x, axis=1, where=None), plain)
        np.testing.assert_array_equal(getattr(jnp.asarray(x), name)(axis=1, where=None), plain)
        np.testing.assert_allclose(funcad.jit(lambda x: getattr(jnp, name)(x, axis=1, where=None))(x), plain)  # noqa: B023
    for name in ("max", "min"):
        plain = getattr(np, name)(x, axis=1)
        np.testing.assert_array_equal(getattr(jnp, name)(x, axis=1, where=None), plain)
        np.testing.assert_array_equal(funcad.jit(lambda x: getattr(jnp, name)(x, axis=1, where=None))(x), plain)  # noqa: B023
    np.testing.assert_array_equal(funcad.grad(lambda x: jnp.sum(x, where=None))(x), np.ones((2, 3)))
    np.testing.assert_array_equal(funcad.jit(lambda x: np.sum(x, where=None))(x), np.sum(x, where=None))


def test_axes_may_be_a_list() -> None:
    x = np.arange(6.0).reshape(1, 2, 3)
    assert jnp.sum(x, axis=[0, 2]).tolist() == [3.0, 12.0] == jnp.asarray(x).sum(axis=[0, 2]).tolist()
    assert jax.vmap(lambda x: x.max(axis=[0, 1]))(x).tolist() == [5.0]


def test_scalar_types_convert_and_are_dtypes() -> None:
    assert jnp.zeros(2, jnp.float32).dtype == jnp.float32 == np.float32 and jnp.float32 != jnp.float64
    assert jnp.issubdtype(jnp.zeros(2, jnp.int32).dtype, jnp.integer) and jnp.dtype(jnp.bool_).kind == "b"
    assert {jnp.float32: 1}[jnp.float32] == 1 and repr(jnp.float32) == "jnp.float32"
    assert isinstance(np.float32(1), jnp.float32) and not isinstance(np.float64(1), jnp.float32)
    found = jax.jit(lambda x: jnp.float32(x) * 2)(np.arange(3))
    assert found.dtype == np.float32
    assert jax.jit(lambda x: jnp.bool_(x))(np.arange(3)).tolist() == [False, True, True]
    assert jnp.promote_types(jnp.float32, jnp.int8) == np.float32


def test_precision_is_full_in_any_case() -> None:
    a = np.arange(4.0).reshape(2, 2)
    np.testing.assert_allclose(jnp.dot(a, a, precision=jax.lax.Precision.HIGHEST), a @ a)
    np.testing.assert_allclose(jnp.einsum("ij,jk", a, a, precision="high"), a @ a)
    np.testing.assert_allclose(jax.jit(lambda a: jnp.matmul(a, a, precision="default"))(a), a @ a)


def test_flags() -> None:
    jax.config.update("jax_enable_x64", True)
    assert jax.config.jax_enable_x64 is True and jax.config.jax_debug_nans is False
    assert jax.config.x64_enabled is jax.config.read("jax_enable_x64") is True
    assert jax.config.jax_numpy_rank_promotion == "allow"
    jax.config.update("jax_debug_nans", True)
    try:
        assert jax.config.jax_debug_nans
        with pytest.raises(funcad.errors.NanError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            jax.grad(lambda x: jnp.log(x))(-1.0)
    finally:
        jax.config.update("jax_debug_nans", False)
    jax.config.update("jax_debug_nans", False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        jax.grad(lambda x: jnp.log(x))(-1.0)
    with pytest.raises(ValueError, match="jax_traceback_filtering.*always 'auto'"):
        jax.config.update("jax_traceback_filtering", "off")
    with pytest.raises(ValueError, match="always 'standard'"):
        jax.config.update("jax_numpy_dtype_promotion", "strict")
    with pytest.raises(AttributeError, match="no meaning"):
        _ = jax.config.jax_nothing


def test_programs_have_32_bits_while_64_are_off() -> None:
    f = jax.jit(lambda x: x * jnp.ones(3) + jnp.arange(3) * np.float32(2))
    x = np.array([1.0, 2.0, 3.0])
    wide = f(x)
    with jax.enable_x64(False):
        assert not jax.config.x64_enabled and f(x).dtype == np.float32 and (f(x) == wide).all()
        made = [jnp.zeros(2), jnp.asarray(x), jnp.ones(3, "float32") * jnp.arange(3), jnp.float64(1.0),
                jax.grad(lambda x: (x * jnp.arange(3)).sum())(x),
                jax.vmap(lambda x: x + 1.0)(x), jax.lax.scan(lambda c, x: (c + x, c), 0.0, x)[1],
                jax.jit(lambda x: jnp.where(x > 0, x, jnp.arange(3)))(x), jax.jvp(jnp.sin, (x,), (x,))[1]]  # fmt: skip
        assert [m.dtype.name for m in made] == ["float32"] * len(made)
        assert jnp.arange(3).dtype == jnp.sum(jnp.arange(3)).dtype == np.int32
        assert jax.dtypes.canonicalize_dtype(float) == jnp.result_type(float) == np.float32
        flat, unravel = jax.flatten_util.ravel_pytree({"a": 1.0, "b": jnp.ones(2)})
        assert flat.dtype == unravel(flat)["b"].dtype == np.float32
        assert funcad.grad(lambda x: x * 2)(3.0).dtype == np.float64  # funcad's own names know nothing of it
    assert jax.config.x64_enabled and f(x).dtype == jnp.zeros(2).dtype == np.float64


def test_narrow_floats_stay_beside_pythons_numbers() -> None:
    pytest.importorskip("ml_dtypes")
    b = jnp.ones(3, jnp.bfloat16)
    wide = b.astype(jnp.float32)
    for f in (lambda b: 1.5 * b + 2, lambda b: jnp.where(b > 0, b, 0.5), lambda b: jnp.clip(b, 0, 0.5), lambda b: b**2 / 3.0,
              lambda b: jnp.maximum(b, 0.0).sum()):  # fmt: skip
        for out in (f(b), jax.jit(f)(b), jax.grad(lambda b, f=f: f(b).sum().astype(jnp.float32))(b)):
            assert out.dtype == jnp.bfloat16
        assert abs(float(f(b).sum()) - float(f(wide).sum())) < 0.03
        assert f(wide).dtype == np.float32
    assert (b.astype(jnp.float32).astype(jnp.bfloat16) * 0.5).dtype == jnp.bfloat16 and (b * np.float32(2)).dtype == np.float32


def test_methods_of_arrays_take_traced_arguments() -> None:
    c = jnp.arange(12.0).reshape(3, 4)
    i, x = np.int64(2), np.ones(4)
    for f, args in {
        (lambda i: c[i - 1, :]): (i,), (lambda i: c.T[0].take(i)): (i,), (lambda x: c.dot(x)): (x,),
        (lambda i: c[0][i] * c[i, 1]): (i,),
        (lambda x: c.sum(where=x > 0)): (x,), (lambda x: c.clip(x, 2 * x)): (x,), (lambda x: c[0].searchsorted(x)): (x,),
    }.items():  # fmt: skip
        assert (jax.jit(f)(*args) == f(*args)).all()
        assert (jax.vmap(f)(*[np.stack([a, a]) for a in args]) == f(*args)).all()
    with pytest.raises(IndexError):
        c[5]


def test_sorting_gives_another_array() -> None:
    x = jnp.array([3.0, 1.0, 2.0])
    f = lambda x: (x.sort() * jnp.arange(3.0)).sum() + 10 * x[0]
    assert (x.sort() == jnp.array([1.0, 2.0, 3.0])).all() and x[0] == 3.0 and type(x.sort()) is jax.Array
    assert f(x) == jax.jit(f)(x) == 38.0 and (jax.grad(f)(x) == jnp.array([12.0, 0.0, 1.0])).all()


def test_devices_tell_what_they_are() -> None:
    device = jax.devices()[0]
    assert (device.platform, device.id, device.device_kind) == ("cpu", 0, "cpu") and funcad.device_put(1.0, device) == 1.0
    assert jax.devices("cpu") == jax.local_devices()[:1] == ["cpu"] and jnp.astype(2.0, "float32").dtype == np.float32
    with pytest.raises(RuntimeError, match="there is none of this platform"):
        jax.devices("tpu")


def test_flags_that_mean_nothing_are_read_and_stay() -> None:
    flags = {"jax_default_prng_impl": "threefry2x32", "jax_compilation_cache_dir": None, "jax_check_tracer_leaks": False}
    for name, value in flags.items():
        assert getattr(jax.config, name) == jax.config.read(name) == value
        jax.config.update(name, value)
    jax.config.update("jax_compilation_cache_dir", "/nowhere")  # what is kept, and where, shows in no result
    with jax.enable_x64(), jax.default_matmul_precision("float32"), jax.numpy_rank_promotion("allow"):
        assert jax.config.jax_enable_x64
    with pytest.raises(ValueError, match="always 'allow'"), jax.numpy_rank_promotion("raise"):
        pass
    jax.config.update("jax_log_compiles", True)
    try:
        assert jax.config.jax_log_compiles and funcad.config.explain_cache_misses
    finally:
        jax.config.update("jax_log_compiles", False)
    assert not funcad.config.explain_cache_misses


def test_arrays_of_every_origin_have_at() -> None:
    x = np.arange(1.0, 4.0)
    square = lambda x: jnp.sum(x**2)
    flat, unravel = jax.flatten_util.ravel_pytree({"a": x})
    made = {
        "grad": jax.grad(square)(x), "value_and_grad": jax.value_and_grad(square)(x)[1], "jit": jax.jit(lambda x: x)(x),
        "decorated": jax.jit(static_argnums=1)(lambda x, n: n * x)(x, 2), "grad of jit": jax.grad(jax.jit(square))(x),
        "jit of grad": jax.jit(jax.grad(square))(x), "vmap": jax.vmap(lambda x: 2 * x)(x), "hessian": jax.hessian(square)(x),
        "jvp": jax.jvp(jnp.sin, (x,), (x,))[1], "vjp": jax.vjp(jnp.sin, x)[1](x)[0], "ravel": flat,
        "linearize": jax.linearize(jnp.sin, x)[1](x), "unravel": unravel(flat)["a"],
        "callback": jax.pure_callback(np.sin, jax.ShapeDtypeStruct((3,), float), x),
        "tree": jax.jit(lambda t: t)({"a": (x, 1.0)})["a"][0], "vectorize": jnp.vectorize(lambda x: 2 * x)(x),
    }  # fmt: skip
    for name, array in made.items():
        changed = array.at[..., 0].set(7.0)
        assert type(array) is jax.Array and (changed[..., 0] == 7.0).all() and (changed.T[1] == array.T[1]).all(), name
    f = jax.jit(square)
    assert f.lower(x).compile()(x) == f(x) == 14.0 and f.__name__ == "<lambda>" and f.cache_info().misses == 1

    class Model:
        scale = 3.0

        @jax.jit
        def scaled(self, x: Any) -> Any:
            return self.scale * x

    assert Model().scaled(x).at[0].set(0.0).tolist() == [0.0, 6.0, 9.0]


def test_programs_are_read_by_jax_extend() -> None:
    from funcad.jax import extend

    program = jax.make_jaxpr(lambda x: jnp.sin(x) * np.arange(2.0))(1.0)
    assert isinstance(program, extend.core.ClosedJaxpr) and isinstance(program.jaxpr, extend.core.Jaxpr)
    assert all([isinstance(e, extend.core.JaxprEqn) and isinstance(e.primitive, extend.core.Primitive) for e in program.eqns])
    (found,) = extend.core.jaxpr_as_fun(program)(2.0)
    assert (found == np.sin(2.0) * np.arange(2.0)).all()
    states = [extend.core.get_opaque_trace_state()]
    jax.grad(lambda x: (states.append(extend.core.get_opaque_trace_state()), x)[1])(1.0)
    assert states[0] == extend.core.get_opaque_trace_state() != states[1]

    @extend.linear_util.transformation_with_aux
    def counted(n: int, *args: Any) -> Any:
        out = yield [a + n for a in args], {}
        yield out, len(args)

    f, count = counted(extend.linear_util.wrap_init(lambda x, y, z: x * y * z, {"z": 10.0}), 1)
    assert f.call_wrapped(1.0, 2.0) == 60.0 and count() == 2


def test_places_and_types() -> None:
    kind = jax.typeof(np.zeros((2, 3), np.float32))
    assert (kind.shape, kind.dtype, kind.ndim, kind.size, kind.weak_type) == ((2, 3), np.float32, 2, 6, False)
    assert not kind.sharding.mesh.are_all_axes_explicit and kind.sharding.shard_shape((4,)) == (4,)
    assert jax.P("a", None) == sharding.PartitionSpec("a", None)
    assert dtypes.canonicalize_dtype("float64") == np.float64 and not dtypes.issubdtype(np.uint32, dtypes.prng_key)
    assert jax.default_backend() == "cpu"
    tree = jax.device_put({"w": np.ones(2)})
    assert tree["w"].at[0].set(3.0)[0] == 3.0


def test_meshes_of_one_device_mean_nothing() -> None:
    mesh = sharding.Mesh(np.array(jax.devices()[:1]), ("data",))
    split = sharding.NamedSharding(mesh, jax.P("data", None))
    assert mesh == jax.make_mesh((1,), ("data",)) and mesh.shape == {"data": 1} and not mesh.empty
    assert split.is_fully_replicated and split.shard_shape((4, 2)) == (4, 2) and len(split.device_set) == jax.device_count()
    assert split == sharding.NamedSharding(mesh, jax.P("data", None)) != sharding.NamedSharding(mesh, jax.P())
    x = jax.device_put(jnp.ones((4, 2)), split)
    with mesh, jax.set_mesh(mesh):
        assert jax.jit(lambda x: jnp.sum(jax.lax.with_sharding_constraint(2 * x, split)))(x) == 16.0
    assert x.sharding == split and x.addressable_shards[0].data is x and (x + 1).sharding.is_equivalent_to(split, 2)
    f = jax.jit(lambda x: 2 * x, in_shardings=split, out_shardings=(None, {"a": jax.P("data")}))
    assert f(x).sharding.is_fully_replicated and f(x).devices() == x.devices() == split.update(spec=jax.P()).device_set
    assert jax.make_array_from_callback((4, 2), split, lambda index: np.ones((4, 2))[index]).sharding == split
    with pytest.raises(TypeError, match="in_shardings takes shardings"):
        jax.jit(lambda x: x, in_shardings="data")
    with pytest.raises(TypeError, match="takes shardings"):
        jax.lax.with_sharding_constraint(x, "data")
    with pytest.raises(ValueError, match="no axis 'model'"):
        sharding.NamedSharding(mesh, jax.P("model"))
    with pytest.raises(TypeError, match="takes a Mesh"):
        sharding.NamedSharding(None, jax.P())
    with pytest.raises(ValueError, match="one for each"):
        sharding.Mesh(np.array(jax.devices()[:1]), ("data", "model"))
    for several in (lambda: sharding.Mesh([0, 1], ("a",)), lambda: jax.make_mesh((2, 4), ("a", "b"))):
        with pytest.raises(NotImplementedError, match="one process"):
            several()


def test_narrow_floats() -> None:
    if not importlib.util.find_spec("ml_dtypes"):
        with pytest.raises(AttributeError, match="Remedy: pip install ml_dtypes"):
            _ = jnp.bfloat16
        return
    x = jnp.array([0.5, 1.5], dtype=jnp.bfloat16)
    assert x.dtype == jnp.bfloat16 == jnp.dtype("bfloat16") and jnp.bfloat16(1.5) == 1.5
    assert jnp.issubdtype(x.dtype, jnp.floating) and jnp.issubdtype(jnp.bfloat16, jnp.inexact)
    assert not jnp.issubdtype(jnp.bfloat16, jnp.integer) and not jnp.issubdtype(jnp.int8, jnp.floating)
    assert float(jnp.finfo(jnp.bfloat16).eps) == 2**-7 and jnp.finfo(np.float32).bits == 32
    assert jnp.promote_types(jnp.bfloat16, jnp.float16) == np.float32 == jnp.promote_types(jnp.bfloat16, "float32")
    for _ in range(3):
        gradient = jax.jit(jax.grad(lambda x: jnp.sum(x.at[0].multiply(3).astype(jnp.float32) ** 2)))(x)
        assert gradient.dtype == jnp.bfloat16 and gradient.tolist() == [9.0, 3.0]
    drawn = jax.random.normal(jax.random.key(0), (3,), jnp.bfloat16)
    assert drawn.dtype == jnp.bfloat16 and drawn.at[0].set(1)[0] == 1
    assert abs(drawn - jax.random.normal(jax.random.key(0), (3,), dtype=jnp.float32)).max() < 0.02
    assert jax.random.normal(jax.random.key(0), (3,), dtype="float16").dtype == np.float16


def test_shapes_are_enough_for_what_is_like_them() -> None:
    shape = jax.eval_shape(lambda x: x.sum(0), jnp.ones((3, 2), np.float32))
    for name, value in (("zeros_like", 0.0), ("ones_like", 1.0), ("full_like", 4.0)):
        made = getattr(jnp, name)(shape, *([4.0] if name == "full_like" else []))
        assert made.tolist() == [value] * 2 and made.dtype == np.float32 and made.at[0].set(7.0)[0] == 7.0
    assert jax.jit(lambda x: jnp.zeros_like(x) + jnp.ones_like(x, dtype=int))(jnp.ones(2)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("kind, lengths", [("FFT", (3,)), ("IFFT", (2, 3)), ("RFFT", (2, 3)), ("IRFFT", (4,))])
def test_lax_fft_is_over_the_last_axes(kind: str, lengths: tuple[int, ...]) -> None:
    x = np.arange(6.0).reshape(2, 3) + (0 if kind == "RFFT" else 1j)
    expected = getattr(np.fft, f"{kind.lower()}n")(x, s=lengths, axes=range(-len(lengths), 0))
    f = lambda x: jax.lax.fft(x, kind, lengths)
    for found in (f(x), jax.vmap(f)(x[None])[0], jax.jvp(f, (x,), (x,))[1], jax.jit(f)(x), jax.jit(f)(x)):
        np.testing.assert_allclose(found, expected)


def test_mapped_one_after_the_other() -> None:
    seen = []
    note = lambda v: np.asarray(seen.append(float(v)) or 2 * v)
    call = lambda x: experimental.io_callback(note, jax.ShapeDtypeStruct((), float), x, ordered=True)
    f = jax.custom_batching.sequential_vmap(lambda x, y: {"a": call(x), "y": y})
    out = jax.vmap(f, in_axes=(0, None))(np.arange(3.0), 5.0)
    jax.effects_barrier()
    assert seen == [0.0, 1.0, 2.0] and np.asarray(out["a"]).tolist() == [0.0, 2.0, 4.0]
    assert np.asarray(out["y"]).tolist() == [5.0] * 3 and f(1.0, 2.0)["a"] == 2.0
    shape = jax.core.ShapedArray((), np.dtype(float))
    once = lambda x: jax.pure_callback(np.sin, shape, x, vmap_method="sequential_unrolled")
    np.testing.assert_allclose(jax.vmap(once)(np.ones(2)), np.sin(np.ones(2)))


def test_structures_count_their_nodes() -> None:
    assert jax.tree_util.tree_structure([1, {"a": 2, "b": None}, (3,)]).num_nodes == 7
    assert jax.tree_util.tree_structure(1).num_nodes == 1


def test_the_rest_of_the_top_level() -> None:
    assert jax.named_call(lambda x: x + 1, name="next")(1) == 2
    np.testing.assert_allclose(jax.pmap(lambda x: x - jax.lax.pmean(x, "i"), axis_name="i")(np.array([1.0, 3.0])), [-1, 1])
    with jax.ensure_compile_time_eval():
        assert jax.jit(lambda x: x + 1)(1) == 2
    y = jax.grad(
        lambda k: experimental.ode.odeint(lambda y, t, k: {"a": -k * y["a"]}, {"a": 1.0}, np.array([0.0, 1.0]), k)["a"][-1]
    )(2.0)
    assert y == pytest.approx(-np.exp(-2.0), rel=1e-6)
    with jax.log_compiles():
        assert funcad.config.explain_cache_misses
    assert not funcad.config.explain_cache_misses
    assert jax.lax.cond(True, lambda x: x + 1, lambda x: x - 1, operand=1.0) == 2.0
    assert jax.jit(lambda p: jax.lax.cond(p > 0, lambda x: x + 1, lambda x: x - 1, operand=p))(-1.0) == -2.0
    with pytest.raises(TypeError, match="both by position"):
        jax.lax.cond(True, abs, abs, 1.0, operand=1.0)
    assert jax.tree_util.DictKey(key="a") == jax.tree_util.DictKey("a") and jax.tree_util.SequenceKey(idx=1).idx == 1
    with pytest.raises(TypeError, match="one argument"):
        jax.tree_util.DictKey(name="a")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = jax.nothing
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = jnp.nothing
    assert round(jnp.asarray(2.6)) == 3 and jnp.ones(2).block_until_ready().sum() == 2.0


@pytest.mark.parametrize("symbol", ["+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>"])
def test_assignments_with_an_operator_rebind_the_name(symbol: str) -> None:
    """JAX's arrays do not change: an alias keeps its values, and the result may have another shape and dtype."""
    names = {"x": jnp.array([[3, 2]]), "y": jnp.array([[1, 2], [3, 1]])}
    names["alias"] = x = names["x"]
    exec(f"x {symbol}= y\nresult = alias {symbol} y", names)
    np.testing.assert_array_equal(names["x"], names["result"])
    assert names["alias"] is x and x.tolist() == [[3, 2]] and isinstance(names["x"], type(x))


def test_assignments_with_an_operator_have_derivatives() -> None:
    def f(t: Any) -> Any:
        total = jnp.ones((2, 1))
        total += t
        return jnp.sum(total**2)

    np.testing.assert_array_equal(jax.grad(f)(jnp.arange(3.0)), [4.0, 8.0, 12.0])
    np.testing.assert_array_equal(jax.jit(jax.grad(f))(jnp.arange(3.0)), [4.0, 8.0, 12.0])


def test_objects_that_nobody_registered_are_leaves() -> None:
    @dataclasses.dataclass
    class Pair:
        first: Any
        second: Any

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Registered:
        first: Any
        second: Any

    pairs = [Pair(1.0, 2.0), Registered(3.0, 4.0)]
    assert jax.tree.leaves(pairs) == [pairs[0], 3.0, 4.0] == jax.tree_util.tree_leaves(pairs)
    assert jax.tree.map(lambda x: x if isinstance(x, float) else x.first, pairs) == [1.0, Registered(3.0, 4.0)]
    assert jax.tree.map(lambda n, x: (n, x), [1, 2], pairs) == [(1, pairs[0]), (2, pairs[1])]
    assert jax.tree.leaves(pairs, lambda x: isinstance(x, Registered)) == pairs
    assert jax.tree_util.tree_flatten(pairs, is_leaf=lambda x: isinstance(x, list))[0] == [pairs]
    leaves, structure = jax.tree.flatten(pairs)
    assert jax.tree.unflatten(structure, leaves) == pairs and funcad.tree.leaves(pairs) == [1.0, 2.0, 3.0, 4.0]
    np.testing.assert_array_equal(jax.grad(lambda p: p.first * p.second)(pairs[1]).first, 4.0)


def test_what_sorts_in_place_in_other_libraries_does() -> None:
    x = jnp.array([3.0, np.nan, 1.0])
    assert np.array_equal(np.sort(x), [1.0, 3.0, np.nan], equal_nan=True) and x[0] == 3.0
    assert np.unique(jnp.array([2.0, 1.0])).tolist() == [1.0, 2.0] and np.median(jnp.array([3.0, 1.0, 2.0])) == 2.0
    assert np.array_equal(jnp.sort(x, descending=True), [np.nan, 3.0, 1.0], equal_nan=True)


def test_einsum_sums_over_axes_that_the_result_does_not_have() -> None:
    a, x = np.arange(6.0).reshape(2, 3), np.array([1.0, 2.0, 4.0])
    np.testing.assert_allclose(jnp.einsum("j..., ... -> j", a, x), a @ x)
    np.testing.assert_allclose(jax.jacobian(lambda x: jnp.einsum("j...,...->j", a, x))(x), a)
    np.testing.assert_allclose(jnp.einsum("ij,j->i", a, x), a @ x)


def test_a_star_import_does_not_change_what_in_place_operators_mean() -> None:
    """The name `jax` tells code that was written for JAX, so only who asks for it gets it."""
    text = "import numpy as np\n{}\ndef f(x):\n    y = np.zeros(3)\n    z = y\n    z += x\n    return np.sum(y * x)\n"
    x = np.arange(3.0)
    for line, plain in (("from funcad import *", 5.0), ("from funcad import *\nfrom funcad import jax", 0.0)):
        names: dict[str, Any] = {}
        exec(text.format(line), names)
        assert ("jax" in names) == (plain == 0.0) and names["scan"] is funcad.scan
        for value in (*[g(x) for g in [funcad.jit(names["f"])] for _ in range(3)], funcad.jvp(names["f"], (x,), (x,))[0]):
            assert value == plain
    assert "jax" in dir(funcad) and "jax" not in funcad.__all__
