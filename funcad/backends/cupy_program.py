"""A compiled program on arrays of a device: Python that calls CuPy, a line for each operation that the passes leave.

Idea: the passes and the writer are those of the NumPy engine, without groups, unless `config.engine` is "cuda": then those
groups that have kernels (backends/cuda) are one call each. Values die after their last use, operations write over operands
that die, and over donated arguments. Invariants: nothing waits for the device but where Python needs a value (a condition, a
computed start, a count); results without axes are arrays there. Trap: the program may run in several threads, on several
streams and on several devices, so nothing of a run is kept.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from funcad.backends import engines
from funcad.backends.interpreter import apart, compiling, moved
from funcad.host.devices import restore_warnings, suppress_warnings
from funcad.host.where import setting
from funcad.ir.jaxpr import Jaxpr


class OnDevice:
    """The program of `owner` on the arrays of `library`."""

    __slots__ = ("owner", "library", "runs", "kernels", "reasons", "_optimized", "_fused", "_written", "_graphs", "_deferred")

    def __init__(self, owner: Any, library: Any):
        self.owner = owner
        self.library = library
        self.runs = engines.COLD if engines.estimate(owner.jaxpr) > engines.AT_ONCE else 0
        self.kernels: dict[Jaxpr, Any] = {}  # of groups, by their programs
        self.reasons: list[str] = []  # why groups have none
        self._optimized: Jaxpr | None = None
        self._fused: Jaxpr | None = None
        self._written: dict[frozenset[int], Any] = {}  # positions of inputs that may be written over -> the program
        self._graphs: Any = None  # captured runs (cuda/graphs.py)
        self._deferred: list[Any] = []  # groups that run lines until they are compiled

    def run(self, args: Sequence[Any], donated: frozenset[int] = frozenset()) -> list[Any] | None:
        """The outputs; None: the reference is to run, since this does not pay yet."""
        self.runs += 1
        if self.runs <= engines.COLD:
            return None
        generated = self.generated(frozenset([i for i, a in enumerate(args) if id(a) in donated]) if donated else donated)
        keeps = not self.owner.jaxpr.has_effects  # nobody but the program sees them
        values = [moved(self.library, a, keeps) for a in args]
        lent = [v for v, a in zip(values, args) if v is not a]
        del args
        token = suppress_warnings()
        try:
            if self.owner.engine == "cuda" and not donated and hasattr(self.library, "cuda") and not self.waiting():
                outputs = self.graphs.run(values)
                if outputs is not None:
                    return outputs
            outputs = generated.function(values)
        except Exception as error:
            generated.note(error)
            raise
        finally:
            restore_warnings(token)
        return apart(self.library, [moved(self.library, x) for x in outputs], lent)

    @property
    def graphs(self) -> Any:
        """The captured runs."""
        if self._graphs is None:
            with compiling:
                if self._graphs is None:
                    generate = importlib.import_module("funcad.backends.emission").generate
                    graphs = importlib.import_module("funcad.backends.cuda.graphs").Graphs
                    written = lambda library: generate(self.fused, self._kernel, library=library)
                    self._graphs = graphs(written, self.fused, self.library)
        return self._graphs

    @property
    def optimized(self) -> Jaxpr:
        """The program after the passes."""
        if self._optimized is None:
            with setting(engine="numpy"):  # numbers are no loops of machine code here
                self._optimized = importlib.import_module("funcad.passes.pipeline").pipeline_end(self.owner.jaxpr)
        return self._optimized

    @property
    def fused(self) -> Jaxpr:
        """The same with groups, if there are kernels for some."""
        if self._fused is None:
            self._fused = self.optimized
            if self.owner.engine == "cuda":
                grouped = importlib.import_module("funcad.passes.example_loops").grouped(self.optimized)
                with_groups = importlib.import_module("funcad.backends.cuda.cuda_loops").with_device_groups
                self._fused = with_groups(grouped, self.reasons.append)
        return self._fused

    def _kernel(self, equation: Any) -> Any:
        """The kernel of a group, or None."""
        group = equation.params["jaxpr"]
        cuda = importlib.import_module("funcad.backends.cuda.launches")
        if group not in self.kernels:
            try:
                self.kernels[group] = cuda.kernel_for(equation, self.library)
            except cuda.Unsupported as reason:
                self.reasons.append(f"{equation.params['kind']} group at {equation.source}: {reason}")
                return None
        return self.kernels[group]

    def _group(self, equation: Any) -> Any:
        """The same, which does not wait for the compiler."""
        kernel, library, group = self._kernel(equation), self.library, equation.params["jaxpr"]
        if kernel is None:
            return None
        compiler = importlib.import_module("funcad.backends.cuda.launches")
        generate = importlib.import_module("funcad.backends.emission").generate
        title = f"{equation.params['kind']} group at {equation.source}"

        def note(text: str) -> None:
            if f"{title}: {text}" not in self.reasons:
                self.reasons.append(f"{title}: {text}")

        lines = lambda: generate(group, library=library)
        self._deferred.append(compiler.Deferred(library, kernel, group.in_avals, lines, note))
        return self._deferred[-1]

    def waiting(self) -> bool:
        """Is a kernel being compiled? What is captured until then would be lines for good."""
        return any([kernel.pending for kernel in self._deferred])

    def engine_of(self, equation: Any) -> str:
        """Which engine runs a group of `fused`."""
        return "cuda" if equation.params["jaxpr"] in self.kernels else "cupy"

    def generated(self, donated: frozenset[int] = frozenset()) -> Any:
        """The program as it runs if the inputs at these positions may be written over."""
        found = self._written.get(donated)
        if found is None:
            with compiling:
                found = self._written.get(donated)
                if found is None:
                    with self.owner.noted("cupy"):
                        engines.made["compiled"] += 1
                        generate = importlib.import_module("funcad.backends.emission").generate
                        found = generate(self.fused, self._group, donated, self.library)
                        self._written[donated] = found
        return found
