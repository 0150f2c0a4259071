# SPDX-License-Identifier: Apache-2.0
"""`.cruft.json`: the state of the template and the answers that a connector was created from.

The format is cruft's, so a connector that moves to another repository continues with plain cruft.
`template` is relative to the connector, so it works in every clone. `_template_tree` is our
addition: the id of the template's folder at that commit. It changes only when the template changes,
and it remains valid after a squash of the commit. Plain `cruft update` does not change it, so it is
used only if the commit does not exist.
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
    """The contents of `.cruft.json`.

    Attributes:
        template: The template's repository, relative to the connector.
        directory: The template's folder in it.
        commit: The commit of the rendered template.
        tree: The id of the template's folder at that commit, if it was recorded.
        answers: The answers to the template's questions.
        others: Other keys of cruft, kept unchanged.
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
            ConnectorFolderError: The file is missing or invalid.
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
                f"{path.parent.name}/{LINK} is invalid: {_reason(error)}",
                hint="restore it from an earlier commit, or remove it and run "
                f"`release-tools template link {path.parent.name}`",
            ) from error
        ids = (link.commit, link.tree or link.commit)
        if not all(isinstance(each, str) and _OBJECT_ID.fullmatch(each) for each in ids):
            raise ConnectorFolderError(
                f"{path.parent.name}/{LINK}: commit and {_TREE} must be git object ids",
                hint="restore it from an earlier commit",
            )
        return link

    def write(self, path: Path) -> None:
        """Write the file in cruft's format."""
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
