# SPDX-License-Identifier: Apache-2.0
"""A reader who follows the guide and checks its output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(Path(__file__).parent))
GUIDE = ROOT / "docs/write-a-connector.md"
SECTION = re.compile(r"^## \d+\. (.*)\n((?:(?!## \d+\. ).*\n)*)", re.MULTILINE)
# A block of the guide: a file with its name, or commands and their expected output.
STEP = re.compile(
    r"^(?:`(?P<name>[\w./]+)`:\n\n```python\n(?P<text>.*?)"
    r"|```sh\n(?P<commands>.*?)(?:```\n\n```\n(?P<output>.*?))?)^```$",
    re.MULTILINE | re.DOTALL,
)
FAILURE = re.compile(r"\bfailed\b|Error:")


@dataclass
class Follower:
    """Follows the guide in a folder that acts as the clone of the repository."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def follow(self, title: str, *, run: bool = True) -> None:
        """Write the files of a section, run its commands, and check their output."""
        section = dict(SECTION.findall(GUIDE.read_text(encoding="utf-8")))[title]
        assert "```" not in STEP.sub("", section), (
            "the guide does not say what to do with this block"
        )
        for step in STEP.finditer(section):
            if step["name"]:
                path = self.folder / step["name"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(step["text"], encoding="utf-8")
            elif run:
                self._run(step["commands"], step["output"] or "")

    def _run(self, commands: str, shown: str) -> None:
        where = self.folder.parent / "where"
        done = subprocess.run(
            ["bash", "-c", f"trap 'pwd > {where}' EXIT\nset -e\nmake() {{ :; }}\n{commands}"],
            cwd=self.folder,
            env={
                **{name: text for name, text in os.environ.items() if "PYTEST" not in name},
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                **self.environment,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.folder = Path(where.read_text(encoding="utf-8").strip())
        wanted = re.escape(shown.strip()).replace(r"\.\.\.", ".*?")  # "..." stands for varying text
        assert re.match(wanted, done.stdout.strip(), re.DOTALL), f"{shown}\nbut\n{done.stdout}"
        fails = FAILURE.search(shown) is not None
        assert (done.returncode != 0) == fails, f"{commands}\n{done.stdout}"


@pytest.fixture
def follower(tmp_path: Path) -> Follower:
    """A reader who has cloned the repository and read the first section."""
    clone = tmp_path / "clone"
    clone.mkdir()
    for name in ("connector-template", "docs"):
        (clone / name).symlink_to(ROOT / name)
    config = tmp_path / "cookiecutter.yaml"
    config.write_text(f"replay_dir: {tmp_path}", encoding="utf-8")
    # Replaces `make env`, which installs the connector.
    path = os.pathsep.join([f"{clone}/connector-shops/src", os.environ.get("PYTHONPATH", "")])
    return Follower(
        clone,
        {
            "COOKIECUTTER_CONFIG": str(config),
            "MYPY_CACHE_DIR": str(ROOT / "build/mypy"),  # type-checking the core takes longest
            "PYTHONPATH": path,
        },
    )
