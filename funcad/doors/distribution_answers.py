"""Who answers at the doors of SciPy's distributions: funcad's distribution of the same name.

Apart from scipy_answers.py, which a likelihood does not need.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from funcad.doors.answers import calling, ours, own_method
from funcad.doors.asking import any_traced, holds_traced
from funcad.doors.codes import Answer
from funcad.host.where import user_source
from funcad.scipy.door import scipy_function


def _missing(what: str) -> TypeError:
    where = f" at {source}" if (source := user_source()) is not None else ""
    return TypeError(
        f"{what} was called with traced values{where}; funcad has no such function.\n"
        "Remedy: write it with functions that funcad has, or call it in funcad.pure_callback."
    )


def distribution(name: str, original: Callable[..., Any]) -> Answer:
    """A method of distributions, as `rv_continuous.logpdf`: that of funcad's distribution of the same name."""
    method = name.rpartition(".")[2].replace("freeze", "__call__")

    def own(self: Any, *args: Any, **kwargs: Any) -> Any:
        theirs = scipy_function(f"stats.{self.name}")
        if type(theirs) is not type(self) and getattr(theirs, "__dict__", None) is not self.__dict__:  # the user's own
            return own_method(name, original)[1](self, *args, **kwargs)
        found = ours(f"scipy.stats.{self.name}")
        if method not in type(found)._later and getattr(type(found), method, None) is None:
            raise _missing(f"scipy.stats.{self.name}.{method}")
        return getattr(found, method)(*args, **kwargs)

    return own_method(name, original)[0], own


def expectation(name: str, original: Callable[..., Any]) -> Answer:
    """`rv_continuous.expect`, whose parameters may be known where its function closes over traced values."""
    of_traced = distribution(name, original)[1]

    def own(self: Any, func: Any = None, *args: Any, **kwargs: Any) -> Any:
        methods = [functools.partial(f, self) for f in (original, of_traced)]
        return calling(name, *methods)[1](func, *args, **kwargs)

    return calling(name, original)[0], own


def method_of(name: str, original: Callable[..., Any]) -> Answer:
    """A method of the one object that SciPy has of its kind: `multivariate_normal.logpdf`, `dirichlet.pdf`."""
    path = name.split(".")
    by_own_code = own_method(name, original)

    def own(self: Any, *args: Any, **kwargs: Any) -> Any:
        singular = kwargs.get("allow_singular", args[3] if len(args) > 3 else False)
        known = singular and not any_traced((kwargs.get("cov"), *args[2:3]))  # SciPy finds the subspace of this covariance
        if known or any([isinstance(a, scipy_function("stats.Covariance")) for a in (*args, *kwargs.values())]):
            return by_own_code[1](self, *args, **kwargs)
        return getattr(ours(".".join(path[:-1])), path[-1])(*args, **kwargs)

    return by_own_code[0], own


def frozen(*parameters: str) -> Callable[[str, Callable[..., Any]], Answer]:
    """A method of a distribution with known parameters, which keeps them under these names."""

    def answer(name: str, original: Callable[..., Any]) -> Answer:
        *_, kind, method = name.split(".")
        family = f"scipy.stats.{kind.removesuffix('_frozen')}"
        by_own_code = own_method(name, original)[1]

        def own(self: Any, x: Any) -> Any:
            if getattr(self, "allow_singular", False):
                return by_own_code(self, x)
            return getattr(ours(family), method)(x, *[getattr(self, p) for p in parameters])

        return holds_traced, own

    return answer
