"""Draw the programs of RESULTS_CLIFFS.md as a picture, `cliffs.svg`: a bar for each, from JAX's time to funcad's.

Run: python -m benchmarks.cliffs_picture
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from xml.sax.saxutils import escape

__all__ = ["picture", "rows", "text_picture"]

HERE = Path(__file__).parent
WIDTH, LEFT, RIGHT = 880, 104, 16
TOP, HEIGHT, BOTTOM = 62, 250, 30
LARGEST, SMALLEST = 2.0, 1 / 128
LINES = {1.0: "JAX's time", 1 / 2: "2 times faster"} | {1 / n: f"{n} times" for n in (4, 10, 40, 100)}
STYLE = """
svg { font: 13px system-ui, sans-serif; color-scheme: light dark; }
text { fill: #1f2328; } .title { font-size: 16px; font-weight: 600; } .quiet { fill: #656d76; }
.line { stroke: #d0d7de; } .one { stroke: #656d76; stroke-width: 1.5; } .fast { fill: #2a6fbb; } .slow { fill: #c4622d; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .quiet { fill: #8d96a0; } .line { stroke: #30363d; } .one { stroke: #8d96a0; }
  .fast { fill: #58a6ff; } .slow { fill: #e08a58; }
}
"""


def rows(text: str) -> list[tuple[float, str]]:
    """(ratio, program) of the table of programs, the fastest first."""
    table = text[text.index("\n## Programs\n") : text.index("\n## Peak memory\n")]
    found = []
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if re.fullmatch(r"\d+\.\d+", cells[4] if len(cells) > 4 else ""):
            found.append((float(cells[4]), cells[0]))
    return sorted(found)


def picture(text: str) -> str:
    """The picture of the page's figures."""
    bars = rows(text)
    mean = math.exp(sum(math.log(ratio) for ratio, _ in bars) / len(bars))
    at_least = sum(ratio <= 1 for ratio, _ in bars)
    step = (WIDTH - LEFT - RIGHT) / len(bars)

    def y(ratio: float) -> float:
        share = math.log(LARGEST / max(ratio, SMALLEST)) / math.log(LARGEST / SMALLEST)
        return TOP + HEIGHT * share

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {TOP + HEIGHT + BOTTOM}" role="img">',
        f"<style>{STYLE}</style>",
        f'<text class="title" x="{LEFT}" y="22">36 scientific programs: funcad\'s time beside JAX\'s</text>',
        f'<text class="quiet" x="{LEFT}" y="42">{len(bars)} jitted values and gradients on one core; '
        f"{at_least} at least as fast, {1 / mean:.1f} times faster in the geometric mean</text>",
    ]
    for ratio, words in LINES.items():
        style = "one" if ratio == 1 else "line"
        lines.append(f'<line class="{style}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(ratio):.1f}" y2="{y(ratio):.1f}"/>')
        lines.append(f'<text class="quiet" x="{LEFT - 8}" y="{y(ratio) + 4:.1f}" text-anchor="end">{words}</text>')
    for i, (ratio, program) in enumerate(bars):
        top, bottom = sorted([y(1.0), y(ratio)])
        about = f"{program}: {ratio:g} of JAX's time"
        style = "fast" if ratio <= 1 else "slow"
        lines.append(
            f'<rect class="{style}" x="{LEFT + i * step + 1:.1f}" y="{top:.1f}" width="{step - 2:.1f}" '
            f'height="{max(bottom - top, 1):.1f}"><title>{escape(about)}</title></rect>'
        )
    fastest, slowest = bars[0][1], bars[-1][1]
    bottom = TOP + HEIGHT + 20
    lines.append(f'<text class="quiet" x="{LEFT}" y="{bottom}">{escape(fastest)}</text>')
    lines.append(f'<text class="quiet" x="{WIDTH - RIGHT}" y="{bottom}" text-anchor="end">{escape(slowest)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def text_picture(text: str) -> str:
    """The same figures as letters, for where README stands without its pictures: how many are how much faster."""
    ratios, lines = [ratio for ratio, _ in rows(text)], []
    bounds = [(LARGEST, "slower"), (1.0, "1 to 2 times faster"), (1 / 2, "2 to 4"), (1 / 4, "4 to 10"), (1 / 10, "10 to 40")]
    bounds.append((1 / 40, "over 40"))
    for (most, words), (least, _) in zip(bounds, [*bounds[1:], (0.0, "")]):
        many = sum(least < ratio <= most for ratio in ratios)
        lines.append(f"{words:>19} {'█' * many} {many}")
    return "\n".join(lines)


if __name__ == "__main__":
    page = (HERE / "RESULTS_CLIFFS.md").read_text(encoding="utf-8")
    (HERE / "cliffs.svg").write_text(picture(page), encoding="utf-8")
    print(text_picture(page))  # stands in README.md
