"""What NumPy and SciPy cannot hand over because they do not look: `np.array([x, y])`, `math.sin(x)`, `scipy.linalg.expm(x)`.

Idea: while a trace is open in a thread, these functions look there for traced values, and funcad answers for them; without a
traced value they are what they were. `door_table.py` lists them all, with who answers; `modules.py` reaches functions
written in C, `codes.py` those written in Python. Types are never exchanged: `np.float64(x)` and `float(x)` raise as before.

Why nothing is exchanged when a trace opens and closes: gradients outside jit open one at every call, in a few microseconds,
and names exchanged for all threads would show in those that trace nothing. So a door is a property of its module's class,
which asks at each access whether the thread that asks is tracing, and gives everybody else NumPy's own object: `np.array is
array`, `pickle`, `functools.partial` and numba work there as without funcad. It is hung when a trace opens, and taken down
after some accesses while no thread traces. Functions in Python keep their identity for good: their code looks at the
arguments first, from when they or funcad are imported. Code that runs while a module is imported, numba's
compiler and funcad itself get the originals at all times.

NumPy's own functions find traced arrays, but not those in lists: `np.sum([x, y])` fails once; then its door is hung, and the
function of the user's started again.

`funcad.config.doors = False` switches it off.
"""

import importlib as _importlib
from collections.abc import Callable as _Callable
from typing import Any as _Any

from funcad.configuration import listeners as _listeners

from funcad.doors.hanging import hang as _hang, hang_learned as _hang_learned, switched as _switched  # isort: skip
from funcad.host.where import tracing as _tracing


def _own_answer(function: _Any) -> _Callable[..., _Any] | None:
    answer: _Callable[..., _Any] | None = _importlib.import_module("funcad.lifting.own_answers").answer_for(function)
    return answer


_tracing.own_answer = _own_answer
_listeners["doors"] = _switched
_tracing.prepare = _hang
_tracing.learned = _hang_learned
_tracing.ready = False
