"""Who is told what about arrays that are locked: `funcad.debug.locked_arrays`, and the note beside NumPy's own words."""

import pickle

import numpy as np
import pytest

import funcad
from funcad.errors import NanError, TracerBoolConversionError


def cube(x):
    return np.sum(x * x * x)


def test_locked_arrays_are_listed_as_long_as_the_derivative_lives():
    x = np.ones((200, 200))
    line = cube.__code__.co_firstlineno + 1
    told = f"an array of shape (200, 200) and dtype float64, used at {__file__}:{line} (cube)"
    assert told not in funcad.debug.locked_arrays()
    pullback = funcad.vjp(cube, x)[1]
    assert told in funcad.debug.locked_arrays()
    with pytest.raises(ValueError, match="read-only"):
        x[0] = 2.0
    del pullback
    assert told not in funcad.debug.locked_arrays()
    x[0] = 2.0


def test_a_write_to_a_locked_array_inside_a_function_names_who_needs_it():
    x = np.ones((190, 200))  # an array of its own: the error's frames hold the derivative until they are collected
    pullback = funcad.vjp(cube, x)[1]

    def f(y):
        x[0] = 2.0
        return y * y

    with pytest.raises(ValueError, match="read-only") as info:
        funcad.grad(f)(1.0)
    notes = "\n".join(info.value.__notes__)
    assert "funcad.debug.locked_arrays() lists what a derivative needs" in notes and "(cube)" in notes
    assert "Remedy: K = np.array(K)" in notes
    assert pullback(1.0)[0].shape == (190, 200)


def test_arrays_that_a_user_made_read_only_are_not_said_to_be_locked_by_a_derivative():
    x = np.ones(3)
    x.flags.writeable = False
    assert not [text for text in funcad.debug.locked_arrays() if "(3,)" in text]


@pytest.mark.parametrize("error", [TracerBoolConversionError("text"), NanError("log made a NaN", "here.py:3 (f)")])
def test_notes_are_there_once_also_after_pickling(error):
    assert error.__notes__[-1] == f"The manual has more: docs/{type(error).page}."
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.__notes__) == (type(error), str(error), error.__notes__)


def test_options_that_nobody_meant_are_answered_by_the_list_of_those_there_are():
    with pytest.raises(TypeError, match="Its arguments are f, argnums, has_aux") as info:
        funcad.grad(cube, colour=3)
    assert "Remedy" not in str(info.value)


def test_options_of_the_users_own_functions_are_not_commented_on():
    def inner(x, *, scale):
        return x * scale

    with pytest.raises(TypeError) as info:
        funcad.jvp(lambda x: inner(x, scales=2.0), (1.0,), (1.0,))
    assert "unexpected keyword argument 'scales'" in str(info.value) and "Remedy" not in str(info.value)
