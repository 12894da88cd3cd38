"""Printed programs and source locations: short, tidy, and naming the user's lines through every transform."""

import numpy as np

import funcad as fc
from funcad.diagnosis.recording import check_jaxpr
from funcad.host.where import Source
from funcad.ir.aval import Aval
from funcad.ir.trace import trace_function
from funcad.show.pretty import format_jaxpr

F64 = np.dtype(np.float64)


def loss(x, y):
    a = np.sin(x)
    return np.sum(a * y) + 1.0


def equations(jaxpr):
    for equation in jaxpr.equations:
        yield equation
        for value in equation.params.values():
            if hasattr(value, "equations"):
                yield from equations(value)


def test_a_program_reads_well():
    text = fc.jit(loss).lower(np.ones((2, 3)), np.ones((2, 3))).as_text()
    assert text == (
        "{ lambda a:f64[2,3] b:f64[2,3] . let\n"
        "    c:f64[2,3] = sin a\n"
        "    d:f64[2,3] = mul c b\n"
        "    e:f64[] = reduce_sum[axes=(0, 1)] d\n"
        "    f:f64[] = add e 1.0\n"
        "  in (f,) }"
    )


def test_weak_scalars_literals_and_sub_programs():
    inner = fc.jit(lambda x: x * np.float32(2.0))
    text = fc.jit(lambda x, n: (inner(x), n * 2)).lower(np.float32(1.0), 3).as_text()
    assert text == (
        "{ lambda a:f32[] b:i64*[] . let\n"
        "    c:f32[] = call[name=<lambda>] a\n"
        "      jaxpr:\n"
        "        { lambda a:f32[] . let\n"
        "            b:f32[] = mul a 2.0:f32[]\n"
        "          in (b,) }\n"
        "    d:i64*[] = mul b 2\n"
        "  in (c, d) }"
    )


def test_every_equation_names_the_users_line():
    first = loss.__code__.co_firstlineno
    jaxpr = fc.jit(loss).lower(np.ones(3), np.ones(3)).jaxpr
    assert [str(e.source) for e in jaxpr.equations] == [
        f"{__file__}:{first + 1} (loss)",
        f"{__file__}:{first + 2} (loss)",
        f"{__file__}:{first + 2} (loss)",
        f"{__file__}:{first + 2} (loss)",
    ]
    assert f"sin a  # test_pretty.py:{first + 1} (loss)" in format_jaxpr(jaxpr, source=True)


def test_locations_survive_every_transform():
    lines = {loss.__code__.co_firstlineno + 1, loss.__code__.co_firstlineno + 2}
    x, xs = np.ones(3), np.ones((4, 3))
    programs = [
        fc.jit(fc.grad(loss)).lower(x, x).jaxpr,
        fc.jit(fc.grad(fc.jit(loss))).lower(x, x).jaxpr,
        fc.jit(fc.vmap(loss)).lower(xs, xs).jaxpr,
        fc.jit(lambda x: fc.jvp(fc.jit(loss), (x, x), (x, x))[1]).lower(x).jaxpr,
        fc.jit(fc.vmap(fc.grad(fc.jit(loss)))).lower(xs, xs).jaxpr,
    ]
    for jaxpr in programs:
        check_jaxpr(jaxpr)
        found = [e for e in equations(jaxpr) if e.primitive.name in ("sin", "cos", "mul", "reduce_sum")]
        assert found
        for e in found:
            assert e.source.code.co_filename == __file__ and e.source.code.co_name == "loss" and e.source.line in lines, e


def test_following_records_locations_too():
    def f(x):
        return np.sin(x) * x

    _, pullback = fc.vjp(f, 1.0)
    line = f"{__file__}:{f.__code__.co_firstlineno + 1} (f)"
    assert {str(Source(*place)) for place in pullback.jaxpr.sources} == {line}
    # and what is recorded of the way back, the conversion of the cotangent aside
    equations = fc.make_jaxpr(pullback)(1.0).equations
    assert len(equations) > 2 and {str(e.source) for e in equations if e.primitive.name != "convert"} == {line}


def test_many_names_stay_distinct():
    def chain(x):
        for _ in range(800):
            x = x + 1.0
        return [x]

    jaxpr, _ = trace_function(chain, [Aval((), F64)], name="test")
    lines = str(jaxpr).splitlines()
    assert len({line.split(":")[0].strip() for line in lines[1:-1]}) == 800
    assert "ade" in str(jaxpr)
