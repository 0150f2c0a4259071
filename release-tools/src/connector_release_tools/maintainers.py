# SPDX-License-Identifier: Apache-2.0
"""`MAINTAINERS.yaml`: the maintainers of each folder, and the people with binding votes."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Annotated, Final, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from connector_release_tools.errors import MaintainersError
from connector_release_tools.git import Repository
from connector_release_tools.yaml_text import load_plain, validated

__all__ = [
    "EVERYTHING",
    "MAINTAINERS",
    "BindingTerm",
    "Handle",
    "Maintainers",
    "Person",
    "Term",
    "is_team",
]

MAINTAINERS: Final = "MAINTAINERS.yaml"
EVERYTHING: Final = "/"

_PART: Final = r"\.?[A-Za-z0-9_-][A-Za-z0-9._-]*"
_NAME: Final = r"[A-Za-z0-9](?:-?[A-Za-z0-9])*"

# A GitHub handle of a person, or organization/team for a team. Case is ignored.
Person = Annotated[
    str, StringConstraints(pattern=rf"^{_NAME}$", max_length=39), AfterValidator(str.lower)
]
Handle = Annotated[
    str, StringConstraints(pattern=rf"^{_NAME}(/{_NAME})?$"), AfterValidator(str.lower)
]
_Folder = Annotated[str, StringConstraints(pattern=rf"^(/|{_PART}(/{_PART})*)$")]
_Address = Annotated[str, StringConstraints(pattern=r"^[^@\s<>]+@[^@\s<>]+$", to_lower=True)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Period(_Entry):
    since: datetime.date
    until: datetime.date | None = None

    @model_validator(mode="after")
    def _is_ordered(self) -> Self:
        if self.until is not None and self.until < self.since:
            raise ValueError(f"until ({self.until}) is before since ({self.since})")
        return self

    def covers(self, day: datetime.date) -> bool:
        """Return whether the term includes a day; both ends are inclusive."""
        return self.since <= day and (self.until is None or day <= self.until)


class Term(_Period):
    """The time in which a person or a team maintains a folder.

    Attributes:
        handle: The person or team.
        since: The first day.
        until: The last day; None if it has no end.
    """

    handle: Handle


class BindingTerm(_Period):
    """The time in which the votes of a person are binding.

    Attributes:
        handle: The person.
        since: The first day.
        until: The last day; None if it has no end.
    """

    handle: Person


class Maintainers(_Entry):
    """The contents of the file.

    Attributes:
        folders: Terms by folder; `/` covers all other files.
        binding: Terms of the people with a binding vote. A team has no vote.
        addresses: The e-mail addresses in the commits of a person. Without the forge, they show
            who made a commit.
    """

    folders: Mapping[_Folder, tuple[Term, ...]]
    binding: tuple[BindingTerm, ...] = Field(default=())
    addresses: Mapping[Person, tuple[_Address, ...]] = Field(default={})

    @model_validator(mode="after")
    def _covers_everything(self) -> Self:
        if not self.folders.get(EVERYTHING):
            raise ValueError(f"folders: {EVERYTHING} needs a maintainer")
        return self

    @model_validator(mode="after")
    def _addresses_belong_to_one_person(self) -> Self:
        owners: dict[str, str] = {}
        for handle, addresses in self.addresses.items():
            for address in addresses:
                if (owner := owners.setdefault(address, handle)) != handle:
                    raise ValueError(f"addresses: {address} belongs to both {owner} and {handle}")
        return self

    @classmethod
    def of(cls, repository: Repository) -> Self:
        """Read the file at the top of a working tree.

        Raises:
            MaintainersError: The file is missing or invalid.
        """
        try:
            return cls.parse((repository.root / MAINTAINERS).read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise MaintainersError(
                f"{repository.root} does not contain {MAINTAINERS}",
                hint="run this in the repository of the connectors",
            ) from error

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text of the file.

        Raises:
            MaintainersError: The text is not YAML or is invalid.
        """
        document = load_plain(text, name=MAINTAINERS, error=MaintainersError)
        return validated(cls, document, name=MAINTAINERS, error=MaintainersError)

    def folder_of(self, path: str) -> str:
        """Return the deepest listed folder that contains a file, as in CODEOWNERS."""
        for parent in PurePosixPath(path).parents:
            if str(parent) in self.folders:
                return str(parent)
        return EVERYTHING

    def of_folder(self, folder: str, day: datetime.date) -> list[str]:
        """Return the maintainers of a folder on a day."""
        return _holders(self.folders[folder], day)

    def current(self, folder: str) -> list[str]:
        """Return the maintainers of a folder whose term has no end."""
        terms = self.folders[folder]
        return list(dict.fromkeys(term.handle for term in terms if term.until is None))

    def people(self, day: datetime.date) -> set[str]:
        """Return the people (not teams) who maintain any folder on a day."""
        handles = {handle for folder in self.folders for handle in self.of_folder(folder, day)}
        return {handle for handle in handles if not is_team(handle)}

    def people_at(self, address: str) -> set[str]:
        """Return the person with an e-mail address; empty if it is unknown."""
        return {name for name, known in self.addresses.items() if address.lower() in known}

    def binding_voters(self, day: datetime.date) -> list[str]:
        """Return the people with a binding vote on a day."""
        return _holders(self.binding, day)


def is_team(handle: str) -> bool:
    """Return whether a handle belongs to a team."""
    return "/" in handle


def _holders(terms: Iterable[Term | BindingTerm], day: datetime.date) -> list[str]:
    return list(dict.fromkeys(term.handle for term in terms if term.covers(day)))
