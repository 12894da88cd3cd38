"""Unregistered dataclasses, namespaces and named tuples as arguments and results of the transforms, and what is refused."""

import dataclasses
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

import funcad as fc
from funcad import optimize, tree
from funcad.flatten_util import ravel_pytree
from tests.unseen import Noted


@dataclass(frozen=True, slots=True)
class Layer:
    w: object
    b: object
    act: str = "tanh"


@dataclass
class Model:
    layers: list
    options: dict = field(default_factory=lambda: {"reduce": np.mean, "names": ["a", "b"]})
    train: bool = True

    def loss(self, x):
        for layer in self.layers:
            x = x @ layer.w + layer.b
            x = np.tanh(x) if layer.act == "tanh" else x
        return self.options["reduce"](x * x) if self.train else 0.0


class Pair(NamedTuple):
    w: object
    act: str


def model():
    rng = np.random.default_rng(0)
    sizes = [3, 4, 2]
    made = [Layer(rng.normal(size=(m, n)), rng.normal(size=n)) for m, n in zip(sizes, sizes[1:])]
    return Model([made[0], dataclasses.replace(made[1], act="none")])


X = np.linspace(-1.0, 1.0, 15).reshape(5, 3)


def dicts(m):
    return [{"w": layer.w, "b": layer.b} for layer in m.layers]


def loss_of_dicts(layers, x):
    return Model([Layer(**layers[0]), Layer(**layers[1], act="none")]).loss(x)


def agree(objects, containers):
    found, expected = tree.leaves(objects), tree.leaves([[d["w"], d["b"]] for d in containers])
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=1e-12)


GRADIENTS = {
    "grad": fc.grad,
    "jit(grad)": lambda f: fc.jit(fc.grad(f)),
    "grad(jit)": lambda f: fc.grad(fc.jit(f)),
    "vjp": lambda f: lambda m, x: fc.vjp(lambda m: f(m, x), m)[1](np.float64(1.0))[0],
    "checkpoint": lambda f: fc.grad(fc.checkpoint(f)),
    "jacrev": lambda f: fc.jacrev(f),
    "jacfwd": lambda f: fc.jacfwd(f),
}


@pytest.mark.parametrize("how", GRADIENTS)
def test_gradients(how):
    m = model()
    for _ in range(3):
        found = GRADIENTS[how](Model.loss)(m, X)
        assert type(found) is Model and type(found.layers[0]) is Layer and found.options == m.options
        agree(found, fc.grad(loss_of_dicts)(dicts(m), X))


def test_hessians_and_products():
    layer = Layer(np.arange(3.0), 2.0)
    f = lambda p: np.sum(p.w**3) * p.b
    hessian = fc.hessian(f)(layer)
    np.testing.assert_allclose(hessian.w.w, np.diag(12.0 * np.arange(3.0)))
    assert hessian.b.b == 0.0 and hessian.act == hessian.w.act == "tanh"
    out, tangent = fc.jvp(fc.grad(f), (layer,), (tree.map(np.ones_like, layer),))
    np.testing.assert_allclose(tangent.w, 12.0 * np.arange(3.0) + 3.0 * np.arange(3.0) ** 2)
    assert type(out) is type(tangent) is Layer


def test_jit_takes_and_gives_objects_and_knows_their_statics():
    traces = Noted()

    @fc.jit
    def halved(m):
        traces.note()
        return dataclasses.replace(m, w=m.w / 2 if m.act == "tanh" else m.w)

    for _ in range(20):  # also the calls that are written out
        for act in ("tanh", "".join(["no", "ne"])):
            out = halved(Layer(np.full(2, 4.0), 1.0, act))
            assert type(out) is Layer and out.act == act and out.b == 1.0
            np.testing.assert_array_equal(out.w, np.full(2, 2.0 if act == "tanh" else 4.0))
    assert len(traces) == 2
    changed = Layer(np.ones(2), 1.0)
    object.__setattr__(changed, "b", {"c": 1.0, "d": "more"})
    assert halved(changed).b == {"c": 1.0, "d": "more"} and len(traces) == 3


@pytest.mark.parametrize("make", [lambda w: SimpleNamespace(w=w, act="tanh"), lambda w: Pair(w, "tanh")])
def test_namespaces_and_named_tuples(make):
    f = lambda p: np.sum(getattr(np, p.act)(p.w))
    expected = 1 - np.tanh(X) ** 2
    for how in (fc.grad(f), fc.jit(fc.grad(f)), fc.grad(fc.jit(f))):
        for _ in range(10):
            found = how(make(X))
            assert type(found) is type(make(X)) and found.act == "tanh"
            np.testing.assert_allclose(found.w, expected)


def test_written_calls_see_attributes_that_come_and_go():
    total = fc.jit(lambda p: sum(vars(p)[name] for name in vars(p)))
    p = SimpleNamespace(a=1.0, b=2.0)
    assert [total(p) for _ in range(10)] == [3.0] * 10
    p.c = 4.0
    assert total(p) == 7.0
    del p.a, p.c
    assert total(p) == 2.0
    options = fc.jit(lambda p: p.x * (2.0 if "b" in p.names else 1.0))
    p = SimpleNamespace(x=1.0, names={"a"})
    assert [options(p) for _ in range(10)] == [1.0] * 10
    p.names.add("b")
    assert options(p) == 2.0


def test_vmap_and_loops():
    layer = Layer(np.arange(6.0).reshape(3, 2), np.arange(3.0))
    out = fc.vmap(lambda p: dataclasses.replace(p, w=p.w * p.b))(layer)
    np.testing.assert_array_equal(out.w, layer.w * layer.b[:, None])
    out = fc.vmap(lambda p: p, in_axes=(Layer(0, None),), out_axes=Layer(0, None))(layer)
    np.testing.assert_array_equal(out.b, layer.b)
    last, seen = fc.scan(lambda c, x: (dataclasses.replace(c, b=c.b + x), c), Layer(1.0, 0.0), np.arange(4.0))
    assert (last.b, last.act) == (6.0, "tanh")
    np.testing.assert_array_equal(seen.b, [0.0, 0.0, 1.0, 3.0])
    out = fc.while_loop(lambda c: c.b < 5.0, lambda c: dataclasses.replace(c, b=c.b + 2.0), Layer(1.0, 0.0))
    assert out == Layer(1.0, 6.0)
    branch = lambda p, flag: fc.cond(flag, lambda p: p, lambda p: dataclasses.replace(p, b=-p.b), p)
    assert fc.jit(branch)(Layer(1.0, 2.0), False) == Layer(1.0, -2.0)
    other = lambda p, flag: fc.cond(flag, lambda p: p, lambda p: dataclasses.replace(p, act="none"), p)
    with pytest.raises(TypeError, match="act is 'none'"):
        fc.jit(other)(Layer(1.0, 2.0), True)


def test_optimizers_and_ravel():
    m = model()
    flat, again = ravel_pytree(m)
    assert flat.shape == (26,) and again(flat).options == m.options
    method = optimize.adam(0.05)
    state = method.init(m)

    @fc.jit
    def step(m, state):
        value, gradient = fc.value_and_grad(Model.loss)(m, X)
        updates, state = method.update(gradient, state, m)
        return optimize.apply_updates(m, updates), state, value

    first = m.loss(X)
    for _ in range(20):
        m, state, value = step(m, state)
    assert type(m) is Model and value < 0.8 * first


def test_auxiliary_outputs_and_custom_rules():
    (value, aux), gradient = fc.value_and_grad(lambda x: (x * x, Layer(x, 1.0, "aux")), has_aux=True)(3.0)
    assert (value, gradient, aux) == (9.0, 6.0, Layer(3.0, 1.0, "aux"))

    @fc.custom_vjp
    def f(p):
        return p.w * 2.0

    f.defvjp(lambda p: (p.w * 2.0, p), lambda p, ct: (dataclasses.replace(p, w=ct * 10.0, b=0.0),))
    assert fc.grad(f)(Layer(1.0, 2.0)) == Layer(10.0, 0.0)


def message(function, *args, error=TypeError, **kwargs):
    with pytest.raises(error) as info:
        function(*args, **kwargs)
    return str(info.value)


class Dense:
    def __init__(self, w, name):
        self.w, self.name, self.b = w, name, None


def test_plain_instances_are_refused_with_the_lines_that_register_them():
    bad = Layer({"weights": {"a": Dense(np.ones(2), "d")}}, 1.0)
    starts = {fc.grad(lambda p: 1.0): "grad: argument at [0]", fc.jit(lambda p: 1.0): "jit of <lambda>: argument p"}
    for how, start in starts.items():
        text = message(how, bad)
        assert text.startswith(f"{start}.w['weights']['a']: expected an array or a number, got Dense: <")
    lines = text.splitlines()
    assert lines[1] == "Remedy: make its class a pytree, so that its arrays are seen (docs/pytrees):"
    scope = {"funcad": fc, "Dense": Dense}
    exec("\n".join(lines[2:]), scope)
    assert len(lines) == 4
    out = fc.grad(lambda p: np.sum(p.w["weights"]["a"].w ** 2))(bad).w["weights"]["a"]
    np.testing.assert_array_equal(out.w, [2.0, 2.0])
    assert type(out) is Dense and (out.name, out.b) == ("d", None)


def test_static_arguments_are_named():
    f = fc.jit(lambda x, act="tanh", **options: x)
    start = "jit of <lambda>: argument {}: expected an array or a number, got {}\nRemedy: "
    end = "jit(..., static_argnames='{}') makes it part of the signature; it must be hashable."
    assert message(f, 1.0, "relu") == (start + end).format("act", "str: 'relu'", "act")
    assert message(f, 1.0, other=np.sin) == (start + end).format("other", "ufunc: <ufunc 'sin'>", "other")
    text = message(f, 1.0, {"act": "relu"})
    assert text.startswith(start.format("act['act']", "str: 'relu'") + "pass it as an argument of its own")
    text = message(f, 1.0, [object()])
    assert text.startswith("jit of <lambda>: argument act[0]: expected an array or a number, got object: <")
    assert "Remedy: leave it out of the arguments" in text
    assert fc.jit(lambda x, act: x, static_argnames="act")(1.0, "relu") == 1.0


def test_integers_in_fields_say_how_to_make_them_static():
    text = message(fc.grad(lambda p: p.w * p.b), Layer(1.0, 2))
    assert "the argument at .b is the int 2" in text and "or make the field static, field(metadata={'static': True})" in text


def test_an_argument_that_is_changed_and_not_returned():
    def forgets(p):
        p.w = p.w * 2.0
        return p.w

    def keeps(p):
        p.w = p.w * 2.0
        return {"p": p}

    def renames(p):
        p.act = "relu"
        return p.w

    p = SimpleNamespace(w=np.ones(2), act="tanh")
    with pytest.warns(fc.NotCompiledWarning, match=r"an argument\.w is stored, at .*\(forgets\)"):
        np.testing.assert_array_equal(fc.jit(forgets)(p), [2.0, 2.0])
    np.testing.assert_array_equal(p.w, [2.0, 2.0])
    p.w = np.ones(2)
    with pytest.warns(fc.NotCompiledWarning, match=r"an argument\[0\]\.act is stored, at .*\(renames\)"):
        fc.jit(lambda ps: renames(ps[0]))([p])
    assert p.act == "relu"
    np.testing.assert_array_equal(fc.jit(keeps)(p)["p"].w, [2.0, 2.0])
    np.testing.assert_array_equal(p.w, [1.0, 1.0])


@dataclass
class Head:
    w: object


@dataclass
class Net:
    head: Head
    layers: list
    seen: list

    @fc.jit
    def step(self, x):
        self.head.w = self.head.w + x
        return np.sum(self.head.w)


def _head(net, x):
    net.head.w = net.head.w + x
    return np.sum(net.head.w)


def _layer(net, x):
    net.layers[0].w = net.layers[0].w + x
    return np.sum(net.layers[0].w)


def _append(net, x):
    net.seen.append(1.0)
    return np.sum(x) * len(net.seen)


def net():
    return Net(Head(np.zeros(2)), [Head(np.zeros(2))], [])


@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
@pytest.mark.parametrize(
    ("f", "way"), [(_head, fc.jit(_head)), (_layer, fc.jit(_layer)), (_append, fc.jit(_append)), (_head, Net.step)]
)
def test_what_is_stored_deep_in_an_argument_is_stored_in_the_callers(f, way):
    plain, jitted = net(), net()
    for k in range(3):
        x = np.full(2, 1.0 + k)
        assert way(jitted, x) == f(plain, x)
        assert tree.all(tree.map(np.array_equal, jitted, plain))


def test_deep_stores_name_the_variable_and_the_line():
    given = net()
    with pytest.warns(fc.NotCompiledWarning, match=r"an argument\.head\.w is stored, at .*\(step\)"):
        given.step(np.ones(2))
    with pytest.warns(fc.NotCompiledWarning, match=r"an argument\.layers\[0\]\.w is stored, at .*\(_layer\)"):
        fc.jit(_layer)(given, np.ones(2))


@pytest.mark.parametrize("result", [lambda net: (net,), lambda net: {"net": net}, lambda net: Pair(net, "")])
def test_deep_stores_in_an_object_that_is_returned_stay_in_the_result(result):
    @fc.jit
    def keeps(net, x):
        net.head.w = net.head.w + x
        return result(net)

    given = net()
    for _ in range(3):
        np.testing.assert_array_equal(tree.leaves(keeps(given, np.ones(2)))[0], [1.0, 1.0])
        np.testing.assert_array_equal(given.head.w, [0.0, 0.0])


def test_arrays_of_an_object_are_written_as_others_are():
    @fc.jit
    def double(p):
        p.w *= 2.0

    p = SimpleNamespace(w=np.ones(2), act="tanh")
    double(p)
    np.testing.assert_array_equal(p.w, [2.0, 2.0])


class Settings:
    def __init__(self):
        self.n, self.table = 2.0, [3.0]

    def times(self, x):
        return x * self.n


@dataclass
class Configured:
    w: object
    settings: object = field(default=None, metadata={"static": True})
    act: object = None


READS = {
    "an attribute": lambda p, x: x * p.settings.n,
    "a container": lambda p, x: x * p.settings.table[0],
    "a method": lambda p, x: p.settings.times(x),
    "a bound method": lambda p, x: p.act(x),
    "without a source": eval("lambda p, x: x * p.settings.n"),
}


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", READS)
def test_what_is_read_of_an_object_in_a_static_field_is_read_at_each_call(name, inside):
    settings = Settings()
    p, f = Configured(np.ones(2), settings, settings.times), READS[name]
    jitted = fc.jit(f)
    outer = fc.jit(lambda ps, x: jitted(ps["p"][0], x)) if inside else None
    for k in (2.0, 2.0, 2.0, 5.0, 7.0, 7.0):
        settings.n = settings.table[0] = k
        assert (outer({"p": [p]}, 1.0) if inside else jitted(p, 1.0)) == f(p, 1.0)


def test_what_is_stored_in_an_object_in_a_static_field_is_stored_at_each_call():
    @fc.jit
    def counts(p, x):
        p.settings.n = n = p.settings.n + 1.0
        return x * n

    p = Configured(np.ones(2), Settings())
    assert [counts(p, 1.0) for _ in range(4)] == [3.0, 4.0, 5.0, 6.0]
    assert p.settings.n == 6.0


class Labelled:
    """What looks as pandas' Series do."""

    __pandas_priority__ = 3000

    def __array__(self, dtype=None, copy=None):
        return np.ones(3)


def argument(x):
    return {"a": x, "b": "text"}


@pytest.mark.parametrize(
    "transform",
    [fc.grad, fc.jacfwd, fc.jacrev, fc.hessian, fc.vmap, fc.laplacian, fc.hessian_diagonal, fc.make_jaxpr, fc.jit]
    + [lambda f: lambda x: fc.vjp(f, x), lambda f: lambda x: fc.jvp(f, (x,), (x,)), lambda f: lambda x: fc.linearize(f, x)],
)
def test_what_has_labels_is_refused_as_an_argument(transform):
    with pytest.raises(TypeError, match=r"(?i)label|Labelled"):
        transform(np.sum)(Labelled())


def test_the_name_of_a_function_says_nothing_about_what_is_refused():
    with pytest.raises(TypeError, match="make text of them outside"):
        fc.vjp(argument, 1.0)
