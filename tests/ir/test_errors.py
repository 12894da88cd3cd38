"""The text of every message that a user can meet, word for word, and which builtin each class derives from."""

import math
import warnings
from math import sin

import numpy as np
import pytest
from numpy import array

import funcad as fc
from funcad import errors
from funcad.ir.aval import Aval, StackAval, said
from funcad.primitives.arithmetic import add
from tests import standin
from tests.unseen import unseen

DRAWS = np.random.default_rng(0)


def at(f, offset=0):
    """`file:line (name)` of the line `offset` lines below f's first."""
    return f"{__file__}:{f.__code__.co_firstlineno + offset} ({f.__code__.co_name})"


def message(kind, f, *args):
    with pytest.raises(kind) as info:
        f(*args)
    return str(info.value)


@pytest.mark.parametrize(
    "name, builtin",
    [
        ("TracerBoolConversionError", TypeError),
        ("TracerArrayConversionError", TypeError),
        ("TracerIntegerConversionError", TypeError),
        ("UnexpectedTracerError", RuntimeError),
        ("TangentMismatchError", TypeError),
        ("TangentMismatchError", ValueError),
        ("NonScalarOutputError", TypeError),
        ("NonDifferentiableInputError", TypeError),
        ("MissingRuleError", NotImplementedError),
        ("AxesMismatchError", ValueError),
        ("LanesError", ValueError),
        ("TreeMismatchError", ValueError),
        ("TreeDepthError", RecursionError),
        ("UnboundAxisNameError", NameError),
        ("CollectiveError", RuntimeError),
        ("CustomRuleClosureError", ValueError),
        ("PlacementError", TypeError),
        ("NanError", FloatingPointError),
        ("InfError", FloatingPointError),
    ],
)
def test_classes_derive_from_builtins(name, builtin):
    kind = getattr(errors, name)
    assert issubclass(kind, builtin) and issubclass(kind, errors.FuncadError)
    assert name in errors.__all__ and kind.__doc__


def test_bool_conversion():
    def f(x):
        return x if x > 0 else -x

    assert message(errors.TracerBoolConversionError, fc.jit(f, guards=False), 1.0) == (
        f"the truth of a traced bool was asked for at {at(f, 1)}, but inside jit(f) it has no value.\n"
        "Remedy: np.where(condition, a, b) chooses between values, funcad.cond(condition, f, g, x) between computations; or "
        "call the jitted function: without guards=False it goes by the values."
    )


def test_integer_conversion():
    def f(n):
        return list(range(n))

    assert message(errors.TracerIntegerConversionError, fc.jit(f, guards=False), 1) == (
        f"an index of a traced int was asked for at {at(f, 1)}, but inside jit(f) it has no value.\n"
        "Remedy: funcad.fori_loop(0, n, body_fun, carry) instead of a loop over range(n)."
    )


INDEX = "NumPy's arrays and lists take no index that is only known when the program runs"


def test_index_of_a_list():
    def f(n):
        return [1.0, 2.0][n]

    assert message(errors.TracerIntegerConversionError, fc.jit(f, guards=False), 1) == (
        f"an index of a traced int was asked for at {at(f, 1)}, but inside jit(f) it has no value.\n"
        f"Remedy: funcad.numpy.take([1.0, 2.0], n, 0) instead of [1.0, 2.0][n]: {INDEX}."
    )


def test_index_of_an_array():
    table = np.arange(3.0)

    def f(n):
        return table[n]

    assert fc.jit(f)(np.array([1])) == [1.0]  # the places' values are a guard
    assert message(errors.TracerArrayConversionError, fc.jit(f, guards=False), np.array([1])) == (
        f"conversion to a NumPy array of a traced int64 array of shape (1,) at {at(f, 1)}: inside jit(f) it has no value.\n"
        f"Remedy: funcad.numpy.take(table, n, 0) instead of table[n]: {INDEX}."
    )


def test_functions_that_do_not_look_for_traced_values():
    def f(n):
        return np.take(np.arange(3.0), n)

    text = message(errors.TracerArrayConversionError, fc.jit(f, guards=False), np.array([1]))
    assert text.endswith("\nRemedy: call funcad.numpy.take instead of np.take, which does not look for traced values there.")


SLOPE = fc.grad(math.gamma)


@pytest.mark.parametrize(
    ("call", "name", "remedy"),
    [
        (lambda: fc.grad(math.sin)(1.0), "sin", "np.sin"),
        (lambda: fc.grad(sin, argnums=0)(1.0), "sin", "np.sin"),
        (lambda: fc.jvp(math.sin, (1.0,), (1.0,)), "sin", "np.sin"),
        (lambda: fc.jit(fc.grad(math.sin))(1.0), "sin", "np.sin"),
        (lambda: SLOPE(2.0), "gamma", "lambda *args: math.gamma(*args)"),
    ],
)
def test_functions_of_math_that_are_transformed_themselves(call, name, remedy):
    text = message(errors.TracerArrayConversionError, call)
    assert text.startswith(f"math.{name}(x) of a traced float at ")
    assert f"\nRemedy: write {remedy} instead of math.{name}, which does not look for traced values when" in text


def test_other_builtins_that_are_transformed_themselves():
    text = message(errors.TracerArrayConversionError, lambda: fc.grad(float)(1.0))
    assert text.startswith("float(x) of a traced") and "\nRemedy: keep x as it is instead of float(x); or" in text


COMPLEX = "keep x as it is instead of complex(x), and write x + 1j * y instead of complex(x, y)"


@pytest.mark.parametrize(
    "convert, spelled, remedy",
    [
        (lambda x: float(x), "float(x)", "keep x as it is instead of float(x)"),
        (
            lambda x: sin(x),
            "sin(x)",
            "import math and write math.sin(x): a function that was imported by its name does not see traced values",
        ),
        (
            lambda x: array([x, x]),
            "conversion to a NumPy array",
            "import numpy and write numpy.array(x): a function that was imported by its name does not see traced values",
        ),
        (
            lambda x: np.float64(x),
            "conversion to a NumPy array",
            "write x.astype(np.float64) instead of np.float64(x)",
        ),
        (
            lambda x: DRAWS.normal(x),
            "conversion to a NumPy array",
            "call DRAWS.normal in funcad.pure_callback: it needs a real array or number",
        ),
        (complex, "complex(x)", COMPLEX),
        (lambda x: complex(x, 1.0), "complex(x)", COMPLEX),
        (lambda x: complex(1.0, x), "complex(x)", COMPLEX),
    ],
)
def test_array_conversion(convert, spelled, remedy):
    def f(x):
        return convert(x)

    text = message(errors.TracerArrayConversionError, fc.grad(f), 1.0)
    head, tail = text.split("\n")
    assert head.startswith(f"{spelled} of a traced float at {__file__}:")
    assert head.endswith(": it carries a derivative, which would silently be lost.")
    assert tail == f"Remedy: {remedy}; or take funcad.stop_gradient(x) first if no derivative is wanted."


def test_an_error_that_a_try_caught_is_told():
    """`try: float(x)` may only ask whether x is a number: the result stands, and nothing is silent."""

    def f(x):
        try:
            return x * float(x)
        except TypeError:
            return 3.0 * x

    lanes = lambda x: fc.vmap(fc.grad(f))(np.array([x]))[0]
    for g in (fc.grad(f), fc.jit(fc.grad(f)), lambda x: fc.jvp(f, (x,), (1.0,))[1], lanes):
        with pytest.warns(UserWarning, match="carries a derivative.*\n.*caught by a `try`"):
            assert g(2.0) == 3.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fc.jit(f)(2.0) == 4.0
        with pytest.raises(TypeError):  # which is what is told
            fc.grad(lambda x: float(x))(2.0)


def test_with_doors_switched_off():
    with fc.config.set(doors=False):
        for f, name in [(lambda x: math.sin(x), "math.sin"), (lambda x: np.asarray(x), "numpy.asarray")]:
            text = message(errors.TracerArrayConversionError, fc.jit(f, guards=False), 1.0)
            assert text.endswith(f"\nRemedy: set funcad.config.doors to True, so that {name} takes traced values.")


def test_array_conversion_inside_jit():
    def f(x):
        return float(x)

    assert message(errors.TracerArrayConversionError, fc.jit(f, guards=False), 1.0) == (
        f"float(x) of a traced float at {at(f, 1)}: inside jit(f) it has no value.\n"
        "Remedy: keep x as it is instead of float(x)."
    )


@pytest.mark.parametrize("transform", [fc.jit, fc.vmap, fc.grad], ids=["jit", "vmap", "grad"])
def test_leaked_tracer(transform):
    saved = []
    keep = unseen(lambda x: saved.append(x))  # what jit sees is stored at each call

    def f(x):
        keep(x * 2.0)
        return x * 1.0

    transform(f)(np.float64(1.0) if transform is not fc.vmap else np.ones(3))
    name = {fc.jit: "jit(f)", fc.vmap: "vmap", fc.grad: "grad"}[transform]
    assert message(errors.UnexpectedTracerError, lambda: saved[0] + 1.0) == (
        f"a traced float64 scalar was used after the function that it belongs to ({name}) had returned. It was made at "
        f"{at(f, 1)}.\n"
        "Remedy: return the value from the function instead of keeping it in a global, an attribute or a closure"
        f"{'; np.asarray(x) and float(x) give its value' if transform is fc.grad else ''}."
    )
    assert message(errors.UnexpectedTracerError, fc.jit(lambda x: saved[0]), 1.0).startswith(
        "a traced float64 scalar was used after"
    )


MADE = "Remedy: make it from that value, with np.ones_like or np.zeros_like, say."


def test_tangent_mismatches():
    f = lambda p: p["w"] * 2.0
    p = {"w": np.ones(3)}
    assert message(errors.TangentMismatchError, fc.jvp, f, (p,), ({"w": np.ones(2)},)) == (
        f"jvp: tangents[0]['w'] must have the shape of primals[0]['w'], (3,); got a float64 array of shape (2,).\n{MADE}"
    )
    assert message(errors.TangentMismatchError, fc.jvp, f, (p,), ({"w": np.ones(3, np.float32)},)) == (
        "jvp: tangents[0]['w'] must have the dtype of primals[0]['w'], float64; got a float32 array of shape (3,).\n"
        "Remedy: .astype(np.float64); or make it from that value, with np.ones_like or np.zeros_like, say."
    )
    assert message(errors.TangentMismatchError, fc.jvp, f, (p,), ({"v": np.ones(3)},)).startswith(
        "jvp: tangents must have the structure of primals.\n"
    )
    assert message(errors.TangentMismatchError, fc.jvp, lambda n: n, (3,), (1.0,)) == (
        "jvp: primals[0] is an int, which has no derivative, so tangents[0] must be np.zeros((), funcad.float0); got the float "
        "1.0."
    )
    assert message(TypeError, fc.jvp, f, p, p) == (
        "jvp: primals and tangents must be tuples or lists with one entry per argument, got dict and dict.\n"
        "Remedy: jvp(f, (x,), (v,)) instead of jvp(f, x, v)."
    )


def test_cotangent_mismatches():
    _, pullback = fc.vjp(lambda x: (x, x * 2.0), np.ones(3))
    assert message(errors.TangentMismatchError, pullback, (np.ones(3), np.ones(2))) == (
        f"vjp of <lambda>: cotangent[1] must have the shape of output[1], (3,); got a float64 array of shape (2,).\n{MADE}"
    )
    assert "cotangent must have the structure of output" in message(errors.TangentMismatchError, pullback, np.ones(3))
    _, push = fc.linearize(lambda x: x, np.ones(3))
    assert message(errors.TangentMismatchError, push, np.ones(2)) == (
        "derivative of <lambda>: tangents[0] must have the shape of primals[0], (3,); got a float64 array of shape (2,).\n"
        f"{MADE}"
    )


def test_non_scalar_output():
    def f(x):
        return x * 2.0

    assert message(errors.NonScalarOutputError, fc.grad(f), np.ones(3)) == (
        "grad needs a function whose output has shape (), but f returned a float64 array of shape (3,).\n"
        "Remedy: return out.sum(); or funcad.jacrev(f), for the derivative of each output."
    )
    assert message(errors.NonScalarOutputError, fc.grad(f), np.ones(1)) == (
        "grad needs a function whose output has shape (), but f returned a float64 array of shape (1,).\n"
        "Remedy: return out.sum() or out[0]."
    )
    assert message(errors.NonScalarOutputError, fc.grad(lambda x: (x, x)), 1.0) == (
        "grad needs a function whose output is one number, but <lambda> returned a tuple of length 2.\n"
        "Remedy: return the loss alone, or (loss, aux) with has_aux=True."
    )


def test_integer_inputs_and_outputs():
    def f(x):
        return x * 2.0

    assert message(errors.NonDifferentiableInputError, fc.grad(f), 3) == (
        "grad of f: the argument is the int 3, and integers and bools have no derivative.\n"
        "Remedy: pass 3.0 instead of 3."
    )
    assert message(errors.NonDifferentiableInputError, fc.grad(lambda p: p["n"] * 1.0), {"n": np.arange(3)}) == (
        "grad of <lambda>: the argument at ['n'] is an int64 array of shape (3,), and integers and bools have no derivative.\n"
        "Remedy: convert it with .astype(float)."
    )
    assert message(errors.NonDifferentiableInputError, fc.grad(lambda x: 3), 1.0) == (
        "grad of <lambda>: the output is the int 3.\nRemedy: return a float: integers and bools have no derivative."
    )
    assert message(errors.NonDifferentiableInputError, fc.grad(lambda x: x * 1j), 1.0) == (
        "grad of <lambda>: the output is a complex.\n"
        "Remedy: return a real number (np.real, np.abs), or holomorphic=True for complex-differentiable functions."
    )


def test_missing_rules():
    from funcad.ir.primitive import Primitive

    lonely_p = Primitive("lonely", lambda xp, x: x * 2.0, lambda x: x)
    assert message(errors.MissingRuleError, fc.grad(lonely_p), 1.0) == (
        "primitive lonely has no derivative rule (operands: a float).\n"
        "Remedy: call it in a funcad.custom_jvp function, which says the derivative; or on funcad.stop_gradient(x)."
    )
    assert message(errors.MissingRuleError, fc.vmap(lonely_p), np.ones(3)) == (
        "primitive lonely has no batching rule (operands: a float64 array of shape (3,)), so vmap cannot map over it.\n"
        "Remedy: give the function that uses it a rule with funcad.custom_vmap, or loop over axis 0 with funcad.map."
    )
    half_p = Primitive(
        "half", lambda xp, x: x * 2.0, lambda x: x.update(), jvp=lambda tangents, out, x: half_p(tangents[0])
    )
    assert message(errors.MissingRuleError, fc.grad(half_p), 1.0) == (
        "primitive half has no transpose rule (operands: a float64 scalar), so reverse mode cannot pass through it.\n"
        "Remedy: wrap the operation in funcad.custom_vjp, or use forward mode (jvp, jacfwd)."
    )
    assert fc.jvp(half_p, (1.0,), (3.0,))[1] == 6.0


def test_arguments_that_are_not_arrays():
    assert message(TypeError, fc.grad(lambda p: 1.0), {"a": "text"}) == (
        "grad: argument at [0]['a']: expected an array or a number, got str: 'text'\n"
        "Remedy: leave it out of the arguments, in a closure: lambda x: f(x, option). If it holds arrays, its class must be a "
        "pytree: funcad.tree_util.register_pytree_node, docs/pytrees."
    )
    assert message(TypeError, fc.jit(lambda x: x), object) == (
        f"jit of <lambda>: argument x: expected an array or a number, got type: {object!r}\n"
        "Remedy: jit(..., static_argnames='x') makes it part of the signature; it must be hashable."
    )
    assert message(TypeError, fc.vmap(lambda x: x), np.array(["a"])) == (
        "vmap of <lambda>: argument at [0][0]: funcad computes with bool, int, float and complex arrays; got dtype <U1.\n"
        "Remedy: np.unique(x, return_inverse=True)[1], which numbers the strings."
    )


def test_tracebacks_show_the_users_frames_only():
    def f(x):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError) as info:
        fc.grad(fc.jit(f))(1.0)
    inside = [
        entry for entry in info.traceback if "/funcad/" in str(entry.path).replace("\\", "/").split("/tests/")[0] + "/"
    ]
    files = {str(entry.path) for entry in info.traceback}
    assert __file__ in files
    assert len([p for p in files if p.endswith(("interpret.py", "trace.py", "following.py", "linearizing.py"))]) == 0, inside


def test_an_error_while_running_a_program_names_the_users_line():
    from funcad.ir.primitive import Primitive

    def fail(xp, x):
        raise ValueError("no luck")

    fail_p = Primitive("fail", fail, lambda x: x)

    def f(x):
        fc.debug.callback(list, (x,))
        return fail_p(x)

    with pytest.raises(ValueError, match="no luck") as info:
        fc.jit(f)(1.0)
    assert info.value.__notes__ == [f"funcad: while running an operation written at {at(f, 2)}"]
    with pytest.raises(ValueError, match="no luck") as info:  # nothing has happened: what raises is the function itself
        fc.jit(lambda x: fail_p(x))(1.0)
    assert info.traceback[-1].name == "fail" and "<lambda>" in [entry.name for entry in info.traceback]


def test_unbound_axis_name():
    assert message(errors.UnboundAxisNameError, fc.psum, 1.0, "i") == (
        "psum: the axis name 'i' is not bound; bound names here: none.\n"
        "Remedy: call it inside a function that is mapped with funcad.vmap(f, axis_name='i'), or with\n"
        "funcad.distributed.spmd."
    )


def test_custom_rule_closure():
    def f(weight):
        g = fc.custom_jvp(lambda x: x * weight)
        g.defjvp(lambda p, t: (g(*p), t[0]))
        return g(2.0)

    text = message(errors.CustomRuleClosureError, fc.grad(f), 1.0)
    assert text == (
        f"custom_jvp function <lambda> closes over the variable 'weight', which is being traced (float in grad, made at "
        f"{__file__}:{f.__code__.co_firstlineno + 1} (<lambda>)): the derivative with respect to it would be lost.\n"
        "Remedy: make it an argument of the function and of its rules; for a function that closes over it, "
        "funcad.closure_convert turns such values into arguments."
    )


def test_tree_mismatch():
    assert message(errors.TreeMismatchError, fc.tree.map, np.add, {"w": 1.0}, {"v": 1.0}) == (
        "rest[0] is a dict without the key 'w' and with the extra key 'v', unlike tree."
    )


def test_placement():
    with standin.registered():
        x = standin.to_device(np.ones(3))
        assert message(errors.PlacementError, add, x, np.ones(3)) == (
            "add got a NumPy array of shape (3,) and dtype float64 together with a standin array of shape (3,) and dtype "
            "float64.\n"
        "Remedy: move one of them: funcad.device_put(x) puts a NumPy array on the GPU, funcad.device_get(x) brings a GPU "
            "array back."
        )


def test_nan():
    def f(x):
        return np.log(x)

    def checked():
        with fc.debug_nans():
            fc.jit(f)(-1.0)

    assert message(errors.NanError, checked) == f"log made a NaN from operands without one, at {at(f, 1)}"


def test_infinity():
    def f(x):
        return np.log(x)

    def checked():
        with fc.debug_infs():
            fc.jit(f)(0.0)

    assert message(errors.InfError, checked) == f"log made an infinity from operands without one, at {at(f, 1)}"


def test_outputs_that_are_not_arrays():
    f = lambda x: {"a": x, "b": "text"}
    said = "expected an array or a number, got str: 'text'\nRemedy: return numbers and arrays; make text of them outside."
    assert message(TypeError, fc.jit(f), 1.0) == f"jit of <lambda>: output at ['b']: {said}"
    assert message(TypeError, fc.vmap(f), np.ones(2)) == f"vmap of <lambda>: output at ['b']: {said}"
    said = "vmap takes a function, got None.\nRemedy: vmap(f)(x) instead of vmap(f(x))."
    assert message(TypeError, fc.vmap, None) == said


@pytest.mark.parametrize("name", [n for n in errors.__all__ if n != "FuncadError"])
def test_docstrings_have_an_example_and_a_remedy(name):
    assert "Example: " in getattr(errors, name).__doc__ and "Remedy: " in getattr(errors, name).__doc__


@pytest.mark.parametrize(
    "f, name",
    [
        (lambda x: x * x, "mul"),
        (lambda x: 2.0 / x, "div"),
        (lambda x: x @ x, "dot_general"),
        (lambda x: np.where(x > 0, x, 0.0), "gt"),
    ],
)
def test_linear_transpose_of_a_function_that_is_not_linear(f, name):
    transposed = fc.linear_transpose(f, np.ones(3))
    ct = np.float64(1.0) if name == "dot_general" else np.ones(3)
    assert message(errors.MissingRuleError, transposed, ct) == (
        f"{name} is not linear in these operands, so it has no transpose.\n"
        "linear_transpose takes functions that are linear in all their arguments; use funcad.vjp for others."
    )


def test_shapes_that_are_traced_name_the_remedy():
    for f in (lambda n: np.zeros(n), lambda n: np.empty((n,))):
        with pytest.raises(TypeError, match="static_argnums"):
            fc.jit(f, guards=False)(3)
    with pytest.raises(TypeError, match="static argument"):
        fc.jit(lambda n: np.arange(n), guards=False)(3)


def test_arrays_of_other_libraries_name_the_remedy():
    class Foreign:
        aval, shape, dtype = object(), (3,), np.dtype(float)

    for transform in (fc.jit, fc.grad, fc.vmap):
        with pytest.raises(TypeError, match=r"np.asarray\(x\)"):
            transform(np.sum)(Foreign())


@pytest.mark.parametrize(
    "option, given",
    [("static_argnames", "m"), ("static_argnums", 5), ("static_argnums", -3), ("donate_argnums", 3), ("donate_argnames", "q")],
)
def test_jit_refuses_options_that_name_no_parameter(option, given):
    with pytest.raises(ValueError, match=f"{option} names"):
        fc.jit(lambda x, n: x, **{option: given})


def test_jit_options_reach_variable_parameters():
    assert fc.jit(lambda *a: a[3], static_argnums=3)(1.0, 2, 3, 4) == 4
    assert fc.jit(lambda **k: k["a"] * k["b"], static_argnames="b")(a=1.0, b=2) == 2.0


@pytest.mark.parametrize(
    "value, text",
    [
        (3, "the int 3"),
        (True, "the bool True"),
        (2.5, "the float 2.5"),
        (np.float32(0.5), "the float32 0.5"),
        (np.array(1.0), "a float64 scalar"),
        (np.zeros(3), "a float64 array of shape (3,)"),
        (np.zeros((2, 0), np.int32), "an int32 array of shape (2, 0)"),
        (np.zeros(2, np.uint8), "a uint8 array of shape (2,)"),
        (np.zeros(2, bool), "a bool array of shape (2,)"),
        (np.zeros(2, fc.float0), "a float0 array of shape (2,)"),
        ((1, 2), "a tuple of length 2"),
        ("abc", "the str 'abc'"),
        (None, "None"),
        ({}, "a dict"),
        (Exception(), "an Exception"),
    ],
)
def test_values_are_said_in_words(value, text):
    assert said(value) == text


def test_avals_have_two_texts():
    """Errors say them in words; printed programs are short."""
    aval = Aval((2, 3), np.dtype(int))
    assert f"{aval} {aval:a} {aval.short} {aval!r}" == (
        "int64 array of shape (2, 3) an int64 array of shape (2, 3) i64[2,3] Aval(i64[2,3])"
    )
    weak = Aval((), np.dtype(float), True)
    assert f"{weak} {weak:a} {weak.short}" == "float a float f64*[]"
    stack = StackAval(Aval((3,), np.dtype(float)))
    assert f"{stack:a} {stack.short}" == "a stack of float64 array of shape (3,) for each turn stack[f64[3]]"


@fc.jit
def _refuses(x, n):
    raise ValueError(f"{said(x)}, {said(n)}")


def test_traced_values_have_no_value_to_say():
    assert message(ValueError, _refuses.lower, np.ones(3), 2) == "a float64 array of shape (3,), an int"
