"""Sphinx builds the manual with this; `python docs/build.py` is the command."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for `extension`, which writes the entries of public names and the search

import funcad

project = "funcad"
author = "funcad developers"
version = release = funcad.__version__
copyright = author

extensions = ["myst_nb", "sphinx_copybutton", "sphinx.ext.viewcode", "extension"]
source_suffix = {".md": "myst-nb"}
exclude_patterns = ["_build"]
nitpicky = True  # a name that is nowhere defined is a warning, and a warning fails the build

html_theme = "furo"
html_title = f"funcad {release}"
html_static_path = ["_static"]
html_css_files = ["manual.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "default"
pygments_dark_style = "monokai"
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

# Formulas are Unicode text and pictures: no page asks another machine for scripts or fonts.
myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3
nb_ipywidgets_js = {}

nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_execution_timeout = 120
nb_output_stderr = "error"  # what a cell warns of fails the build, too
nb_merge_streams = True
