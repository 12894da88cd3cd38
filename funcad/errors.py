"""Every error that a user can meet, each with its cause, an example and the remedy.

The classes derive from the builtin that a NumPy user would expect, so `except TypeError` goes on working.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read it as True; typing.TYPE_CHECKING would cost an import
if TYPE_CHECKING:
    from typing import Self

__all__ = [
    "FuncadError",
    "TracerBoolConversionError",
    "TracerArrayConversionError",
    "BufferNeeded",
    "TracerIntegerConversionError",
    "PathError",
    "UnexpectedTracerError",
    "RandomStateError",
    "WriteError",
    "SharedMemoryError",
    "TangentMismatchError",
    "NonScalarOutputError",
    "NonDifferentiableInputError",
    "MissingRuleError",
    "AxesMismatchError",
    "LanesError",
    "TreeMismatchError",
    "TreeDepthError",
    "UnboundAxisNameError",
    "CollectiveError",
    "CustomRuleClosureError",
    "PlacementError",
    "NanError",
    "InfError",
    "CacheAuditError",
    "NotCompiledWarning",
    "UncertifiedDerivativeWarning",
]


def __dir__() -> list[str]:
    return sorted(__all__)


class FuncadError(Exception):
    """Base of every error of funcad's own: `except FuncadError` catches them all.

    `page` is the page of the manual that explains more, for the errors that need one; notes of the error name it.
    """

    page = ""
    remedy = ""  # of errors that have one for all

    def __new__(cls, *args: object) -> Self:
        error = super().__new__(cls, *args)
        if cls.remedy:
            error.add_note(f"Remedy: {cls.remedy}.")
        if cls.page:
            error.add_note(f"The manual has more: docs/{cls.page}.")
        return error


class TracerBoolConversionError(FuncadError, TypeError):
    """A Python `if`, `while`, `and` or `assert` asked for the truth of a value that does not exist yet.

    Cause: inside jit, scan, cond, while_loop and checkpoint, functions are traced with abstract values.
    Example: `jit(lambda x: x if x > 0 else -x)(1.0)`.
    Remedy: `np.where`, `funcad.cond`, `funcad.while_loop`, or `static_argnums` for values that are known.
    """

    page = "control_flow"


class TracerArrayConversionError(FuncadError, TypeError):
    """A traced value was about to become a plain number or a plain NumPy array, which would cut its derivative.

    Cause: `float(x)`, `x.item()`, `math.sin(x)`, `np.asarray(x)`, `a[i] = x` on a NumPy array a, `out=a`.
    Example: `grad(lambda x: math.sin(x))(1.0)`.
    Remedy: the NumPy function instead (`np.sin(x)`), `funcad.numpy.at(a)[i].set(x)`, or `stop_gradient(x)` first.
    """

    page = "sharp_bits"
    learned = False  # is there a remedy now, if the function is started again?
    of_number = False  # was a number asked for, by the user's own line?


class BufferNeeded(TracerArrayConversionError):
    """A traced value was about to be written into a plain NumPy array.

    Cause: the array was made outside of the traced function, or by something that funcad does not see (`K.copy()`, `A * 2`).
    Example: `K = np.eye(3) * 2; K[0, 0] = x` inside a function that is differentiated.
    Remedy: `K = np.array(K)` inside the function; it works with and without funcad.
    """

    page = "writes"


class TracerIntegerConversionError(FuncadError, TypeError):
    """A Python integer was needed from a traced value without a value (`range(x)`, `a_list[x]`, a shape).

    Example: `jit(lambda n: np.zeros(n))(3)`.
    Remedy: mark the argument static (`static_argnums`), or use `funcad.numpy.take` for indexing.
    """

    page = "control_flow"


class PathError(FuncadError, RuntimeError):
    """A jitted function whose `if` and `while` decide by values did not repeat what it had done for the same answers.

    Cause: it depends on something that is no argument; or its one program was asked for, and it has several.
    Example: `jit(lambda x: x * random.random() if x > 0 else x)`, called with 1.0 and with -1.0.
    Remedy: pass what it depends on as an argument.
    """

    page = "jit"


class UnexpectedTracerError(FuncadError, RuntimeError):
    """A traced value was used after the function that it belongs to had returned.

    Cause: it was stored in a global, an attribute or a default argument. Where `jit` sees it, it raises when tracing ends.
    Example: `saved = []; jit(lambda x: saved.append(x))(1.0); saved[0] + 1`.
    Remedy: return the value from the function instead of storing it.
    """

    page = "sharp_bits"


class RandomStateError(FuncadError, RuntimeError):
    """A random generator was drawn from while a jitted function was traced, or in a way that has no meaning there.

    Cause: the numbers would be the same at every call.
    Example: `rng = np.random.default_rng(0); jit(lambda x: x + rng.normal())(1.0)`.
    Remedy: pass the numbers as an argument, or draw with `funcad.random` and a key, or with `np.random.normal` itself.
    """

    page = "random"


class WriteError(FuncadError, ValueError):
    """A traced array was written where the write could not happen as in NumPy.

    Cause: an array made outside of a loop's body, a branch or a vmapped function is written inside; a view of an array whose
    memory order is not known; a read-only view.
    Example: `y = x * 1; funcad.fori_loop(0, 3, lambda i, c: y.fill(c) or c, 0.0)`.
    Remedy: pass the array to the body as an argument or carry and return it; `.copy()` of what is in doubt.
    """

    page = "writes"


class SharedMemoryError(WriteError):
    """An argument was written that shares memory with another argument.

    Example: `grad(f)(x[:3], x[1:])` for an f that writes into its first argument.
    Remedy: pass a copy, `x.copy()`.
    """


class NotCompiledWarning(UserWarning):
    """A jitted function does what can be neither read again at each call nor replayed, so its calls run un-jitted.

    Example: `jit(lambda x: x * time.time())(1.0)`.
    Remedy: pass what changes as an argument. `funcad.config.not_compiled` is "warn", "ignore" or "raise";
    `jit(f, not_compiled=...)` says it of one function.
    """


class UncertifiedDerivativeWarning(UserWarning):
    """A function of NumPy's or SciPy's without a rule is differentiated by its own code, and no test has compared the result.

    Cause: the function, or the version that is installed, is not in the table of those that were compared with differences.
    Example: `grad(lambda x: scipy.stats.bws_test(x, y).statistic)(x)`.
    Remedy: `funcad.testing.check_grads(f, args)` compares at your values; then `warnings.filterwarnings("ignore",
    category=funcad.UncertifiedDerivativeWarning)`.
    """


class TangentMismatchError(FuncadError, TypeError, ValueError):
    """A tangent or cotangent does not have the structure, shape or dtype of the value that it belongs to.

    Example: `jvp(np.sin, (1.0,), (np.ones(3),))`.
    Remedy: make it with the primal's shape and dtype (`np.zeros_like`); integers take `funcad.float0` zeros.
    """


class NonScalarOutputError(FuncadError, TypeError):
    """`grad` needs a function whose output is one number of shape ().

    Example: `grad(np.sin)(np.ones(3))`.
    Remedy: `.sum()`; or `jacrev`, `vmap(grad(f))`, `vjp` for functions with array outputs.
    """

    page = "modes"


class NonDifferentiableInputError(FuncadError, TypeError):
    """`grad` was asked to differentiate with respect to integers, bools, or an unsuitable output dtype.

    Example: `grad(lambda x: x * 2.0)(3)`.
    Remedy: pass a float (`3.0`), or `allow_int=True` for `float0` zeros.
    """


class MissingRuleError(FuncadError, NotImplementedError):
    """A primitive has no derivative, transpose or batching rule for what was asked of it.

    Cause: not every operation has a derivative (the message names the primitive; `funcad.rules` lists what it has).
    Example: `grad(lambda x: pure_callback(f, x, x))(1.0)`.
    Remedy: wrap the operation in `custom_jvp` or `custom_vjp`, or take `stop_gradient` of its operands.
    """

    page = "custom_rules"


class AxesMismatchError(FuncadError, ValueError):
    """`vmap`'s in_axes or out_axes do not fit the arguments, or mapped sizes differ.

    Example: `vmap(np.add)(np.ones(2), np.ones(3))`.
    Remedy: `in_axes=None` for what is not mapped; one int or None per argument, or per leaf.
    """


class LanesError(FuncadError, ValueError):
    """Python's control flow took the lanes of an un-jitted `vmap` apart where they must stay together.

    Cause: a collective was reached by some lanes only, or lanes returned arrays of different shapes.
    Example: `vmap(lambda n: np.zeros(int(n)))(np.array([1, 2]))`.
    Remedy: choose with `np.where` or `funcad.cond`; return arrays of one shape, padded to the longest.
    """

    page = "control_flow"


class TreeMismatchError(FuncadError, ValueError):
    """Two pytrees that must have the same structure differ; the message names the first path that does.

    Example: `tree.map(np.add, {"w": 1.0}, {"v": 1.0})`.
    Remedy: give both the same containers with the same keys; one int or None may stand for a whole branch of axes.
    """


class TreeDepthError(FuncadError, RecursionError):
    """A pytree contains itself, or is nested deeper than Python can recurse; the message names the path.

    Example: `a = []; a.append(a); tree.leaves(a)`.
    Remedy: keep references to parents out of the tree; keep a long chain as one list, or as arrays with a leading axis.
    """

    page = "pytrees"


class UnboundAxisNameError(FuncadError, NameError):
    """A collective named an axis that no enclosing `vmap(axis_name=...)` binds.

    Example: `psum(x, "i")` outside `vmap(f, axis_name="i")`.
    Remedy: call it inside a function that is mapped with that axis_name; the message lists the names that are bound.
    """


class CollectiveError(FuncadError, RuntimeError):
    """The processes of an axis did not send the same sequence of collectives, or one of them failed or did not come in time.

    Example: `psum(x, "i") if rank == 0 else pmax(x, "i")` inside `distributed.spmd`.
    Remedy: the message names what each process called, and on which line; call the same collectives on all of them.
    """


class CustomRuleClosureError(FuncadError, ValueError):
    """A function with a custom derivative rule closes over a value that is being traced.

    Cause: its rule would not know the derivative with respect to that value.
    Example: `grad(lambda w: f(w))(1.0)` where f is a `custom_vjp` function defined inside that uses w.
    Remedy: pass the value as an argument, or use `closure_convert`.
    """

    page = "custom_rules"


class PlacementError(FuncadError, TypeError):
    """A NumPy array met a CuPy array as arguments of one operation.

    Cause: moving arrays silently would be slow; only scalars and captured arrays are moved.
    Example: `jvp(np.add, (numpy_array, cupy_array), tangents)`.
    Remedy: `funcad.device_put(x)` moves the NumPy array to the GPU.
    """

    page = "cupy"


class _NotFiniteError(FuncadError, FloatingPointError):
    """What NanError and InfError share: the line of the operation, which may be known only further out."""

    page = "debugging"

    def __init__(self, what: str, source: object = None):
        self.what = what
        super().__init__(what if source is None else f"{what}, at {source}")

    def locate(self, source: object) -> None:
        """The line of the equation that was running, which a program knows better than the stack."""
        self.args = (f"{self.what}, at {source}",)


class NanError(_NotFiniteError):
    """Raised inside `with funcad.debug_nans():` at the first NaN, naming the user's line.

    Example: `with debug_nans(): jit(np.log)(-1.0)`.
    Remedy: select the operands before the operation (`np.log(np.where(x > 0, x, 1.0))`), not only its result.
    """

    remedy = (
        "select the operand before the operation, as in np.log(np.where(x > 0, x, 1.0)); funcad.debug.doctor(f)(x) says which "
        "and where it came from"
    )


class InfError(_NotFiniteError):
    """Raised inside `with funcad.debug_infs():` at the first infinity, naming the user's line.

    Example: `with debug_infs(): jit(np.log)(0.0)`.
    Remedy: keep the operands away from where the operation, or its slope, is infinite (`np.log(x + 1e-12)`).
    """

    remedy = (
        "keep the operand away from where the operation or its slope is infinite, as in np.log(x + 1e-12); "
        "funcad.debug.doctor(f)(x) says where it came from"
    )


class CacheAuditError(FuncadError, AssertionError):
    """While `config.audit` is on: something that is remembered is computed otherwise now.

    Cause: an error of funcad's, whose table forgets something in its keys; or a jitted function that depends on what jit does
    not see.
    Example: `with config.set(audit=True): f(1.0)`, where f is jitted and takes a number from an iterator at each call.
    Remedy: report it; the message says what is held and what is computed now. `funcad.debug.caches()` lists the tables.
    """

    remedy = "report it, with this message: config.audit = False goes on with what is held, which may be wrong"
