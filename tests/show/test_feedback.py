"""What notebooks show of profiles, optimisers, settings, caches, programs and structures."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import funcad as fc
from funcad import optimize


def program(x: Any) -> Any:
    y = fc.scan(lambda c, r: (np.tanh(c + r), c * 2.0), x[0], x)[1]
    return np.sum(np.exp(y) * np.sin(x))


def test_a_flame_is_a_picture_of_lines_and_equations(tmp_path: Any) -> None:
    with fc.config.set(engine="numpy"):
        profile = fc.jit(program).profile(np.ones((40, 50)))
    picture = profile.flame()
    root = ElementTree.fromstring(picture.svg)
    titles = [title.text or "" for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles[0].startswith("jit of program") and any(["scan" in t for t in titles]) and len(titles) > 3
    boxes = list(root.iter("{http://www.w3.org/2000/svg}rect"))
    widths = [float(box.get("width", "0")) for box in boxes]
    assert max(widths) <= 961 and all([w >= 1.4 for w in widths])
    rows = {box.get("y") for box in boxes}
    for y in rows:  # boxes of a row do not overlap
        row = sorted([(float(b.get("x", "0")), float(b.get("width", "0"))) for b in boxes if b.get("y") == y])
        assert all([a + w <= b + 0.2 for (a, w), (b, _) in zip(row, row[1:])])
    picture.save(tmp_path / "flame.svg")
    assert (tmp_path / "flame.svg").read_text(encoding="utf8") == picture._repr_svg_()


class Axes:
    def __init__(self) -> None:
        self.calls: list[tuple[str, Any, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: self.calls.append((name, args, kwargs))

    def named(self, name: str) -> list[Any]:
        return [args for called, args, _ in self.calls if called == name]


def test_bars_and_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    profile, ax = fc.jit(program).profile(np.ones((4, 5))), Axes()
    assert profile.plot(ax) is ax
    ((names, times),) = ax.named("barh")
    assert len(names) == len(times) == len(profile.lines) and times[-1] == max(times)
    ax = Axes()
    assert optimize.plot_loss({"a": [3.0, 2.0, np.nan], "b": np.ones((5, 2))}, ax) is ax
    assert [len(losses) for _, losses in ax.named("plot")] == [3, 5]
    assert ax.named("set_yscale") == [("log",)] and ax.named("legend")
    ax = Axes()
    optimize.plot_loss([1.0, -1.0], ax)
    assert not ax.named("set_yscale") and not ax.named("legend")
    for wrong in (3.0, [], np.ones((2, 2, 2))):
        with pytest.raises(ValueError, match="plot_loss: a record is"):
            optimize.plot_loss(wrong, Axes())
    made = Axes()
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", SimpleNamespace(subplots=lambda: (None, made)))
    assert optimize.plot_loss([1.0]) is made
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    for draw in (lambda: optimize.plot_loss([1.0]), profile.plot):
        with pytest.raises(ImportError, match="pip install matplotlib"):
            draw()


def test_optimisers_are_the_calls_that_made_them() -> None:
    assert repr(optimize.adam(1e-3, b2=0.99)) == "adam(0.001, b2=0.99)"
    decay = optimize.exponential_decay(0.1, 100, 0.9)
    both = optimize.chain(optimize.clip_by_global_norm(1.0), optimize.sgd(decay))
    assert repr(both).startswith("chain(clip_by_global_norm(1.0), sgd(") and "0x" not in repr(both)
    assert repr(optimize.add_decayed_weights(0.1, mask=np.ones(1000))) == "add_decayed_weights(0.1, mask=<ndarray>)"
    own = optimize.GradientTransformation(lambda p: (), lambda g, s, p=None: (g, s))
    assert repr(own) == "GradientTransformation(init=<lambda>, update=<lambda>)"
    init, update = both
    assert both == (init, update) and isinstance(both, tuple)


def test_what_else_has_a_text_and_a_table() -> None:
    f = fc.jit(program)
    lowered = f.lower(np.ones((4, 5)))
    assert repr(lowered).startswith("<program lowered for (f64[4,5]): ") and "equations -> (f64[])" in repr(lowered)
    assert "&lt;program lowered" in lowered._repr_html_() and "tanh" in lowered._repr_html_()
    f(np.ones((4, 5)))
    assert "<td" in f.cache_info()._repr_html_() and "misses" in f.cache_info()._repr_html_()
    shown = fc.config._repr_html_()
    assert "FUNCAD_PROGRESS" in shown and "&#x27;auto&#x27;" in shown
    structure = fc.tree.structure({"<a>": 1, "b": (2, 3)})
    assert "&lt;a&gt;" in structure._repr_html_() and "(*, *)" in structure._repr_html_()
