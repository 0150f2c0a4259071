# SPDX-License-Identifier: Apache-2.0
"""The commands of the README do what it says."""

import re
import shlex
from pathlib import Path

from template_tree import Tree

README = Path(__file__).parents[2] / "README.md"


def commands() -> list[list[str]]:
    blocks = re.findall(r"^```sh\n(.*?)^```$", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.startswith("release-tools")]


def test_the_commands_run_one_after_the_other(tree: Tree) -> None:
    assert len(commands()) == 6
    for command in commands():
        assert command[:2] == ["release-tools", "template"]
        result = tree.run(*command[2:])
        assert result.exit_code == 0, result.output
        tree.commit({})
