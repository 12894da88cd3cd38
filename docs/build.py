"""`python docs/build.py` builds the manual: every page's code is run, and a warning, a failing cell or a broken link fails it.

The pages are written to docs/_build/html, or to the folder that is given. Nothing is read from the network, neither by the
build nor by the pages: `check_pages` looks at each.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

HERE = Path(__file__).resolve().parent
KERNEL = """
c.InlineBackend.figure_formats = {"svg"}
c.HistoryManager.enabled = False
c.IPKernelApp.log_level = 50
"""
FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """The anchors of a page, its links, and what a browser loads for it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if FETCHED.get(tag) in values and values.get("rel") != "canonical":
            self.fetched.append(values[FETCHED[tag]])


def check_pages(folder: Path) -> list[str]:
    """What is wrong with the links of the pages: targets that are not there, and what is fetched from other machines."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    wrong = []
    for path, page in pages.items():
        for link in [*page.links, *page.fetched]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.fetched and parts.scheme != "data":
                    wrong.append(f"{path.name}: loads {link} from the network")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                wrong.append(f"{path.name}: {link} is nowhere")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                wrong.append(f"{path.name}: {link} has no such place")
    return wrong


def main(folder: str | None = None) -> int:
    """Build, check, and say how large it is and how long it took."""
    from sphinx.cmd.build import main as sphinx

    output = Path(folder) if folder else HERE / "_build" / "html"
    shutil.rmtree(output, ignore_errors=True)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as settings:  # the kernels read these settings, nobody's own
        profile = Path(settings) / "profile_default"
        profile.mkdir()
        (profile / "ipython_kernel_config.py").write_text(KERNEL, encoding="utf-8")
        os.environ |= {
            "IPYTHONDIR": settings,
            "MATPLOTLIBRC": str(HERE / "_static" / "matplotlibrc"),
            "PYTHONPATH": os.pathsep.join([str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "PYTHONWARNINGS": "error:::__main__",
            "OPENBLAS_NUM_THREADS": "1",
            "FUNCAD_PROGRESS": "off",  # on a busy machine a page would show a meter
        }
        doctrees = str(Path(settings) / "doctrees")
        status = sphinx(["-W", "--keep-going", "-q", "-j", "auto", "-b", "html", "-d", doctrees, str(HERE), str(output)])
    if status:
        return status
    wrong = check_pages(output)
    print("\n".join(wrong))
    files = [path for path in output.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 2**20
    count = sum(path.suffix == ".html" for path in files)
    print(f"{count} pages, {size:.1f} MiB, {time.perf_counter() - start:.0f} seconds: {output}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
