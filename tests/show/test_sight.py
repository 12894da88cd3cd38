"""Programs as HTML and as pictures."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import funcad
from tests.programs import PROGRAMS


class Reader(HTMLParser):
    """Text, titles, and whether every tag is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.titles: list[str] = []
        self.open: list[str] = []
        self.count: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.count[tag] = self.count.get(tag, 0) + 1
        self.titles += [v for k, v in attrs if k == "title"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    assert not reader.open
    return reader


def loss(w: Any, xs: Any) -> Any:
    def step(carry: Any, x: Any) -> Any:
        return np.tanh(w * carry + x), carry

    return np.sum(funcad.scan(step, 0.0, xs)[1])


def test_html_tells_shapes_and_source_lines() -> None:
    page = read(funcad.make_jaxpr(lambda x: np.sin(x) * 2.0)(np.ones((3, 4)))._repr_html_())
    assert "b:f64[3,4] = sin a" in page.text
    assert "f64[3,4]: 12 elements, 96 bytes" in page.titles
    assert any("test_sight.py" in t and "np.sin(x) * 2.0" in t for t in page.titles)


def test_html_folds_sub_programs() -> None:
    page = read(funcad.make_jaxpr(funcad.grad(loss))(0.5, np.ones(4))._repr_html_())
    assert page.count["details"] == 2 and "body:" in page.text  # forward and backward


def test_html_is_escaped() -> None:
    with funcad.named_scope("<b>"):
        program = funcad.make_jaxpr(lambda x: x < 1.0)(2.0)
    page = read(program._repr_html_())
    assert "b" not in page.count


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.f.__name__)
def test_every_program_can_be_shown(program: Any) -> None:
    if program.following:
        pytest.skip("follows values: not for jit")
    try:
        jaxpr = funcad.make_jaxpr(program.f)(*program.make_args())
    except (TypeError, ValueError):
        return  # takes Python values that are not arrays
    read(jaxpr._repr_html_())
    ElementTree.fromstring(jaxpr.graph().svg)


def test_graph_has_a_box_for_every_equation(tmp_path: Any) -> None:
    jaxpr = funcad.make_jaxpr(lambda x, y: (np.sin(x) @ y, x + 1.0))(np.ones((2, 2)), np.ones((2, 2)))
    graph = jaxpr.graph()
    assert graph.svg.count("<rect") == 3 + 2 + 2 and graph._repr_svg_() is graph.svg
    graph.save(tmp_path / "graph.svg")
    assert (tmp_path / "graph.svg").read_text(encoding="utf8") == graph.svg


def test_very_long_programs_are_refused() -> None:
    def f(x: Any) -> Any:
        for _ in range(500):
            x = np.sin(x)
        return x

    with pytest.raises(ValueError, match="too many for a picture"):
        funcad.make_jaxpr(f)(1.0).graph()
