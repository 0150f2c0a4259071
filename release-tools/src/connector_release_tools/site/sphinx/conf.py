# SPDX-License-Identifier: Apache-2.0
"""Sphinx's configuration of the site. Nothing is fetched: neither fonts nor other inventories."""

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

project = "Connectors for Apache Spark"
root_doc = "README"
extensions = ["myst_parser"]
# The heading anchors are those of a forge, so that links work in both.
myst_heading_anchors = 6
myst_enable_extensions = ["colon_fence", "fieldlist"]
# Annotations name types of libraries that this site does not describe.
nitpick_ignore_regex = [("py:.*", ".*")]
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = project
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False


def setup(app: Sphinx) -> None:
    """Show diagrams as the text that they are drawn from: what draws them comes by network."""
    app.add_lexer("mermaid", TextLexer)
