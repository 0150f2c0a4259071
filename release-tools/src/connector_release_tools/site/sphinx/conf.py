# SPDX-License-Identifier: Apache-2.0
"""The Sphinx configuration of the site. It fetches nothing, neither fonts nor inventories."""

import builtins
import json
from pathlib import Path
from typing import Any

from docutils import nodes  # type: ignore[import-untyped]
from pygments.lexers.special import TextLexer
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.domains.python import PythonDomain

project = "Connectors for Apache Spark"
root_doc = "README"
extensions = ["myst_parser", "sphinx_copybutton", "sphinx_design"]
# The heading anchors are those of a forge, so that links work in both.
myst_heading_anchors = 6
myst_enable_extensions = ["colon_fence", "fieldlist"]
# Annotations contain types of libraries that this site does not describe.
nitpick_ignore_regex = [("py:.*", ".*")]
python_use_unqualified_type_names = True

python_maximum_signature_line_length = 80

templates_path = ["templates"]
html_static_path = ["static"]
html_css_files = ["site.css"]
html_theme = "furo"
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "versions.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
# The prompt and the output of a shell session are not copied.
copybutton_prompt_text = "$ "
copybutton_exclude = ".linenos, .gp, .go"
html_title = project
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False


class _Python(PythonDomain):
    """Resolves the built-in types in annotations, and names that several packages have.

    Without this, Sphinx links a type to an attribute with the same name, such as `type`.
    """

    def find_obj(self, env: Any, modname: str, *given: Any) -> list[Any]:
        """Prefer a name of the same distribution, then the one in the fewest packages."""
        found = super().find_obj(env, modname, *given)
        top = (modname or "").partition(".")[0]
        found = [each for each in found if each[0].partition(".")[0] == top] or found
        depth = min((each[0].count(".") for each in found), default=0)
        return [each for each in found if each[0].count(".") == depth]

    def resolve_xref(self, *given: Any) -> Any:
        _, _, _, kind, target, *_ = given
        if kind == "class" and hasattr(builtins, target):
            return None
        return super().resolve_xref(*given)


def _add_versions(
    app: Sphinx, page: str, _template: str, context: dict[str, Any], _document: object
) -> None:
    """Pass a connector's versions, and the page's path in each, to the page template."""
    connector, _, name = page.partition("/")
    known = json.loads((Path(app.srcdir) / "versions.json").read_text(encoding="utf-8"))
    folders = known.get(connector, {})
    if not name or len(folders) < 2:
        return
    first, _, rest = name.partition("/")
    current, name = (first, rest) if rest and first in folders else ("", name)
    context["connector"] = connector
    context["versions"] = [
        (
            version,
            next(
                each
                for each in (
                    "/".join(filter(None, (connector, folder, name))),
                    "/".join(filter(None, (connector, folder, "README"))),
                )
                if each in app.env.found_docs
            ),
            folder == current,
        )
        for folder, version in folders.items()
    ]


def _link_public_names(app: Sphinx, document: nodes.document) -> None:
    """Link each name in the tables of the public API to its description, and do not break it."""
    if app.env.docname != "docs/reference/public-api":
        return
    for table in document.findall(nodes.table):
        package = table.parent[0].astext()
        for entry in (row[0] for row in table.findall(nodes.row)):
            for name in list(entry.findall(nodes.literal)):
                target = f"{package}.{name.astext()}"
                link = pending_xref("", refdomain="py", reftype="obj", reftarget=target)
                name.replace_self(link)
                link += name
                entry["classes"].append("site-name")


def setup(app: Sphinx) -> None:
    """Show diagrams as their source text, because rendering them needs the network."""
    app.add_lexer("mermaid", TextLexer)
    app.add_domain(_Python, override=True)
    app.connect("doctree-read", _link_public_names)
    app.connect("html-page-context", _add_versions)
