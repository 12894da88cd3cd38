"""What the manual adds to Sphinx: the entries of public names, and a search that finds what `python -m funcad docs` finds.

Sphinx's own search knows no weights: a page that mentions a word once is as good as the one that is about it. So the pages that
`funcad.commands.manual.find` would show come first, and what Sphinx finds follows. What it needs to know of the pages is
written into `_static/find_index.js`; `_static/find.js` is the same arithmetic.
"""

from __future__ import annotations

from typing import Any

import reference
from docutils import nodes
from sphinx.util.docutils import SphinxRole

from funcad.commands import manual


class PublicName(SphinxRole):
    """A name in a table, with a place that links and the search lead to: `:public-name:`funcad.numpy.sin``."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        if self.name == "public-name":
            kind = reference.kind_of(reference.resolve_name(self.text))
            self.env.get_domain("py").note_object(self.text, kind, self.text)
        return [nodes.literal(self.rawtext, self.text.rpartition(".")[2], ids=[self.text])], []


def write_entries(app: Any, page: str, source: list[str]) -> None:
    """Put the entries of public names where a page asks for them."""
    source[0] = reference.write_entries(source[0])


def add_search(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """The scripts of the search, on its page."""
    if page == "search":
        app.add_js_file("find_index.js", loading_method="defer")
        app.add_js_file("find.js", loading_method="defer")


def write_search(app: Any, error: Exception | None) -> None:
    """What the search knows of the pages."""
    if error is None:
        (app.outdir / "_static" / "find_index.js").write_text(reference.find_index(manual.pages()), encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("source-read", write_entries)
    app.connect("html-page-context", add_search)
    app.connect("build-finished", write_search)
    app.add_role("public-name", PublicName())
    app.add_role("foreign-name", PublicName())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
