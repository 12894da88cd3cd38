"""What the doctor says to write instead; and the manual's page about it, whose blocks print what they say."""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcad as fc
from funcad.debug import Diagnosis, doctor

PAGE = Path(__file__).parents[2] / "docs" / "doctor.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def argument(report: Diagnosis, path: str = "x") -> Any:
    return next(a for a in report.arguments if a.path == path)



@pytest.mark.parametrize(
    ("f", "x", "words"),
    [
        (lambda x: np.sum(np.sqrt(x**2)), np.array([0.0, 1.0]), "np.abs(x)"),
        (lambda x: np.sum(np.sqrt(x * x)), np.array([0.0, 1.0]), "np.abs(x)"),
        (lambda x: np.sum(np.sqrt(np.square(x))), np.array([0.0, 1.0]), "np.abs(x)"),
        (lambda x: np.sqrt(np.sum(x**2)), np.zeros(2), "np.linalg.norm(x)"),
        (lambda x: np.log(np.linalg.norm(x)), np.zeros(2), "add eps before the logarithm"),
        (lambda x: np.sum(x * np.log(x)), np.array([0.0, 1.0]), "xlogy"),
        (lambda x: np.log(np.sum(np.exp(x))), np.array([-1e4, -1e4]), "logsumexp"),
        (lambda x: np.sum(np.log(fc.nn.softmax(x))), np.array([0.0, 1e4]), "log_softmax"),
        (lambda x: np.sum(np.sqrt(x)), np.array([0.0, 1.0]), "np.sqrt(x + eps)"),
        (lambda x: np.sum(np.arccos(x)), np.array([1.0, 0.0]), "np.clip"),
        (lambda x: np.sum(x**-2.0), np.array([0.0, 1.0]), "(x + eps)**"),
        (lambda x: np.sum(1.0 / x), np.array([0.0, 1.0]), "eps"),
    ],
)
def test_remedies(f, x, words):
    report = doctor(f)(x)
    assert any(words in n.instead for n in (*report.forward, *report.backward)), str(report)


def test_the_remedy_for_round_restores_the_gradient():
    def f(x):
        y = 3 * x
        return np.sum(y + fc.stop_gradient(np.round(y) - y)) + np.sum(x)

    x = np.array([0.2, 0.7])
    assert np.array_equal(fc.grad(f)(x), [4.0, 4.0])
    report = doctor(f)(x)
    assert argument(report).cut == "in part"
    assert report.healthy or [c.kind for c in argument(report).cuts] == ["step", "asked for"]


def test_what_an_inner_derivative_cuts_is_named_for_what_it_is():
    report = doctor(fc.grad(lambda x: np.sum(np.abs(x))))(np.array([1.0, -2.0]))
    (cut,) = [c for c in argument(report).cuts if c.kind == "step"]
    assert argument(report).cut == "whole" and "the slope of abs is constant in pieces" in cut.instead
    assert "straight-through" in argument(doctor(lambda x: np.sum(np.sign(x) * np.abs(x)))(np.ones(2))).cuts[0].instead


@pytest.mark.parametrize("block", BLOCKS, ids=[f"block-{i}" for i in range(len(BLOCKS))])
def test_the_page_prints_what_it_says(block):
    printed = io.StringIO()
    linecache.cache["page.py"] = len(block), None, block.splitlines(True), "page.py"
    with contextlib.redirect_stdout(printed):
        exec(compile(block, "page.py", "exec"), {"__name__": "page"})
    expected = [line[3:] for line in block.splitlines() if line.startswith("#> ")]
    assert printed.getvalue().splitlines() == expected


def test_the_page_has_both_of_its_programs():
    assert len(BLOCKS) == 3
