# SPDX-License-Identifier: Apache-2.0
"""The documents of a small repository become a site."""

import shutil
from pathlib import Path

import pytest
from git_tree import git
from typer.testing import CliRunner

from connector_release_tools.cli import app

SOURCE = '''\
# SPDX-License-Identifier: Apache-2.0
"""What it is."""

__all__ = ["Thing"]


class Thing:
    """A thing of version {version}.

    Args:
        size: How large it is.
    """

    def __init__(self, size: int = 3, kind: type[int] = int) -> None: ...

    @property
    def type(self) -> str:
        """What it is."""
'''
MATRIX = """\
spark:
  "4.3": {pyspark: "4.3.0", python: "3.11", java: "17"}
  "3.5": {pyspark: "3.5.9", python: "3.11", java: "17", pins: ["numpy<2"]}
connectors:
  connector-one:
    majors:
      "3": {version: "3.0.0", status: features, spark: ["4.3", "3.5"], core: ">=1.0,<2"}
      "2":
        version: "2.1.0"
        status: fixes
        spark: ["3.5"]
        commit: "COMMIT"
        tree: "TREE"
        released: 2026-11-01
        core: ">=1.0,<2"
"""


def package(name: str, version: str) -> dict[str, str]:
    module = name.replace("-", "_")
    return {
        f"{name}/pyproject.toml": f'[project]\nname = "{name}"\n',
        f"{name}/README.md": f"# {name}\n\n[more](docs/more.md#part-b)\n",
        f"{name}/docs/more.md": f"# More of {version}\n\n## Part B\n\n[back](../README.md)\n",
        f"{name}/src/{module}/__init__.py": SOURCE.format(version=version),
    }


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "a change")


@pytest.fixture
def repository(tmp_path):
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch=main")
    write(root, package("connectors-core", "1.0.0") | package("connector-one", "2.1.0"))
    write(root, {"connector-one/docs/old.md": "# Only in 2.1.0\n"})
    commit(root)
    pins = {"COMMIT": git(root, "rev-parse", "HEAD")}
    pins["TREE"] = git(root, "rev-parse", "HEAD:connector-one")
    shutil.rmtree(root / "connector-one" / "docs")
    matrix = MATRIX
    for word, found in pins.items():
        matrix = matrix.replace(word, found)
    readme = (
        "# Home\n\n[a file](LICENSE) [a guide](docs/deploy.md) [one](connector-one/README.md)\n"
    )
    write(
        root,
        package("connector-one", "3.0.0")
        | {
            "README.md": readme,
            "LICENSE": "free",
            "docs/deploy.md": "# Deploy\n\n[home](../README.md#home)\n\n```mermaid\na --> b\n```\n",
            "compatibility-matrix.yaml": matrix,
            "connector-template/README.md": "# The template\n",
            "release-tools/README.md": "# The tools\n",
        },
    )
    commit(root)
    return root


def run(root: Path, *arguments: str):
    return CliRunner().invoke(app, ["docs", "build", "--root", str(root), *arguments])


def test_every_release_of_the_matrix_is_in_one_site(repository):
    said = run(repository)
    assert said.exit_code == 0, said.output
    site = repository / "build" / "site"

    def text(name: str) -> str:
        return (site / name).read_text()

    assert text("index.html") == text("README.html")
    assert "connector-one 2.1.0" in text("index.html")
    assert "More of 3.0.0" in text("connector-one/docs/more.html")
    assert "More of 2.1.0 (connector-one 2.1.0)" in text("connector-one/2/docs/more.html")
    assert 'href="docs/more.html#part-b"' in text("connector-one/2/README.html")
    assert "A thing of version 3.0.0" in text("connector-one/api/connector_one.html")
    assert "A thing of version 2.1.0" in text("connector-one/2/api/connector_one.html")
    assert "2.1.0-3.5" in text("compatibility.html")
    assert "2.1.0-3.5" in text("compatibility.html")
    assert next(site.glob("_downloads/*/LICENSE")).read_text() == "free"
    assert not list(site.parent.glob(".site-*"))


def test_every_page_of_a_connector_links_to_the_same_page_of_its_other_versions(repository):
    assert run(repository).exit_code == 0
    site = repository / "build" / "site"

    def versions(name: str) -> str:
        page = (site / name).read_text()
        return page.partition('<details class="site-versions">')[2].partition("</details>")[0]

    assert "Version 3.0.0 (main)" in versions("connector-one/docs/more.html")
    assert 'href="../2/docs/more.html"' in versions("connector-one/docs/more.html")
    assert "Version 2.1.0" in versions("connector-one/2/README.html")
    assert 'href="../README.html"' in versions("connector-one/2/README.html")
    assert 'href="../../README.html"' in versions("connector-one/2/docs/old.html")
    assert not versions("docs/deploy.html")


def test_the_title_of_an_api_page_differs_from_that_of_its_package(repository):
    assert run(repository).exit_code == 0
    site = repository / "build" / "site"

    def title(name: str) -> str:
        return (site / name).read_text().partition("<title>")[2].partition("</title>")[0]

    assert title("connector-one/README.html").startswith("connector-one")
    assert title("connector-one/api/connector_one.html").startswith("connector_one API")
    assert title("connector-one/2/api/connector_one.html").startswith("connector_one API")


def test_names_of_the_public_api_link_to_their_descriptions_and_do_not_break(repository):
    rows = "| Name | Kind |\n| --- | --- |\n| `Thing` | class |\n| `LIMIT` | constant |\n"
    api = f"# Public API\n\n## connector_one\n\n{rows}"
    write(repository, {"docs/reference/public-api.md": api})
    said = run(repository)
    assert said.exit_code == 0, said.output
    page = (repository / "build/site/docs/reference/public-api.html").read_text()
    names = page.partition("<tbody>")[2].partition("</tbody>")[0]
    assert 'href="../../connector-one/api/connector_one.html#connector_one.Thing"' in names
    assert names.count('class="site-name"') == 2


def test_proposals_are_not_in_the_sidebar_but_on_the_page_of_the_process(repository):
    proposal = "---\nstatus: draft\n---\n\n# FLIP 0001: A thing\n"
    write(repository, {"flips/0001-a.md": proposal, "FLIP-PROCESS.md": "# Process\n"})
    assert run(repository).exit_code == 0
    site = repository / "build" / "site"
    assert "flips/0001-a.html" not in (site / "index.html").read_text()
    assert 'href="flips/0001-a.html"' in (site / "FLIP-PROCESS.html").read_text()


def test_a_built_in_type_does_not_link_to_a_member_of_the_same_name(repository):
    assert run(repository).exit_code == 0
    page = (repository / "build/site/connector-one/api/connector_one.html").read_text()
    signature = page.partition('id="connector_one.Thing"')[2].partition("</dt>")[0]
    assert "int" in signature
    assert "Thing.type" not in signature


def test_an_error_stops_the_build_and_keeps_the_old_site(repository):
    old = repository / "build" / "site"
    write(old, {".buildinfo": "", "index.html": "old"})
    write(repository, {"docs/deploy.md": "# Deploy\n\n[x](gone.md)\n[y](../README.md#gone)\n"})
    said = run(repository)
    assert said.exit_code == 2
    assert "deploy.md:3" in said.output
    assert "gone.md" in said.output
    assert "'gone'" in said.output
    assert (old / "index.html").read_text() == "old"


def test_a_folder_that_contains_no_site_is_not_replaced(repository, tmp_path):
    write(tmp_path / "mine", {"letter.txt": "dear"})
    said = run(repository, "--out", str(tmp_path / "mine"))
    assert said.exit_code == 2
    assert "contains something other than a site" in said.output
    assert (tmp_path / "mine" / "letter.txt").exists()


def test_a_missing_pinned_tree_is_reported(repository):
    path = repository / "compatibility-matrix.yaml"
    lines = [
        line if "tree:" not in line else f'        tree: "{"0" * 40}"'
        for line in path.read_text().splitlines()
    ]
    path.write_text("\n".join(lines))
    said = run(repository)
    assert said.exit_code == 2
    assert f"tree {'0' * 10} of connector-one 2.1.0 is not in this" in said.output
