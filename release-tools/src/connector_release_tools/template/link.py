# SPDX-License-Identifier: Apache-2.0
"""`.cruft.json`: which state of the template a connector was made from, with which answers.

The format is cruft's, so a connector that moves to another repository continues with plain cruft.
`template` is relative to the connector, so that it works in every clone. `_template_tree` is our
addition: the id of the template's folder at that commit. It changes only when the template changes,
and survives a commit that was squashed. Plain `cruft update` does not change it, so it is used only
if the commit does not exist.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from connector_release_tools.errors import ConnectorFolderError

__all__ = ["LINK", "Answers", "Link"]

LINK: Final = ".cruft.json"
_TREE: Final = "_template_tree"
_OBJECT_ID: Final = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")

Answers = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Link:
    """What `.cruft.json` says.

    Attributes:
        template: Where the template's repository is, from the connector.
        directory: The template's folder in it.
        commit: The commit whose template was rendered.
        tree: The id of the template's folder at that commit, if it was recorded.
        answers: The answers to the template's questions.
        others: Keys of cruft that mean nothing here, kept as they are.
    """

    template: str = ".."
    directory: str
    commit: str
    tree: str | None
    answers: Answers
    others: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Link:
        """Read the file.

        Raises:
            ConnectorFolderError: It is not there, or not as cruft writes it.
        """
        try:
            said = json.loads(path.read_bytes())
            answers = said["context"]["cookiecutter"]
            link = cls(
                template=said["template"],
                directory=said["directory"],
                commit=said["commit"],
                tree=said.get(_TREE),
                answers={name: value for name, value in answers.items() if name[:1] != "_"},
                others={
                    key: value
                    for key, value in said.items()
                    if key not in {"template", "directory", "commit", "context", _TREE}
                },
            )
        except FileNotFoundError as error:
            raise ConnectorFolderError(
                f"{path.parent.name} has no {LINK}: it is not linked to the template",
                hint=f"run `release-tools template link {path.parent.name}`",
            ) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConnectorFolderError(
                f"{path.parent.name}/{LINK} is not as cruft writes it: {_reason(error)}",
                hint="take it back from an earlier commit, or remove it and run "
                f"`release-tools template link {path.parent.name}`",
            ) from error
        ids = (link.commit, link.tree or link.commit)
        if not all(isinstance(each, str) and _OBJECT_ID.fullmatch(each) for each in ids):
            raise ConnectorFolderError(
                f"{path.parent.name}/{LINK}: commit and {_TREE} must be ids of git's",
                hint="take it back from an earlier commit",
            )
        return link

    def write(self, path: Path) -> None:
        """Write the file the way cruft does."""
        said = {
            "template": self.template,
            "commit": self.commit,
            "checkout": None,
            "context": {"cookiecutter": dict(self.answers)},
            "directory": self.directory,
            **self.others,
            _TREE: self.tree,
        }
        path.write_text(json.dumps(said, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def _reason(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)
