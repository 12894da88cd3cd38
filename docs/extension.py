"""What the manual adds to Sphinx: the entries of public names, and a search that finds what `python -m funcad docs` finds.

Sphinx's own search knows no weights: a page that mentions a word once is as good as the one that is about it. So the pages that
`funcad.commands.manual.find` would show come first, and what Sphinx finds follows. What it needs to know of the pages is
written into `_static/find_index.js`; `_static/find.js` is the same arithmetic.

`{cards}` on the page of an index shows other pages as cards: each line is the name of a page and a sentence. A card has the
first picture of its page, with its description, and the title as a link.
"""

from __future__ import annotations

import re
from typing import Any

import reference
from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective, SphinxRole

from funcad.commands import manual


class PublicName(SphinxRole):
    """A name in a table, with a place that links and the search lead to: `:public-name:`funcad.numpy.sin``."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        if self.name == "public-name":
            kind = reference.kind_of(reference.resolve_name(self.text))
            self.env.get_domain("py").note_object(self.text, kind, self.text)
        return [nodes.literal(self.rawtext, self.text.rpartition(".")[2], ids=[self.text])], []


class FirstPicture(nodes.Element):
    """Stands for the first picture of another page until that has been read."""


class Cards(SphinxDirective):
    """`name: sentence` in each line."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        cards = nodes.container(classes=["cards"])
        for line in self.content:
            page, _, sentence = line.partition(": ")
            target = f"{self.env.docname.rpartition('/')[0]}/{page}"
            link = addnodes.pending_xref("", nodes.inline(classes=["doc"]), refdomain="std", reftype="doc", refexplicit=False)
            link.update_all_atts({"reftarget": f"/{target}", "refwarn": True, "refdoc": self.env.docname})
            title = nodes.paragraph("", "", link, classes=["card-title"])
            text = nodes.paragraph(sentence, sentence)
            cards += nodes.container("", FirstPicture(page=target), title, text, classes=["card"])
        return [cards]


def show_pictures(app: Any, doctree: nodes.document, page: str) -> None:
    """The pictures of cards, as the pages have them."""
    for place in list(doctree.findall(FirstPicture)):
        pictures = list(app.env.get_doctree(place["page"]).findall(nodes.image))
        link = nodes.reference("", "", refuri=app.builder.get_relative_uri(page, place["page"]), internal=True)
        link += [picture.deepcopy() for picture in pictures[:1]]
        place.replace_self([link] if pictures else [])


def forget_builtins(app: Any, env: Any) -> None:
    """The list of sources names no module that has none."""
    sources = getattr(env, "_viewcode_modules", {})
    for name in [name for name, source in sources.items() if not source]:
        del sources[name]


def link_names(app: Any, doctree: nodes.document, page: str) -> None:
    """Names in code font lead to their entries: `funcad.grad`, `grad`, and those of the module that a page is about."""
    entries = app.env.get_domain("py").objects
    places = [f"{module}." for module, home in reference.modules().items() if home == page]
    for word in list(doctree.findall(nodes.literal)):
        name = re.sub(r"\(.*\)$", "", word.astext())
        taken = isinstance(word.parent, (nodes.reference, nodes.title, addnodes.pending_xref)) or word["ids"]
        if taken or not reference.NAME.fullmatch(name):
            continue
        full = [*[place + name for place in places], name, f"funcad.{name}", f"funcad.errors.{name}"]
        found = next((known for known in full if known in entries), "")
        if found and name not in reference.AMBIGUOUS and not name.startswith(("numpy.", "scipy.")):
            target = f"{app.builder.get_relative_uri(page, entries[found].docname)}#{entries[found].node_id}"
            word.replace_self(nodes.reference("", "", word.deepcopy(), refuri=target, internal=True, reftitle=found))


def answer_sources(app: Any, doctree: nodes.document, page: str) -> None:
    """Places for the links back from the sources, which take one name for all that a module has."""
    for signature in doctree.findall(addnodes.desc_signature):
        module, name = signature.get("module"), signature.get("fullname")
        if module and name and "." not in name:
            home = reference.home_of(getattr(reference.resolve(module), name))
            source = getattr(app.env, "_viewcode_modules", {}).get(home)
            if source and source[3] != module:
                signature["ids"].append(f"{source[3]}.{name}")


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
    app.connect("env-updated", forget_builtins)
    app.connect("doctree-resolved", show_pictures)
    app.connect("doctree-resolved", answer_sources)
    app.connect("doctree-resolved", link_names)
    app.connect("build-finished", write_search)
    app.add_directive("cards", Cards)
    app.add_role("public-name", PublicName())
    app.add_role("foreign-name", PublicName())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
