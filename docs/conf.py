# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sphinx's settings for the site: ``make site`` builds it into build/site."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "pyrogram"
author = "Contributors to the pyrogram project"
copyright = author
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.viewcode", "references"]

# The sources are the repository, so that a link between pages is right there as well as on the site.
root_doc = "docs/index"
include_patterns = ["docs/**", "tutorials/*.ipynb", "benchmarks/README.md", "CHANGELOG.md", "CONTRIBUTING.md"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "off"
highlight_language = "default"
nitpicky = True  # a reference to nothing is an error

# Types stand at the parameters that a docstring describes.
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
python_display_short_literal_types = True
viewcode_line_numbers = True

html_theme = "furo"
html_title = "pyrogram"
html_extra_path = ["site/index.html"]
html_static_path = ["site/static"]
html_css_files = ["pyrogram.css"]
