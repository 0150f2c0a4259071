# SPDX-License-Identifier: Apache-2.0
"""Creates the connector of an accepted proposal from the template, and registers it."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connector_release_tools.errors import ConnectorFolderError, FlipError
from connector_release_tools.flips.document import Document, Flip
from connector_release_tools.flips.folder import FLIPS, Flips
from connector_release_tools.flips.model import ConnectorPlan, Status
from connector_release_tools.flips.registration import (
    in_maintainers,
    in_project,
    new_requirements,
)
from connector_release_tools.git import Repository
from connector_release_tools.maintainers import MAINTAINERS, Maintainers
from connector_release_tools.matrix.derivation import derived, rewritten
from connector_release_tools.matrix.file import MATRIX, MatrixFile
from connector_release_tools.matrix.model import Matrix
from connector_release_tools.matrix.project import PYPROJECT, Project
from connector_release_tools.programs import output
from connector_release_tools.review import github_files
from connector_release_tools.template.connector import Connector, TemplateState, create
from connector_release_tools.template.files import Change, File, files_below, read, write
from connector_release_tools.template.link import LINK
from connector_release_tools.template.renderer import Renderer, Rendering

__all__ = ["Scaffold", "scaffold"]

README: Final = "README.md"


@dataclass(frozen=True)
class Scaffold:
    """The steps for an accepted proposal.

    Attributes:
        connector: The connector.
        is_made: Whether its folder exists and is complete.
        changes: The changes of other files.
        packages: The requirements that no environment of the tree has yet.
        matrix: The matrix, including the connector.
        renderer: Renders the template.
        state: The state of the template that the connector is created from.
        plan: The connector's description in the proposal.
    """

    connector: Connector
    is_made: bool
    changes: tuple[Change, ...]
    packages: tuple[str, ...]
    matrix: Matrix
    renderer: Renderer
    state: TemplateState
    plan: ConnectorPlan

    @property
    def pinning(self) -> Sequence[str]:
        """The command that pins the new requirements and keeps all other pins; empty for none."""
        words = ("make", "requirements", f"PACKAGE={' '.join(self.packages)}")
        return words if self.packages else ()

    def apply(self) -> None:
        """Create the folder, write the changes, and pin the new requirements.

        Raises:
            ReleaseToolsError: The connector cannot be created, or a requirement cannot be pinned.
        """
        if not self.is_made:
            if self.connector.folder.exists():  # left by an interrupted run
                shutil.rmtree(self.connector.folder)
            create(self.connector.repository, self.renderer, self.state, self.plan.answers)
        root = self.connector.repository.root
        for change in self.changes:
            write(root / change.path, change.after)
        for change in _derived(root, self.matrix, self.connector.name):  # in the new folder
            write(root / change.path, change.after)
        if self.pinning:
            output(self.pinning, folder=root)


def scaffold(
    repository: Repository,
    renderer: Renderer,
    flips: Flips,
    number: int,
    *,
    sponsor: str | None,
    at: datetime.datetime,
) -> Scaffold:
    """Determine the remaining steps of an accepted proposal. Read-only.

    Args:
        repository: The tree.
        renderer: Renders the template.
        flips: The proposals.
        number: The number of the proposal.
        sponsor: The maintainer who takes responsibility for the connector; None uses the sponsor in
            the proposal.
        at: The current time.

    Raises:
        FlipError: The proposal is not accepted, asks for no connector, or has no sponsor.
        ConnectorFolderError: The folder of the connector has other contents.
        ReleaseToolsError: A file that must list the connector cannot be read.
    """
    document = flips.document(number)
    plan, patron = _accepted(flips, document, sponsor, at.astimezone(datetime.UTC).date())
    state = TemplateState.at_head(repository)
    rendering = renderer.render(state.tree, plan.answers)
    connector = Connector(repository, rendering.name)
    is_made = _is_made(connector, rendering, plan)
    declared = connector.file(PYPROJECT) if is_made else None
    text = (declared or rendering.files[PYPROJECT]).content.decode()
    project = Project.parse(text, f"{connector.name}/{PYPROJECT}")
    root = repository.root

    if document.header.get("sponsor") is None:
        document.header["sponsor"] = patron
    file = MatrixFile.of(repository)
    known = file.matrix()
    file.register(connector.name, project)
    matrix = file.matrix()
    people = in_maintainers(
        _text(root / MAINTAINERS), connector.name, patron, at.astimezone(datetime.UTC).date()
    )
    wanted = {
        f"{FLIPS}/{document.path.name}": document.text(),
        MATRIX: file.text(),
        MAINTAINERS: people,
        PYPROJECT: in_project(
            _text(root / PYPROJECT),
            set(known.connectors) - {connector.name},
            connector.name.replace("-", "_"),
        ),
    }
    changes = [
        Change(name, read(root / name), File(text.encode())) for name, text in wanted.items()
    ]
    changes += github_files.changes(root, matrix, Maintainers.parse(people))
    changes += _derived(root, matrix, connector.name)
    return Scaffold(
        connector,
        is_made,
        tuple(change for change in changes if change.before != change.after),
        tuple(new_requirements(map(_text, sorted(root.glob("requirements/*.in"))), project)),
        matrix,
        renderer,
        state,
        plan,
    )


def _accepted(
    flips: Flips, document: Document, sponsor: str | None, day: datetime.date
) -> tuple[ConnectorPlan, str]:
    flip = Flip.read(document.path)
    if flip.header.status is not Status.ACCEPTED:
        raise FlipError(
            f"{flip} is {flip.header.status}; only an accepted proposal gets a connector"
        )
    if flip.header.connector is None:
        raise FlipError(f"{flip} does not ask for a connector: its front matter has none")
    named = flip.header.sponsor
    if sponsor is not None and named not in {None, sponsor.lower()}:
        raise FlipError(f"the sponsor of {flip} is {named}")
    patron = named or (sponsor or "").lower()
    if not patron:
        raise FlipError(
            f"{flip} has no sponsor",
            hint="pass the maintainer who takes responsibility for the connector with --sponsor",
        )
    if patron not in flips.maintainers.people(day):
        raise FlipError(
            f"{patron} maintains no folder in {MAINTAINERS}",
            hint="choose one of the people below `folders` as the sponsor",
        )
    return flip.header.connector, patron


def _is_made(connector: Connector, rendering: Rendering, plan: ConnectorPlan) -> bool:
    if not connector.folder.exists():
        return False
    if (connector.folder / LINK).exists():
        # The author may have answered the questions that a proposal leaves open.
        answered = connector.link().answers
        if all(answered.get(name, answer) == answer for name, answer in plan.answers.items()):
            return True
    elif files_below(connector.folder).items() <= rendering.files.items():
        return False  # an interrupted run did not link the connector to the template
    raise ConnectorFolderError(
        f"{connector.name} exists, and was not created for this proposal",
        hint="rename the folder, or propose another connector",
    )


def _derived(root: Path, matrix: Matrix, name: str) -> list[Change]:
    """Derive the texts of the root README and the connector's folder from the matrix."""
    values = [
        it for it in derived(root, matrix) if it.path == README or name in Path(it.path).parts
    ]
    return [
        Change(path, File(before.encode()), File(after.encode()))
        for path, (before, after) in rewritten(root, values).items()
    ]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise FlipError(f"{path} does not exist; the connector must be registered there") from error
