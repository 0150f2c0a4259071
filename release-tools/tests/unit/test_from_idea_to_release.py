# SPDX-License-Identifier: Apache-2.0
"""People follow the page from a proposal to a release, inside this repository."""

from __future__ import annotations

import datetime
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from flip_tree import FlipTree
from git_tree import git
from gpg_home import gpg, new_home

from connector_release_tools.distributions import Distribution
from connector_release_tools.environments import Environment, constraints, wheelhouse
from connector_release_tools.git import Repository
from connector_release_tools.index.directory import DirectoryIndex
from connector_release_tools.index.server import serving
from connector_release_tools.maintainers import Maintainers
from connector_release_tools.releases.artefacts import build_core
from connector_release_tools.releases.signatures import KEYS
from connector_release_tools.site.markdown import parse
from connector_release_tools.versions import SparkLine

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/write-a-connector/from-idea-to-release.md"
DAY = re.compile(r"# (\w+), day (\d+)\n")
HERE = "\n# the commands of the block\n"
APP = "build/app/"
# The caches of the user: a test has a new home, in which Spark would be built again.
CACHE = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
VOTERS = ("alice", "bob", "carol")


@dataclass
class Walk(FlipTree):
    """A clone in which people follow the page.

    Attributes:
        number: The number of the proposal, which the page calls 42.
    """

    number: int = 0

    def follow(self, text: str) -> None:
        """Take the steps of a text, each as a pull request that is merged."""
        first = self.now
        blocks = [each.code for each in parse(text).blocks if each.language == "sh"]
        frame, *steps = blocks
        before, after = frame.removeprefix("# everyone\n").split(HERE)
        for minutes, block in enumerate(steps):
            step = DAY.match(block)
            assert step, block
            self.now = first + datetime.timedelta(days=int(step[2]), minutes=minutes)
            with self.acting(step[1], self.now):
                self.do(f"{before}\n{block[step.end() :]}{after}")
                git(self.root, "switch", "--quiet", "main")
                git(self.root, "merge", "--quiet", "--no-ff", "step")
                git(self.root, "branch", "--quiet", "--delete", "step")

    def do(self, commands: str) -> None:
        numbered = commands.replace("0042", f"{self.number:04}").replace(" 42", f" {self.number}")
        for command in numbered.splitlines():
            words = shlex.split(command)
            if words[0] == "release-tools":
                done = self.run(*words[1:])
                assert done.exit_code == 0, (command, done.output, done.exception)
            elif words[0] == "$EDITOR":
                self.fill(self.number)
            elif words[0] != "make":  # its environments exist
                self.program(command)

    def program(self, command: str) -> None:
        """Run another program with the Python of the tests."""
        path = [f"{self.root}/connector-pulsar/src", os.environ.get("PYTHONPATH", "")]
        env = {
            **{name: text for name, text in os.environ.items() if "PYTEST" not in name},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(path),
        }
        if command.startswith(APP):  # it has only what pip has installed
            del env["PYTHONPATH"]
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.root,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout)


@pytest.fixture
def walk(tmp_path, monkeypatch) -> Walk:
    """A clone of this repository in which three people have a binding vote."""
    git(tmp_path, "clone", "--quiet", "--no-tags", str(ROOT), "clone")
    root = tmp_path / "clone"
    git(root, "switch", "--quiet", "--force-create", "main")
    began = int(git(root, "show", "--no-patch", "--format=%ct"))
    walk = Walk(root, datetime.datetime.fromtimestamp(began, datetime.UTC))
    walk.number = 1 + max(int(path.name[:4]) for path in root.glob("flips/0*.md"))
    term = "  - {handle: NAME, since: 2026-01-01}\n"
    people = walk.text("MAINTAINERS.yaml").partition("binding:")[0].rstrip("\n")
    people += f"\n  {term.replace('NAME', 'alice')}binding:\n"
    people += "".join(term.replace("NAME", name) for name in VOTERS)
    people += "addresses:\n"
    people += "".join(f"  {name}: [{name}@example.org]\n" for name in (*VOTERS, "eve"))
    walk.commit({"MAINTAINERS.yaml": people})
    monkeypatch.chdir(root)
    return walk


@pytest.fixture
def release_manager(walk, monkeypatch) -> None:
    """Alice, who has a key, and an index with the core; pip has Spark's tested versions."""
    with new_home() as home:
        monkeypatch.setenv("GNUPGHOME", home)
        monkeypatch.setenv("XDG_CACHE_HOME", CACHE)
        walk.commit({KEYS: gpg(home, "--armor", "--export")})
        core = build_core(Repository(walk.root), walk.root / "build")
        assert core is not None
        index = DirectoryIndex(walk.root / "build/index")
        index.add(Distribution.of(core))
        pins = walk.root / "build/pins.txt"
        pins.write_text("\n".join(constraints(ROOT, SparkLine.parse("4.3"))))
        with serving(index.folder) as url:
            monkeypatch.setenv("INDEX", url)
            monkeypatch.setenv("PIP_CONSTRAINT", str(pins))
            monkeypatch.setenv("PIP_FIND_LINKS", str(wheelhouse()))
            yield


def text_until(heading: str) -> str:
    """Return the text about this repository, until a heading of the page."""
    text = PAGE.read_text(encoding="utf-8")
    return text[text.index("## In this repository\n") : text.index(f"{heading}\n")]


def test_a_proposal_becomes_a_connector_that_passes_its_checks(walk):
    walk.follow(text_until("### Test its cells"))
    assert "connector-pulsar" in Maintainers.of(Repository(walk.root)).folders


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("release_manager")
@pytest.mark.skipif(shutil.which("gpg") is None, reason="gpg is not installed")
def test_the_connector_is_tested_released_and_installed(walk):
    walk.follow(text_until("## In its own repository"))
    app = walk.root / APP
    versions = Environment(app).versions()
    shutil.rmtree(app)  # it has all of Spark
    assert versions["connector-pulsar"] == "0.1.0.4.3"
    assert versions["pyspark"].startswith("4.3.")
