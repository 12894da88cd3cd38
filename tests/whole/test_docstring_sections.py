"""The names that people meet have docstrings in sections: what goes in, what comes out, what raises, examples, what is near."""

from __future__ import annotations

import functools
import inspect
import re
from typing import Any

import pytest

import funcad.interop
import funcad.ops
import funcad.testing

NAMES = """
    grad value_and_grad jvp vjp linearize linear_transpose hvp gnvp jacfwd jacrev jacobian hessian hessian_diagonal laplacian
    jet stop_gradient
    vmap map
    jit disable_jit load_c constant clear_caches explain_cache_misses
    make_jaxpr eval_shape ShapeDtypeStruct named_scope
    cond switch scan while_loop fori_loop associative_scan
    checkpoint checkpoint_name print_saved_residuals
    custom_jvp custom_vjp custom_gradient custom_vmap custom_root custom_linear_solve closure_convert rules
    debug_nans debug_infs debug_checks pure_callback io_callback
    show_config config.set
    device_put device_get devices default_device block_until_ready
    axis_index axis_size psum pmean pmax pmin all_gather ppermute
    random.key random.split random.fold_in random.normal random.uniform random.randint random.permutation random.choice
    random.bernoulli random.categorical random.gamma random.multivariate_normal
    optimize.sgd optimize.adam optimize.adamw optimize.rmsprop optimize.lbfgs optimize.chain optimize.apply_updates
    optimize.clip_by_global_norm optimize.cosine_decay_schedule optimize.exponential_decay optimize.warmup_cosine_decay_schedule
    tree.map tree.leaves tree.structure tree.flatten tree.unflatten tree.map_with_path tree.register_dataclass
    tree.register_pytree_node tree.save tree.load
    nn.relu nn.gelu nn.sigmoid nn.softmax nn.log_softmax nn.logsumexp nn.one_hot nn.conv nn.dropout nn.layer_norm
    nn.softmax_cross_entropy nn.dot_product_attention
    debug.doctor debug.print debug.callback debug.compile_log debug.locked_arrays
    testing.check_grads testing.certify ops.segment_sum interop.to_torch interop.to_pytensor
""".split()
ORDER = ["Parameters", "Returns", "Raises", "Warns", "Notes", "Examples", "See also"]


def sections(name: str) -> tuple[Any, dict[str, str]]:
    """The object, and the text of each section of its docstring; before the first one that of ''."""
    value = functools.reduce(getattr, name.split("."), funcad)
    _, *parts = re.split(r"^(?=(?:\w+)(?: \w+)*\n-{3,}$)", f"\n{inspect.getdoc(value)}\n", flags=re.MULTILINE)
    found = dict(re.fullmatch(r"([\w ]+)\n-+\n(.*)", part, re.DOTALL).groups() for part in parts)  # type: ignore[union-attr]
    return value, found


def test_there_are_120_names() -> None:
    assert len(NAMES) == len(set(NAMES)) == 120


@pytest.mark.parametrize("name", NAMES)
def test_docstrings_have_sections(name: str) -> None:
    value, found = sections(name)
    options = [p for p in inspect.signature(value).parameters.values() if p.name != "self"]
    assert list(found) == [title for title in ORDER if title in found]
    needed = {*ORDER} - {"Warns"} - ({"Parameters"} if not options else set())
    if re.search(r"raises\s+nothing", found["Notes"]):
        needed -= {"Raises"}
    assert needed <= set(found), needed - set(found)
    heads = [line for line in found.get("Parameters", "").splitlines() if line[:1].strip()]
    told = [name.strip() for head in heads for name in head.partition(" : ")[0].split(",")]
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    assert sorted(told) == sorted(stars.get(p.kind, "") + p.name for p in options)


@pytest.mark.parametrize("name", NAMES)
def test_options_have_a_second_example(name: str) -> None:
    value, found = sections(name)
    if any(p.default not in (p.empty, None) for p in inspect.signature(value).parameters.values()):
        assert len(re.findall(rf"\b{value.__name__}\b", found["Examples"])) >= 2
    assert found["Examples"].lstrip().startswith(">>>")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_near_is_there(name: str) -> None:
    """Names under "See also" stand in the same module, or with `funcad.`."""
    where = functools.reduce(getattr, name.split(".")[:-1], funcad)
    for near in sections(name)[1]["See also"].replace("\n", " ").split(","):
        path = near.strip()
        start, keys = (funcad, path.split(".")[1:]) if path.startswith("funcad.") else (where, path.split("."))
        assert functools.reduce(getattr, keys, start) is not None
