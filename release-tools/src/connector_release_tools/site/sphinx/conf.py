# SPDX-License-Identifier: Apache-2.0
"""Sphinx's configuration of the site. Nothing is fetched: neither fonts nor other inventories."""

import builtins
from typing import Any

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.domains.python import PythonDomain

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


class _Python(PythonDomain):
    """Takes the built-in types of annotations for what they are.

    Sphinx looks for a type among all that it knows, and would find attributes of its name, such as
    one that is called `type`.
    """

    def resolve_xref(self, *given: Any) -> Any:
        _, _, _, kind, target, *_ = given
        if kind == "class" and hasattr(builtins, target):
            return None
        return super().resolve_xref(*given)


def setup(app: Sphinx) -> None:
    """Show diagrams as the text that they are drawn from: what draws them comes by network."""
    app.add_lexer("mermaid", TextLexer)
    app.add_domain(_Python, override=True)
