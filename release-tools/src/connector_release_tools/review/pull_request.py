# SPDX-License-Identifier: Apache-2.0
"""The response of the GitHub API for a pull request, with its files and reviews added."""

from __future__ import annotations

import enum
import json
from pathlib import Path
from typing import Annotated, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    StringConstraints,
    model_validator,
)

from connector_release_tools.errors import ReviewError
from connector_release_tools.yaml_text import validated

__all__ = ["PullRequest", "Review", "State"]

_ObjectId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]


class State(enum.StrEnum):
    """The result of a review."""

    APPROVED = "APPROVED"
    CHANGES_REQUESTED = "CHANGES_REQUESTED"
    COMMENTED = "COMMENTED"
    DISMISSED = "DISMISSED"
    PENDING = "PENDING"


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _User(_Part):
    login: Annotated[str, StringConstraints(to_lower=True)]


class _Commit(_Part):
    sha: _ObjectId


class _File(_Part):
    filename: str
    previous_filename: str | None = None
    status: str


class Review(_Part):
    """One review.

    Attributes:
        user: The reviewer; None if the account no longer exists.
        state: The result.
        commit_id: The reviewed commit.
        submitted_at: The time; None while it is pending.
    """

    user: _User | None
    state: State
    commit_id: _ObjectId | None = None
    submitted_at: AwareDatetime | None = None


class PullRequest(_Part):
    """A pull request.

    Attributes:
        number: Its number.
        user: Its author.
        created_at: The time when it was opened.
        base: The target of the merge.
        head: Its last commit.
        changed_files: The number of changed files.
        files: The changed files.
        reviews: All reviews, in any order.
    """

    number: int
    user: _User
    created_at: AwareDatetime
    base: _Commit
    head: _Commit
    changed_files: int
    files: tuple[_File, ...]
    reviews: tuple[Review, ...]

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if len(self.files) != self.changed_files:
            raise ValueError(
                f"{len(self.files)} of {self.changed_files} changed files are listed; "
                "download all pages of the list"
            )
        return self

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a JSON file.

        Raises:
            ReviewError: The file is missing or invalid.
        """
        try:
            document = json.loads(path.read_bytes())
        except FileNotFoundError as error:
            raise ReviewError(f"{path} does not exist") from error
        except ValueError as error:
            raise ReviewError(
                f"{path.name} is not valid JSON: {error}",
                hint="create the file as described in the README of release-tools",
            ) from error
        return validated(cls, document, name=path.name, error=ReviewError)

    @property
    def paths(self) -> list[str]:
        """Return every changed file; for a renamed file, both names."""
        names = [name for file in self.files for name in (file.filename, file.previous_filename)]
        return sorted({name for name in names if name is not None})

    @property
    def written(self) -> list[str]:
        """Return the files that exist after the merge."""
        return [file.filename for file in self.files if file.status != "removed"]
