import importlib
import os

importlib.import_module(f"funcad.{os.environ['FUNCAD_STANDS_FOR']}").install()
