"""Names in generated text."""

from __future__ import annotations

from typing import Any

from funcad.backends.text import Writer


class Asked(set):  # type: ignore[type-arg]
    """A set that counts how often it is asked for an element."""

    times = 0

    def __contains__(self, name: Any) -> bool:
        self.times += 1
        return super().__contains__(name)


def test_names_are_their_own() -> None:
    writer = Writer()
    writer.scope["k_3"] = 1.0
    assert [writer.reserve(name) for name in ("k", "k", "k_2", "k", "k")] == ["k", "k_2", "k_2_2", "k_4", "k_5"]


def test_the_next_free_name_is_found_without_trying_all() -> None:
    writer = Writer()
    writer._taken = Asked()
    assert len({writer.reserve("k") for _ in range(500)}) == 500
    assert writer._taken.times < 2000
