"""`python -m funcad docs`: the manual as text, from the package itself, and the pages that are about some words.

Idea: the wheel has the sources of the pages (setup.py packs them), a checkout has them in docs/. They are shown without
the marks of their format. Words are looked for in titles, headings, code and text, in that order of weight; every page has
words besides that people type and the page does not say (`keywords` in its front matter).
"""

from __future__ import annotations

import bz2
import re
import sys
import webbrowser
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parents[1]
DOCS = PACKAGE.parent / "docs"
FRONT = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
# The longest that fits is cut off, if three letters stay.
ENDINGS = ("ing", "ies", "ed", "es", "s", "e")


class Page(NamedTuple):
    """One page of the manual: its name, as `docs NAME` takes it, its title, its keywords and its text."""

    name: str
    title: str
    keywords: str
    text: str


def sources() -> list[tuple[str, str]]:
    """Name and source of each page: of the package's own file, or of docs/ beside it."""
    packed = PACKAGE / "manual.bz2"
    if packed.is_file():
        parts = bz2.decompress(packed.read_bytes()).decode().split("\f")
        return [(name, text) for name, _, text in [part.partition("\n") for part in parts]]
    paths = sorted(DOCS.rglob("*.md"))
    return [(path.relative_to(DOCS).with_suffix("").as_posix(), path.read_text(encoding="utf-8")) for path in paths]


def pages() -> list[Page]:
    """All pages but the lists of public names, which `help` shows."""
    found = []
    for name, source in sources():
        if name.startswith(("_build/", "api/")):
            continue
        front = FRONT.match(source)
        keywords = re.search(r'^ *"keywords": "(.*)"$', front[1], re.MULTILINE) if front else None
        text = plain(source)
        title = re.search(r"^# (.+)$", text, re.MULTILINE)
        found.append(Page(name, title[1] if title else name, keywords[1] if keywords else "", text))
    return found


def plain(source: str) -> str:
    """A page without the marks of its format: cells become blocks of code, lists of pages vanish.

    >>> from funcad.commands.manual import plain
    >>> print(plain("---\\nkernelspec: python3\\n---\\n# Title\\n```{code-cell}\\n1 + 1\\n```\\n"), end="")
    # Title
    ```python
    1 + 1
    ```
    """
    text = FRONT.sub("", source)
    text = re.sub(r"^```\{(?:toctree|glue:figure)\}.*?^```\n", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^```\{code-cell\}.*\n(?::.*\n)*", "```python\n", text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def stems(text: str) -> Iterator[str]:
    """The words of a text without their endings, so that "compiling" finds "compiled".

    >>> from funcad.commands.manual import stems
    >>> [*stems("Compiling a TracerBoolConversionError")]
    ['compil', 'a', 'tracer', 'bool', 'conversion', 'error']
    """
    for word in re.findall(r"[a-z_]+|\d+", re.sub(r"([a-z])([A-Z])", r"\1 \2", text).lower()):
        for ending in ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                word = word[: -len(ending)]
                break
        yield word


class Weighed(NamedTuple):
    """What the search knows of a page: weights of its words, how often it says them, how long it is, its name and title."""

    name: str
    title: str
    phrases: str
    weights: dict[str, int]
    counts: dict[str, int]
    length: int


def weighed(page: Page) -> Weighed:
    """A page for `find`: one whose title has a word comes before one that mentions it often."""
    headings = "\n".join(re.findall(r"^#+ (.+)$", page.text, re.MULTILINE))
    weights: Counter[str] = Counter()
    for weight, words in ((60, page.title + " " + page.name), (40, page.keywords), (12, headings)):
        weights.update(dict.fromkeys(stems(words), weight))
    text = list(stems(page.text))
    return Weighed(page.name, page.title, f"{page.title} {page.keywords}".lower(), weights, Counter(text), len(text))


def find(words: str, among: Sequence[Page] | None = None) -> list[Page]:
    """The pages that are about these words, the best first. find.js, beside the pages, does the same in browsers."""
    wanted, ranked = dict.fromkeys(stems(words)), []
    among = pages() if among is None else among
    known = [weighed(page) for page in among]
    rarity = {word: 1.0 / (1.0 + sum([word in w.counts for w in known]) / len(known) * 8.0) for word in wanted}
    for page, w in zip(among, known):
        score = 100.0 if words.lower() in w.phrases else 0.0
        for word, rare in rarity.items():
            score += rare * (w.weights.get(word, 0) + 400.0 * w.counts.get(word, 0) / (w.length + 300.0))
        if score:
            ranked.append((score, page))
    return [page for _, page in sorted(ranked, key=lambda pair: -pair[0])]


def show(words: Sequence[str]) -> int:
    """List the pages, show one, or look for words."""
    known = pages()
    if not words:
        built = DOCS / "_build" / "html" / "index.html"
        if built.is_file() and sys.stdout.isatty():
            webbrowser.open(built.as_uri())
        for page in known:
            print(f"{page.name:28} {page.title}")
        print("\npython -m funcad docs PAGE shows one of them; words find the pages that are about them")
        return 0
    wanted = " ".join(words)
    for page in known:
        if wanted.removeprefix("docs/").removesuffix(".md") == page.name:
            built = DOCS / "_build" / "html" / f"{page.name}.html"
            if built.is_file() and sys.stdout.isatty():
                webbrowser.open(built.as_uri())
            print(page.text)
            return 0
    found = find(wanted, known)[:8]
    if not found:
        print(f"No page is about {wanted!r}; `python -m funcad docs` lists all pages", file=sys.stderr)
        return 1
    for page in found:
        print(f"{page.name:28} {page.title}")
    return 0
