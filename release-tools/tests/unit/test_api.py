# SPDX-License-Identifier: Apache-2.0
"""Tests the checks of public names and of private imports, and the API page."""

import pytest
from release_tree import API, CONNECTOR

from connector_release_tools.api.names import public_names
from connector_release_tools.api.projects import exports
from connector_release_tools.api.promise import Promise
from connector_release_tools.errors import ApiError, ConnectorFolderError

PAGE = "docs/reference/public-api.md"
CORE_INIT = "connectors-core/src/connectors_core/__init__.py"
SETTINGS = f"""\
[tool.release-tools]
licences = ["Apache-2.0"]
[tool.release-tools.api]
page = "{PAGE}"
[tool.release-tools.api.inside]
"benchmarks/*.py" = "they measure what no one else may touch"
"""
CONNECTOR_INIT = '''\
"""One."""

from connectors_core import Base

__all__ = ["LIMIT", "Kind", "Source", "old", "trial"]

LIMIT = 5
"""How many there may be. Not more."""


class Kind(str, __import__("enum").Enum):
    """What it is."""


class Source(Base):
    """Reads | writes."""


def experimental(it):
    return it


def deprecated(*, since):
    return experimental


@experimental
def trial():
    """Tries."""


@deprecated(since="2.1.0")
def old():
    """Was there."""
'''


@pytest.fixture
def tree(release_tree):
    release_tree.commit({
        "pyproject.toml": SETTINGS,
        CORE_INIT: '__all__ = ["Base", "CoreError"]\n\n\nclass Base:\n    """A base."""\n\n\n'
        'class CoreError(ValueError):\n    """Says what is wrong."""\n',
        API: CONNECTOR_INIT,
        f"{CONNECTOR}/README.md": "# One\n\n```python\nfrom connector_one import Source\n```\n",
        f"{CONNECTOR}/tests/test_inside.py": "from connector_one.reading import Inner\n",
        "benchmarks/inner.py": "from connector_one.reading import Inner\n",
    })  # fmt: skip
    release_tree.invoke("api", "page")
    return release_tree


def said(tree):
    done = tree.invoke("api", "check")
    lines = done.output.splitlines()
    assert (done.exit_code == 0) == (lines == ["the public API has no findings"]), done.output
    return lines


def test_the_page_lists_every_public_name(tree):
    assert said(tree) == ["the public API has no findings"]
    rows = [line for line in tree.text(PAGE).splitlines() if line.startswith("| `")]
    assert rows == [
        "| `Base` | class | A base. | 1.0.0 | stable |",
        "| `CoreError` | error | Says what is wrong. | 1.0.0 | stable |",
        "| `Kind` | enumeration | What it is. | 2.0.0 | stable |",
        "| `LIMIT` | constant | How many there may be. | 2.0.0 | stable |",
        "| `old` | function | Was there. | 2.0.0 | deprecated since 2.1.0 |",
        "| `Source` | class | Reads \\| writes. | 2.0.0 | stable |",
        "| `trial` | function | Tries. | 2.0.0 | experimental |",
    ]


def test_a_stale_page_is_reported(tree):
    tree.replace(API, "Tries.", "Tries again.")
    assert said(tree) == [f"{PAGE} is out of date; run release-tools api page"]


@pytest.mark.parametrize(
    ("path", "code", "what"),
    [
        (
            f"{CONNECTOR}/src/connector_one/more.py",
            "from connectors_core.parts import Base",
            "1: connectors_core.parts.Base is not public; import it from connectors_core",
        ),
        ("examples/one.py", "import connector_one.reading", "1: connector_one.reading is not"),
        ("examples/one.py", "from connector_one import Inner", "1: connector_one.Inner is not"),
        (
            "connector-template/connector-{{cookiecutter.name}}/src/x.py",
            "{% if cookiecutter.sink %}\nclass {{ cookiecutter.name }}:\n"
            "    from connectors_core import parts\n{% endif %}",
            "3: connectors_core.parts is not public",
        ),
        (
            "connector-template/{% if cookiecutter.sink %}{{cookiecutter.name}}.py{% endif %}",
            "from connectors_core import parts\n",
            "1: connectors_core.parts is not public",
        ),
        (
            f"{CONNECTOR}/docs/more.md",
            "# More\n\n```python\nfrom connector_one.reading import Reader\n```\n",
            "4: connector_one.reading.Reader is not public",
        ),
    ],
)
def test_an_import_of_a_private_name_is_reported(tree, path, code, what):
    tree.commit({path: code})
    (line,) = said(tree)
    assert line.startswith(f"{path}:{what}")


def test_a_file_that_no_longer_needs_its_permission_is_reported(tree):
    tree.commit({"benchmarks/inner.py": "from connector_one import Source\n"})
    assert said(tree) == [
        "pyproject.toml:1: no file that matches benchmarks/*.py imports a private name"
    ]


def test_a_public_name_exists_and_has_a_description(tmp_path):
    package = tmp_path / "one"
    package.mkdir()
    (package / "__init__.py").write_text('__all__ = ["A"]\n\n\nclass A:\n    pass\n')
    with pytest.raises(ApiError, match=r"one\.A is public and has no docstring"):
        list(public_names([tmp_path], ["one"]))
    (package / "__init__.py").write_text('__all__ = ["B"]\n')
    with pytest.raises(ApiError, match="lists B, which does not exist"):
        list(public_names([tmp_path], ["one"]))


def test_a_computed_all_is_refused():
    with pytest.raises(ApiError, match="has no __all__ that is a list of names"):
        exports("__all__ = sorted(dir())", "one")


def test_a_project_lists_only_its_own_packages():
    project = '[project]\nname = "connector-one"\n'
    assert Promise.parse(project, "here").packages == ("connector_one",)
    listed = project + '[tool.connector-release-tools]\napi = ["connectors_core"]\n'
    with pytest.raises(ConnectorFolderError, match="api lists connectors_core"):
        Promise.parse(listed, "here")
