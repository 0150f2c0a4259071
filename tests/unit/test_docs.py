# SPDX-License-Identifier: Apache-2.0
"""Tests that links of the documents are valid, that code parses, and that tables match the code."""

from __future__ import annotations

import importlib.util
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from typer.testing import CliRunner

from connector_release_tools.cli import app

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("docs", ROOT / "tools/docs.py")
docs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(docs)

NAMES = [str(path.relative_to(ROOT)) for path in docs.documents()]


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_documents_are_found() -> None:
    assert {"README.md", "ARCHITECTURE.md", "connectors-core/README.md"} <= set(NAMES)


def test_links_are_valid_and_code_parses() -> None:
    done = CliRunner().invoke(app, ["docs", "check", "--root", str(ROOT)])
    assert done.exit_code == 0, done.output


class Page(HTMLParser):
    """Returns the links, the loaded resources, and the anchors of a page of the site."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids.add(given.get("id", ""))
        self.links += [given["href"]] if tag == "a" and "href" in given else []
        self.loads += [given["src"]] if "src" in given else []
        self.loads += [given["href"]] if tag == "link" and "href" in given else []


@pytest.mark.slow
def test_the_site_has_valid_links_and_loads_no_external_resources(tmp_path: Path) -> None:
    site = tmp_path / "site"
    arguments = ["docs", "build", "--root", str(ROOT), "--out", str(site)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    pages = {path: Page(path) for path in site.rglob("*.html")}
    assert site / "connectors-core/api/connectors_core.source.html" in pages
    for path, page in pages.items():
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if parts.scheme:
                assert link in page.links, f"{path} loads {link}"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), f"{path}: {link} is broken"
            if parts.fragment and target in pages:
                assert parts.fragment in pages[target].ids, f"{path}: {link} has an unknown anchor"


@pytest.mark.parametrize("name", NAMES)
def test_option_tables_match_the_declared_options(name: str) -> None:
    text = text_of(name)
    assert docs.with_tables(text) == text, "run `make docs`"


def test_commands_of_the_readme_exist() -> None:
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", text_of("Makefile"), re.MULTILINE))
    for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"):
        commands = set(re.findall(r"(?:`|^)make ([a-z][a-z0-9-]*)", text_of(name), re.MULTILINE))
        assert commands <= targets, f"{name}: make {commands - targets}"


def test_the_first_pipeline_is_short() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", text_of("README.md"), re.MULTILINE | re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 12


def test_the_troubleshooting_page_lists_every_error_code() -> None:
    sources = [path for path in ROOT.glob("connector*/src/**/*.py") if "testing" not in path.parts]
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    codes = set(re.findall(r'\bcode ?= ?"([A-Z_]+)",?$', text, re.MULTILINE))
    assert {"FATAL", "KAFKA_RETRYABLE", "CONNECTION"} <= codes
    listed = set(re.findall(r"`([A-Z_]+)`", text_of("docs/troubleshooting.md")))
    assert codes <= listed, f"add {codes - listed}"


@pytest.mark.parametrize("name", ["spark-kafka", "elasticsearch-hadoop", "flink"])
def test_migration_guides_name_options_that_exist(name: str) -> None:
    pages = [page for page in NAMES if re.fullmatch(r"connector-\w+/docs/\w+\.md", page)]
    declared = set(re.findall(r"^\| `([^`]+)`", "".join(map(text_of, pages)), re.MULTILINE))
    rows = re.findall(r"^\| `.*$", text_of(f"docs/migrate/{name}.md"), re.MULTILINE)
    assert len(rows) > 10
    for row in rows:
        old, new, *_ = (cell.strip() for cell in row.strip("|").split(" | "))
        cell = old if new.startswith("the same") else new
        if not cell.startswith("none"):
            found = re.findall(r"`([a-z]+(?:[.-][a-z*-]+)+)`", cell.partition(" with ")[0])
            keys = {key for key in found if not key.startswith("properties.")}
            assert keys <= declared, f"{row}: {keys - declared}"
