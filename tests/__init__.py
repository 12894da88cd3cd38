"""The tests mirror the package; `tests/specs` is the table of operations, `tests/programs.py` the list of whole programs."""
