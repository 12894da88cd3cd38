"""The kernels of a program as one text for a reader: `jit(f).cuda(*args)`.

Idea: modules begin with the same prelude, which is shown once; equal modules are shown once, with all the groups that run them.
What is compiled is the prelude and a module's own text, as they stand here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from funcad.backends.cuda.compile_kernels import OPTIONS
from funcad.backends.cuda.prelude import PRELUDE
from funcad.backends.cuda.sketches import Outline, Unsupported, sketch
from funcad.ir.jaxpr import Equation, Jaxpr, subjaxprs
from funcad.primitives.fused import fused_p

__all__ = ["listing", "modules_of"]

_BAR = "\n\n// ---- "


def listing(fused: Jaxpr, known: dict[Any, Outline], name: str) -> str:
    """The text; raises ValueError where no group has a kernel."""
    modules: dict[str, list[str]] = {}  # text -> who runs it
    without = []
    for equation in _groups(fused):
        what = f"{equation.params['kind']} {'x'.join(map(str, equation.params['shape']))}"
        try:
            launches = sketch(equation, known)
        except Unsupported as reason:
            without.append(f"{what} at {equation.source}: {reason}")
            continue
        operations = " ".join([e.primitive.name for e in equation.params["jaxpr"].equations])
        starts = ", ".join([f"{x.name}<<<{_extent(x.blocks)}, {_extent(x.threads)}>>>" for x in launches])
        for text in dict.fromkeys([launch.text for launch in launches]):
            modules.setdefault(text, []).extend([f"{what}: {operations}", f"  {equation.source}", f"  {starts}"])
    if not modules:
        reasons = without or ["nothing could be fused: each operation is a call of CuPy's own"]
        raise ValueError("\n".join([f"cuda of jit of {name}: the program has no kernels", *[f"  {r}" for r in reasons]]))
    parts = [f"// kernels of jit of {name}; options of NVRTC: {' '.join(OPTIONS)}"]
    parts += [f"// no kernel: {line}" for line in without]
    if any([text.startswith(PRELUDE) for text in modules]):
        parts.append(f"{_BAR[1:]}what each module begins with\n{PRELUDE.rstrip()}")
    for number, (text, users) in enumerate(modules.items()):
        parts += [f"{_BAR[1:]}module {number + 1} of {len(modules)}", *[f"// {line}" for line in users]]
        parts.append(text.removeprefix(PRELUDE).rstrip("\n"))
    return "\n".join(parts) + "\n"


def modules_of(text: str) -> list[str]:
    """The modules of a listing, each as it is compiled."""
    parts = [part.partition("\n")[2] for part in text.rstrip("\n").split(_BAR)[1:]]
    shared = parts.pop(0) if parts and parts[0] + "\n" == PRELUDE else ""
    own = ["\n".join([line for line in part.splitlines() if not line.startswith("// ")]) for part in parts]
    return [f"{shared}\n{part}\n" if shared else f"{part}\n" for part in own]


def _groups(jaxpr: Jaxpr) -> Iterator[Equation]:
    for equation in jaxpr.equations:
        if equation.primitive is fused_p:
            yield equation
        else:
            for sub in subjaxprs(equation.params):
                yield from _groups(sub)


def _extent(extents: tuple[int, ...]) -> str:
    return "x".join(map(str, extents))
