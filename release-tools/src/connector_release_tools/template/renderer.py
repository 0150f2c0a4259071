# SPDX-License-Identifier: Apache-2.0
"""Renders the template of a git tree with the answers of a connector."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import jinja2
from cookiecutter.exceptions import CookiecutterException, FailedHookException
from cookiecutter.main import cookiecutter

from connector_release_tools.errors import TemplateError
from connector_release_tools.git import Repository
from connector_release_tools.template.files import Files, files_below
from connector_release_tools.template.link import LINK, Answers

__all__ = ["TEMPLATE", "Renderer", "Rendering"]

TEMPLATE: Final = "connector-template"
# The module of the template that rejects answers. Each state of the template has its own.
_CHECKS: Final = "connector_answers"


@dataclass(frozen=True)
class Rendering:
    """A project that the template generates.

    Attributes:
        name: The name of its folder.
        answers: All answers, including defaults.
        files: Its files.
    """

    name: str
    answers: Answers
    files: Files


@dataclass
class Renderer:
    """Renders the template of a repository and runs its code.

    It writes only to `scratch`, and ignores the user's cookiecutter configuration.

    Attributes:
        repository: The repository with the template.
        scratch: An empty folder, which the caller removes.
    """

    repository: Repository
    scratch: Path
    _done: dict[tuple[str, str], Rendering] = field(default_factory=dict, init=False)

    def render(self, tree: str, answers: Answers) -> Rendering:
        """Render the template with the answers; missing answers use the template's defaults.

        Args:
            tree: The id of the tree of the template's folder.
            answers: The answers by question; answers to unknown questions are ignored.

        Raises:
            TemplateError: The tree has no template, it rejects the answers, or rendering fails.
            GitError: The tree does not exist.
        """
        key = (tree, json.dumps(answers, sort_keys=True))
        if key not in self._done:
            self._done[key] = self._render(tree, answers, self.scratch / str(len(self._done)))
        return self._done[key]

    def _render(self, tree: str, answers: Answers, scratch: Path) -> Rendering:
        template = self.scratch / tree / TEMPLATE
        if not template.exists():
            self.repository.export(tree, template)
        sys.modules.pop(_CHECKS, None)
        replay = scratch / "replay"
        places = {"replay_dir": str(replay), "cookiecutters_dir": str(scratch / "cookiecutters")}
        try:
            project = cookiecutter(
                str(template),
                no_input=True,
                extra_context=dict(answers),
                output_dir=str(scratch / "project"),
                default_config=places,
            )
        except FailedHookException as error:
            raise TemplateError(f"{TEMPLATE} rejects the answers: {error}") from error
        except (CookiecutterException, jinja2.TemplateError, ValueError, OSError) as error:
            given = ", ".join(f"{name}={value!r}" for name, value in answers.items())
            raise TemplateError(
                f"{TEMPLATE} at tree {tree[:10]} cannot be rendered with {given}: {error}",
                hint=f"correct the answers, or {TEMPLATE}",
            ) from error
        context = json.loads((replay / f"{TEMPLATE}.json").read_bytes())["cookiecutter"]
        files = {path: file for path, file in files_below(Path(project)).items() if path != LINK}
        return Rendering(Path(project).name, public(context), files)


def public(context: Mapping[str, Any]) -> Answers:
    """Return the answers of a context; names with an underscore are settings of the template."""
    return {name: value for name, value in context.items() if not name.startswith("_")}
