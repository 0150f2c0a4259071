# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from template_tree import Tree
from typer.testing import CliRunner

from connector_release_tools.cli import app
from connector_release_tools.site.checks import check
from connector_release_tools.site.markdown import parse

FENCE = "```"


@pytest.fixture
def findings(tmp_path):
    """Return the findings in files; the first file is the tested document."""

    def found(text: str, **others: str) -> list[str]:
        files = {"README.md": text, "docs/other.md": "# Other\n\n## A `b`, c!\n", **others}
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        return [str(finding) for finding in check(tmp_path, files).findings]

    return found


@pytest.mark.parametrize(
    "link",
    [
        "docs/other.md",
        "docs/../docs/other.md#a-b-c",
        "#top",
        "https://example.org/nowhere",
        "mailto:a@example.org",
        "<a file.txt>",
        "a%20file.txt",
    ],
)
def test_valid_links_are_accepted(findings, link):
    assert findings(f"# Top\n\n[it]({link})\n", **{"a file.txt": ""}) == []


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("docs/none.md", "leads nowhere"),
        ("docs", "leads to a folder; link to a file in it"),
        ("docs/other.md#a-b", "has a fragment that is not a heading of docs/other.md"),
        ("#a-b-c", "has a fragment that is not a heading of README.md"),
        ("a.txt#top", "has a fragment, but a.txt is not a document"),
        ("../README.md", "leads nowhere"),
        ("/docs/other.md", "leads nowhere"),
    ],
)
def test_broken_links_are_reported(findings, link, why):
    said = findings(f"# Top\n\nSee ![this]({link}).\n", **{"a.txt": ""})
    assert said == [f"README.md:3: the link {link} {why}"]


def test_reference_links_are_checked(findings):
    assert findings("# Top\n\n[it][there]\n\n[there]: gone.md\n") == [
        "README.md:3: the link gone.md leads nowhere"
    ]


def test_link_syntax_in_code_is_ignored(findings):
    assert findings(f"`[a](b.md)`\n\n{FENCE}\n[a](b.md)\n{FENCE}\n") == []


def test_a_link_out_of_the_folder_of_a_connector_is_reported(findings):
    document = "[core](../README.md) [source](docs/source.md)"
    others = {"connector-x/README.md": document, "connector-x/docs/source.md": "[x](../README.md)"}
    assert findings("", **others) == [
        "connector-x/README.md:1: the link ../README.md leads out of connector-x/, "
        "which could be a separate repository"
    ]


def test_templates_and_fragments_are_not_checked(findings):
    template = "connector-template/connector-{{cookiecutter.name}}/README.md"
    others = {template: "[x](none)", "connectors-core/changelog.d/1.feature.md": "[x](none)"}
    assert findings("", **others) == []


def test_raw_html_is_refused_but_comments_are_accepted(findings):
    text = "<!-- a comment -->\n\nSee <a href='x'>x</a>.\n"
    assert findings(text) == ["README.md:3: raw HTML is not allowed; write Markdown"]


@pytest.mark.parametrize(
    ("language", "good", "bad"),
    [
        ("python", "x = 1", "x = = 1"),
        ("sh", "make env  # all", "if true"),
        ("bash", "for i in 1 2; do echo $i; done", "for i in"),
        ("yaml", "a: [1]", "a: [1"),
        ("toml", "a = 1", "a ="),
        ("json", "{}", "{"),
    ],
)
def test_code_must_be_valid_in_its_language(findings, language, good, bad):
    assert findings(f"{FENCE}{language}\n{good}\n{FENCE}\n") == []
    (said,) = findings(f"# Top\n\n{FENCE}{language}\n{bad}\n{FENCE}\n")
    assert said.startswith(f"README.md:3: not valid {language}: ")


def test_code_is_not_run(findings, tmp_path):
    assert findings(f"{FENCE}sh\ntouch {tmp_path}/ran\n{FENCE}\n") == []
    assert findings(f"{FENCE}python\nopen({str(tmp_path / 'ran')!r}, 'w')\n{FENCE}\n") == []
    assert not (tmp_path / "ran").exists()


def test_headings_with_the_same_name_get_different_anchors():
    assert parse("# A\n\n## B\n\n## B\n").anchors == {"a", "b", "b-1"}


def test_the_command_counts_and_lists_its_findings(tree: Tree):
    tree.commit(
        {
            "good.md": f"[x](bad.md)\n\n{FENCE}json\n[]\n{FENCE}\n\n{FENCE}\nx\n{FENCE}\n",
            "bad.md": "[x](none.md)\n",
            ".gitignore": "build/\n",
        }
    )
    ignored = tree.root / "build" / "ignored.md"
    ignored.parent.mkdir()
    ignored.write_text("[x](none.md)")
    found = run(tree.root)
    assert found.exit_code == 1
    assert "bad.md:1: the link none.md leads nowhere" in found.output
    assert "2 links, code blocks: 1 without a language (no check), 1 json" in found.output
    (tree.root / "none.md").write_text("not committed yet, but it could be")
    assert run(tree.root).exit_code == 0


def run(root: Path):
    return CliRunner().invoke(app, ["docs", "check", "--root", str(root)])
