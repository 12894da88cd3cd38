"""`funcad.debug.doctor`: where values stop being finite, which mask hides them, where derivatives are cut."""

from __future__ import annotations

import dataclasses
from html.parser import HTMLParser
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import funcad as fc
from funcad.debug import Diagnosis, doctor


def at(f: Any, line: int) -> str:
    """The name of the line of f's that is so far below its `def`."""
    f = f if isinstance(f, FunctionType) else f.__wrapped__
    return f"test_doctor.py:{f.__code__.co_firstlineno + line} ({f.__code__.co_name})"


def cuts(report: Diagnosis, path: str = "x") -> list[tuple[str, str]]:
    (argument,) = [a for a in report.arguments if a.path == path]
    return [(c.operation, c.line) for c in argument.cuts]


def argument(report: Diagnosis, path: str = "x") -> Any:
    return next(a for a in report.arguments if a.path == path)


class Reader(HTMLParser):
    """Every tag that is opened is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> str:
    reader = Reader()
    reader.feed(page)
    assert not reader.open
    return reader.text


# ---------------------------------------------------------------- cuts


def test_a_cut_in_part_is_reported_by_its_line():
    def f(x):
        rounded = np.round(3 * x)
        return np.sum(rounded) + np.sum(x)

    report = doctor(f)(np.array([0.2, 0.7]))
    assert cuts(report) == [("rint", at(f, 1))]
    assert argument(report).cut == "in part" and argument(report).gradient == "finite"
    assert "x + stop_gradient(np.round(x) - x)" in argument(report).cuts[0].instead
    assert not report.healthy
    assert at(f, 1) in str(report) and "cut in part" in str(report)


@pytest.mark.parametrize(
    ("cut", "operation", "kind"),
    [
        (lambda x: np.round(x), "rint", "step"),
        (lambda x: np.floor(x), "floor", "step"),
        (lambda x: np.ceil(x), "ceil", "step"),
        (lambda x: np.trunc(x), "trunc", "step"),
        (lambda x: np.sign(x), "sign", "step"),
        (lambda x: x // 0.5, "floor_divide", "step"),
        (lambda x: x.astype(int), "convert", "integer"),
        (lambda x: np.argmax(x), "argmax", "integer"),
        (lambda x: np.argsort(x), "argsort", "integer"),
        (lambda x: np.searchsorted(np.arange(3.0), x), "searchsorted", "integer"),
        (lambda x: x > 0.5, "gt", "choice"),
        (lambda x: np.greater(x, 0.5), "gt", "choice"),
        (lambda x: fc.stop_gradient(x), "stop_gradient", "asked for"),
        (lambda x: np.spacing(x), "spacing", "step"),
    ],
)
@pytest.mark.parametrize("jitted", [False, True])
def test_every_kind_of_cut_whole_and_in_part(cut, operation, kind, jitted):
    whole = lambda x: np.sum(cut(x) * 1.0)
    part = lambda x: np.sum(cut(x) * 1.0) + np.sum(x)
    x = np.array([0.3, 1.7])
    for f, expected in ((whole, "whole"), (part, "" if kind == "choice" else "in part")):
        report = doctor(fc.jit(f) if jitted else f)(x)
        found = [c for c in argument(report).cuts if c.operation == operation]
        assert len(found) == 1 and found[0].kind == kind and found[0].instead
        assert argument(report).cut == expected
        assert argument(report).gradient == ("zero" if expected == "whole" else "finite")


def test_what_python_reads_is_a_cut():
    def f(x, table):
        n = int(x[0])
        if x[1] > 0:
            return x[1] * n
        return x[1] + bool(x[0])

    report = doctor(f)(np.array([2.5, 1.0]), 1.0)
    assert cuts(report) == [("gt", at(f, 2)), ("int()", at(f, 1))]
    assert argument(report, "table").cut == "unused"
    report = doctor(f)(np.array([2.5, -1.0]), 1.0)
    assert ("bool()", at(f, 4)) in cuts(report)
    listed = doctor(lambda x: [1.0, 2.0, 3.0][x] * 1.0 if isinstance(x, int) else x * 2.0)(1.0)
    assert argument(listed).gradient == "finite"


def test_reads_inside_a_nested_derivative_are_seen():
    def f(x):
        return fc.grad(lambda y: y * y if y > 0 else y)(x) * int(x)

    report = doctor(f)(2.0)
    assert ("int()", at(f, 1)) in cuts(report) and "gt" in dict(cuts(report))


def test_what_a_library_function_cuts_inside_is_its_own_affair():
    x = np.linspace(0.1, 1.0, 5)
    assert not cuts(doctor(lambda x: np.interp(0.5, x, x) + np.sum(np.unwrap(x)) + np.percentile(x, 30))(x))
    assert cuts(doctor(lambda x: np.sum(np.round(x, 1)))(x))[0][0] == "rint"
    assert argument(doctor(lambda x: np.count_nonzero(x) * 1.0)(x)).cut == "whole"
    assert [c[0] for c in cuts(doctor(lambda x: np.sum(sum([g(x) for g in (np.round, np.sin)])))(x))] == ["rint"]


def test_comparisons_that_a_library_makes_for_itself_are_not_the_users():
    assert doctor(lambda x: np.median(x) + np.linalg.norm(x) + np.std(x))(np.array([1.0, 2.0, 4.0])).healthy
    assert cuts(doctor(lambda x: np.sum(np.where(np.isnan(x), 0.0, x)))(np.ones(2)))[0][0] == "isnan"


def test_paths_of_pytrees_and_keywords():
    def f(params, scale=1.0, *, shift):
        return np.sum(params["w"][0] * scale) + np.sum(np.round(params["w"][1])) + np.floor(shift)

    report = doctor(f)({"w": [np.ones(2), np.ones(3)], "name": "text", "n": 3}, 2.0, shift=0.5)
    assert [(a.path, a.type, a.cut, a.gradient) for a in report.arguments] == [
        ("params['n']", "i64[]", "", "none"),
        ("params['w'][0]", "f64[2]", "", "finite"),
        ("params['w'][1]", "f64[3]", "whole", "zero"),
        ("scale", "f64[]", "", "finite"),
        ("shift", "f64[]", "whole", "zero"),
    ]
    assert [a.path for a in doctor(f, argnums=1)({"w": [np.ones(2), np.ones(3)]}, 2.0, shift=0.5).arguments] == ["scale"]
    assert [a.path for a in doctor(lambda *xs: xs[0] * xs[1], argnums=(-1,))(1.0, 2.0).arguments] == ["args[1]"]


# ---------------------------------------------------------------- values and cotangents that are not finite


def test_the_infinity_is_reported_before_its_nan():
    def f(x):
        big = np.exp(x)
        total = np.sum(big)
        return np.sum(big / total)

    report = doctor(f)(np.array([1.0, 1000.0, 3.0]))
    first = report.first_forward
    assert (first.operation, first.line, first.index, first.given) == ("exp", at(f, 1), (1,), (1000.0,))
    assert first.value == np.inf and first.nan == f"div at {at(f, 3)}" and "subtract the largest" in first.instead
    assert len([n for n in report.forward if not n.harmless]) == 1
    assert argument(report).gradient.startswith("nan")


def test_a_slope_that_is_infinite():
    def f(x):
        y = x * 2.0
        return np.sum(np.sqrt(y) * 3.0)

    report = doctor(f)(np.array([[1.0, 0.0]]))
    first = report.first_backward
    assert report.first_forward is None
    assert (first.operation, first.line, first.index, first.operand) == ("sqrt", at(f, 2), (0, 1), 0)
    assert first.given == (0.0,) and first.cotangent == 3.0 and first.value == np.inf
    assert argument(report).gradient == "inf at [0, 1]"
    assert str(report) == str(doctor(f)(np.array([[1.0, 0.0]])))


def test_operand_of_a_division():
    def f(x, y):
        return np.sum(x / y)

    report = doctor(f)(np.ones(3), np.array([1.0, 0.0, 2.0]))
    assert report.first_forward.index == (1,) and report.first_forward.given == (1.0, 0.0)
    assert report.first_forward.operand == 1 and "from 1, 0 (operand 1)" in str(report)
    assert report.first_backward.operand in (0, 1) and report.first_backward.index == (1,)
    report = doctor(f, argnums=1)(np.ones(3), np.array([1.0, 0.0, 2.0]))
    assert [a.path for a in report.arguments] == ["y"]


@pytest.mark.parametrize("jitted", [False, True])
def test_a_value_behind_a_mask_is_hidden_by_its_line(jitted):
    def f(x):
        y = np.log(x)
        z = y * 2.0
        return np.sum(np.where(x > 0, z, 0.0))

    x = np.array([0.0, 1.0, 2.0])
    report = doctor(fc.jit(f) if jitted else f)(x)
    (found,) = report.forward
    assert (found.operation, found.line, found.index) == ("log", at(f, 1), (0,))
    assert found.harmless == f"hidden by the mask at {at(f, 3)}"
    assert report.first_forward is None and not found.instead
    with np.errstate(all="ignore"):
        gradient = fc.grad(f)(x)  # finite if structural zeros reach so far, else not: the report says which
    assert (argument(report).gradient == "finite") == bool(np.isfinite(gradient).all())
    if report.first_backward is not None:
        assert at(f, 3) in report.first_backward.instead and "np.where(ok, g(np.where(ok, x, 1.0)), 0.0)" in str(report)


def test_where_inside_and_outside_is_healthy():
    def f(x):
        ok = x > 0
        return np.sum(np.where(ok, np.log(np.where(ok, x, 1.0)), 0.0))

    assert doctor(f)(np.array([0.0, 1.0])).healthy
    assert np.array_equal(fc.grad(f)(np.array([0.0, 1.0])), [0.0, 1.0])


def test_elements_that_nobody_reads_are_hidden():
    def f(x):
        y = 1.0 / x
        return np.sum(y[1:])

    (found,) = doctor(f)(np.array([0.0, 1.0])).forward
    assert found.harmless == f"hidden by the mask at {at(f, 2)}"


def test_what_becomes_finite_again_is_harmless():
    def f(x):
        return np.sum(np.exp(-1.0 / x))

    (found,) = doctor(f)(np.array([0.0, 1.0])).forward
    assert found.operation == "div" and found.harmless == f"finite again after exp at {at(f, 1)}"


def test_infinite_masks_from_outside_are_harmless():
    def f(s, mask):
        return np.sum(fc.nn.softmax(np.where(mask, s, -np.inf)) ** 2)

    report = doctor(f)(np.arange(3.0), np.array([True, True, False]))
    assert report.healthy and not report.forward  # a number that does no harm is not worth a word
    report = doctor(lambda s: np.sum(fc.nn.softmax(s + np.array([0.0, 0.0, -np.inf])) ** 2))(np.arange(3.0))
    assert report.healthy and report.forward[0].operation == "value from outside"
    assert report.forward[0].harmless.startswith("finite again after softmax")


def test_of_two_faults_in_one_sum_both_matter():
    def f(x):
        lost = np.sum(np.where(x > 0, np.log(x), 0.0))
        return lost + np.log(x[0]) + np.sqrt(x[1] - 2.0)

    report = doctor(f)(np.array([0.0, 1.0]))
    assert [(n.operation, n.line, bool(n.harmless)) for n in report.forward] == [
        ("log", at(f, 1), True), ("log", at(f, 2), False), ("sqrt", at(f, 2), False)
    ]  # fmt: skip


def test_two_faults_that_need_each_other():
    report = doctor(lambda x, y: np.maximum(x, y) * 2.0)(-np.inf, -np.inf)
    assert {n.operation for n in report.forward if not n.harmless} == {"argument x", "argument y"}
    assert doctor(lambda x, y: np.maximum(x, y) * 2.0)(-np.inf, 1.0).first_forward is None
    assert doctor(np.floor)(np.inf).first_forward.operation in ("argument x", "argument args[0]")  # NumPy 2.4 says its name


def test_arguments_that_are_not_finite_are_named():
    def f(x, y):
        return np.sum(x * y)

    report = doctor(f)(np.array([1.0, np.nan]), np.ones(2))
    assert (report.first_forward.operation, report.first_forward.index) == ("argument x", (1,))
    assert len(report.forward) == 1 and argument(report, "y").gradient == "nan at [1]"


# ---------------------------------------------------------------- whole programs


def test_loops_and_branches_are_seen_turn_by_turn():
    def body(carry, x):
        y = carry / x
        return y, np.floor(y)

    @fc.jit
    def f(xs):
        last, floors = fc.scan(body, 1.0, xs)
        return last + np.sum(floors)

    report = doctor(f)(np.array([1.0, 2.0, 0.0, 1.0]))
    first = report.first_forward
    assert (first.operation, first.line) == ("div", at(body, 1)) and first.inside == ("f", "scan, turn 2")
    (cut,) = argument(report, "xs").cuts
    assert (cut.operation, cut.line, cut.times) == ("floor", at(body, 2), 4)

    def branched(x):
        return fc.cond(x > 0, lambda v: np.round(v) + v, lambda v: np.log(v), x)

    report = doctor(fc.jit(branched))(1.5)
    assert argument(report).cuts[1].inside == ("branched", "cond, branch 1")
    assert report.first_forward is None
    assert doctor(fc.jit(branched))(-1.0).first_forward.operation == "log"
    assert doctor(branched)(-1.0).first_forward.operation == "log"

    report = doctor(lambda x: fc.while_loop(lambda c: c < 10.0, lambda c: c + np.floor(c), x))(1.5)
    assert any(c.operation == "floor" and c.inside == ("while_loop, turn 0",) for c in argument(report).cuts)


def test_nested_transformations():
    def f(x):
        slopes = fc.grad(lambda y: np.sum(np.sqrt(y) ** 3))(x)
        mapped = fc.vmap(lambda row: np.round(row) + row)(x)
        return np.sum(slopes) + np.sum(mapped)

    report = doctor(f)(np.array([1.0, 4.0]))
    assert cuts(report)[0][0] == "rint" and argument(report).gradient == "finite"
    report = doctor(f)(np.array([0.0, 4.0]))
    line = at(f, 1).split()[0]
    assert {n.line.split()[0] for n in (*report.forward, *report.backward) if not n.harmless} == {line}


def test_custom_rules_are_operations():
    @fc.custom_vjp
    def through(x):
        return np.round(x)

    through.defvjp(lambda x: (np.round(x), None), lambda _, ct: (ct,))
    assert argument(doctor(lambda x: np.sum(through(x)))(np.array([0.2, 0.7]))).gradient == "finite"
    assert not cuts(doctor(lambda x: np.sum(through(x)))(np.array([0.2, 0.7])))


def test_effects_happen_once(capsys):
    ran = []

    def body(carry, x):
        fc.debug.print("x = {}", x)
        return carry + np.log(x), None

    def f(xs):
        ran.append(1)
        print("python")
        return fc.jit(lambda v: fc.scan(body, 0.0, v)[0])(xs)

    report = doctor(f)(np.array([0.0, 1.0]))
    assert capsys.readouterr().out.split("\n")[:-1] == ["python", "x = 0.0", "x = 1.0"]
    assert ran == [1] and report.first_forward.operation == "log"


def test_an_error_keeps_its_type_and_says_what_was_seen():
    def f(x):
        y = np.log(x)
        return float(y)

    with pytest.raises(fc.errors.TracerArrayConversionError) as caught:
        doctor(f)(0.0)
    assert "after 1 operations; the first value that is not finite: log makes -inf from 0" in caught.value.__notes__[-1]

    def broken(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        doctor(broken)(1.0)
    assert doctor(np.sin)(1.0).healthy  # and the next one is none the worse


def test_results_that_are_not_one_number():
    report = doctor(lambda x: {"a": x * 2.0, "b": x.sum(), "n": 3})(np.arange(2.0))
    assert "vjp with ones" in report.remark and report.result == "(f64[2], f64[], i64[])"
    assert argument(report).gradient == "finite"
    assert doctor(lambda x: (x * 2.0, {"log": np.floor(x)}), has_aux=True)(2.5).result == "f64[] = 5.0"
    assert doctor(lambda x: [x * 2.0, np.floor(x)], has_aux=True)(2.5).result == "f64[] = 5.0"
    with pytest.raises(TypeError, match="must return a pair"):
        doctor(lambda x: x, has_aux=True)(1.0)


def test_empty_arrays_integers_and_nothing_at_all():
    report = doctor(lambda x: np.sum(np.log(x)))(np.empty((0, 3)))
    assert report.healthy and report.result == "f64[] = 0.0"
    report = doctor(lambda n: n * 2)(3)
    assert "nothing to differentiate" in report.remark and argument(report, "n").gradient == "none"
    assert doctor(lambda: 1.0)().arguments == ()
    report = doctor(lambda x, y: y * 2.0)(1.0, 2.0)
    assert argument(report).cut == "unused" and argument(report).gradient == "zero"


def test_python_numbers_and_methods():
    class Model:
        def product(self, a, b):
            return np.sum(a * b)

    report = doctor(Model().product)(2.0, 5.0)
    assert [(a.path, a.cut, a.gradient) for a in report.arguments] == [("a", "", "finite"), ("b", "", "finite")]
    assert report.healthy and report.result == "f64[] = 10.0"


def test_complex_and_float32():
    report = doctor(lambda z: np.abs(z * 1j) + np.round(z.real))(1.0 + 2.0j)
    assert argument(report, "z").gradient == "finite" and ("rint" in [c.operation for c in argument(report, "z").cuts])
    report = doctor(lambda x: np.sum(np.log(x)))(np.zeros(2, np.float32))
    assert report.first_forward.value == -np.inf and argument(report).type == "f32[2]"


def test_arrays_of_the_caller_stay_as_they_are():
    x, captured = np.array([0.5, 2.0]), np.array([1.0, 0.0])

    def f(v):
        y = np.sum(v / captured)
        mask = v > 1.0
        mask[:] = True  # a comparison's result is the caller's own array, as under grad
        return y + np.sum(np.where(mask, v, 0.0))

    report = doctor(f)(x)
    captured[0] = 3.0
    x[0] = 7.0
    assert report.first_forward.given == (2.0, 0.0) and x.flags.writeable and captured.flags.writeable


def test_refusals():
    with pytest.raises(TypeError, match=r"doctor\(f\)\(x\), not doctor\(f\(x\)\)"):
        doctor(1.0)
    with pytest.raises(TypeError, match="call it outside of jit, grad and vmap"):
        fc.jit(lambda x: doctor(np.sin)(x).healthy)(1.0)
    with pytest.raises(ValueError, match="argnums=3 is out of range"):
        doctor(np.sin, argnums=3)(1.0)


def test_warnings_are_reported_instead_of_given():
    assert doctor(lambda x: np.log(x) + np.sqrt(x - 1.0))(0.0).first_forward.operation == "log"  # warnings are errors here


# ---------------------------------------------------------------- the record


def test_the_report_is_a_frozen_record_and_pages_are_escaped():
    def f(x):
        return np.sum(np.where(x > 0, np.log(x), 0.0)) + np.sum(np.round(x)) + 1.0 / x[0]

    report = doctor(f)(np.array([0.0, 1.0]))
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.name = "other"
    for record in (report, report.forward[0], report.arguments[0], report.arguments[0].cuts[0]):
        names = [field.name for field in dataclasses.fields(record)]
        assert all(name in type(record).__doc__ for name in names)
    text = read(report._repr_html_())
    assert "rint" in text and at(f, 1) in text and "<lambda>" not in report._repr_html_()
    assert "<lambda>" in read(doctor(lambda x: np.round(x))(1.0)._repr_html_())
    assert repr(report) == str(report) and "f64[2]" in str(report)


def test_many_findings_are_counted_and_cut_short():
    def f(x):
        for i in range(200):
            x = np.log(x * i) * 0.0 + 1.0
        return x

    report = doctor(f)(1.0)
    assert sum(n.times for n in report.forward if n.operation == "log") == 1  # after the first all operands are NaN
    lines = str(doctor(lambda x: sum([np.round(x * i) for i in range(50)]))(1.0)).splitlines()
    assert len(lines) < 20 and "(50 times)" in str(lines)
