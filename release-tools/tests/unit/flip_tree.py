# SPDX-License-Identifier: Apache-2.0
"""A small repository with proposals, a clock that tests set, and its command line."""

from __future__ import annotations

import datetime
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import Result
from git_tree import GitTree
from matrix_tree import TOX
from release_tree import MATRIX_HEAD
from template_tree import PROJECT, TEMPLATE
from typer.main import get_command

from connector_release_tools import dates
from connector_release_tools.cli import app
from connector_release_tools.flips.document import Flip

START = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
RULES = """\
- since: 2026-01-01
  sections:
    Motivation: Why.
    Decision: What. # the heart of it
  discussion: {days: 7, expires_after_days: 180}
  vote: {binding_approvals: 3, binding_margin: 1, open_hours: 72, expires_after_days: 30}
"""
MAINTAINERS = """\
# Who looks after what.
folders:
  /:
    - {handle: alice, since: 2026-01-01}
  flips:
    - {handle: bob, since: 2026-01-01}
binding:
  - {handle: alice, since: 2026-01-01}
  - {handle: bob, since: 2026-01-01}
  - {handle: carol, since: 2026-01-01}
  - {handle: dan, since: 2026-01-01, until: 2026-02-28}
addresses:
  alice: [alice@example.org]
  bob: [bob@example.org, bob@work.example.org]
  carol: [carol@example.org]
  eve: [eve@example.org]
"""
MATRIX = f"""\
{MATRIX_HEAD}\
      "1": {{version: "1.0.0", status: features, spark: ["4.3", "3.5"], core: ">=1.0,<2"}}
"""
FORM = """\
name: Something is wrong
description: Say what
body:
  - type: dropdown
    id: component
    attributes:
      label: Component
      options:
        - none yet
"""
COMMAND = get_command(app)
FILES = {**TEMPLATE, "flips/rules.yaml": RULES, "MAINTAINERS.yaml": MAINTAINERS}
COMMENT = re.compile(r"<!-- .* -->")


def whole_tree(dependency: str = "pyarrow") -> dict[str, str]:
    """Return the files that a scaffold needs in addition to proposals.

    Args:
        dependency: The dependency of the template's connectors, in addition to the core.
    """
    declared = f'version = "0.1.0"\ndependencies = ["connectors-core>=1.0,<2", "{dependency}"]\n'
    return {
        **FILES,
        f"{PROJECT}/pyproject.toml": TEMPLATE[f"{PROJECT}/pyproject.toml"].replace(
            "[tool.connector]\n", f"[tool.connector]\n{declared}"
        ),
        f"{PROJECT}/tox.ini": TOX,
        "compatibility-matrix.yaml": MATRIX,
        ".github/ISSUE_TEMPLATE/bug.yml": FORM,
        ".github/ISSUE_TEMPLATE/config.yml": "blank_issues_enabled: false\n",
        "README.md": (
            "# All\n\n<!-- compatibility, by `release-tools matrix check --fix` -->\n<!-- end -->\n"
        ),
        "requirements/base.in": "# runtime\npyarrow>=20\n",
        "Makefile": (
            ".PHONY: requirements\nrequirements:\n\techo '$(PACKAGE)' >> requirements/base.in\n"
        ),
        "pyproject.toml": """\
# The tools.
[tool.importlinter]
root_packages = ["connectors_core", "connector_one"]

# No connector imports another.
[[tool.importlinter.contracts]]
name = "layers"
type = "layers"
layers = ["connector_one", "connectors_core"]

[[tool.importlinter.contracts]]
name = "core"
type = "forbidden"
source_modules = ["connectors_core"]
forbidden_modules = ["pyspark"]

[[tool.importlinter.contracts]]
name = "tools"
type = "forbidden"
source_modules = ["connector_release_tools"]
forbidden_modules = ["connectors_core", "connector_one"]
""",
    }


@dataclass
class FlipTree(GitTree):
    now: datetime.datetime = START
    base: str = "HEAD"

    def commit(
        self,
        files: Mapping[str, str | None] | None = None,
        *,
        sign: bool = True,
        by: str = "eve",
        at: datetime.datetime | None = None,
    ) -> str:
        """Commit everything as a person, by default now."""
        with self.acting(by, at or self.now):
            return super().commit(files, sign=sign)

    @contextmanager
    def acting(self, by: str, at: datetime.datetime) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for role in ("AUTHOR", "COMMITTER"):
                patch.setenv(f"GIT_{role}_EMAIL", by if "@" in by else f"{by}@example.org")
                patch.setenv(f"GIT_{role}_DATE", at.isoformat())
            yield

    def merge(self) -> str:
        """Make the changes part of the target branch, and return its newest commit."""
        self.base = self.commit()
        return self.base

    def checked(self, by: str = "eve", *, code: int = 1, asked: object = None) -> str:
        """Commit everything as a person, and check it as a pull request."""
        self.commit(by=by)
        options = ["--base", self.base]
        if asked is not None:
            file = self.root.parent / "pull-request.json"
            file.write_text(json.dumps(asked), encoding="utf-8")
            options += ["--pull-request", str(file)]
        return self.flip("check", *options, code=code)

    def later(self, **time: float) -> None:
        self.now += datetime.timedelta(**time)

    def run(self, *arguments: str) -> Result:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dates, "now", lambda: self.now)
            # Building the commands for each run would take most of the time.
            patch.setattr("typer.testing._get_command", lambda app: COMMAND)
            return self.invoke(*arguments)

    def flip(self, *arguments: str, code: int = 0) -> str:
        result = self.run("flip", *arguments)
        assert result.exit_code == code, result.output
        return result.output

    def path(self, number: int) -> Path:
        (path,) = (self.root / "flips").glob(f"{number:04}-*.md")
        return path

    def read(self, number: int) -> Flip:
        return Flip.read(self.path(number))

    def replace(self, number: int, old: str, new: str) -> None:
        text = self.path(number).read_text(encoding="utf-8")
        assert old in text
        self.path(number).write_text(text.replace(old, new), encoding="utf-8")

    def propose(self, title: str, *options: str, author: str = "eve") -> int:
        """Create a draft with all sections, and return its number."""
        self.flip("new", title, "--author", author, *options)
        number = max(int(path.name[:4]) for path in (self.root / "flips").glob("*.md"))
        self.fill(number)
        return number

    def fill(self, number: int) -> None:
        """Write a text into every section of a draft."""
        texts = itertools.chain(["It is needed.", "It is done."], itertools.repeat("So it is."))
        text = COMMENT.sub(lambda _: next(texts), self.path(number).read_text(encoding="utf-8"))
        self.path(number).write_text(text, encoding="utf-8")

    def discuss(self, number: int) -> None:
        self.flip("open-discussion", str(number), "--by", "eve")

    def open_vote(self, number: int) -> None:
        """Create a proposal with an open vote."""
        self.discuss(number)
        self.later(days=7)
        self.flip("open-vote", str(number), "--by", "eve")

    def vote(self, number: int, **choices: str) -> None:
        for voter, choice in choices.items():
            self.later(minutes=1)
            self.flip("vote", str(number), choice, "--by", voter)

    def accept(self, number: int) -> None:
        """Create an accepted proposal."""
        self.open_vote(number)
        self.vote(number, alice="+1", bob="+1", carol="+1")
        self.later(hours=72)
        self.flip("accept", str(number), "--by", "alice")
