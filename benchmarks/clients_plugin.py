"""A pytest plugin of `benchmarks.clients`: funcad stands for the library that FUNCAD_STANDS_FOR names, autograd or jax."""

import importlib
import os

importlib.import_module(f"funcad.{os.environ['FUNCAD_STANDS_FOR']}").install()
