# SPDX-License-Identifier: Apache-2.0
"""Registers a connector in the files of a tree; pure text functions that keep comments."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import tomlkit
from packaging.utils import canonicalize_name
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from connector_release_tools.errors import MaintainersError
from connector_release_tools.maintainers import MAINTAINERS
from connector_release_tools.matrix.model import CORE
from connector_release_tools.matrix.project import Project
from connector_release_tools.yaml_text import dump, load

__all__ = ["in_maintainers", "in_project", "new_requirements"]

_NAME: Final = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*", re.MULTILINE)


def in_project(text: str, known: Iterable[str], package: str) -> str:
    """Add a package to every list of connectors in the import rules of the root pyproject.toml.

    Args:
        text: The text of the file.
        known: The packages of the registered connectors.
        package: The new package.
    """
    project = tomlkit.parse(text)
    names = {each.replace("-", "_") for each in known}
    linter: Any = project["tool"]["importlinter"]
    for packages in _lists(linter):
        if names <= {*packages} and package not in packages:
            packages.append(package)
    for contract in linter["contracts"]:
        layers = contract.get("layers", [])
        for index, layer in enumerate(layers):
            siblings = [each.strip() for each in layer.split("|")]
            if names <= {*siblings} and package not in siblings:
                layers[index] = " | ".join([*siblings, package])
    return tomlkit.dumps(project)


def _lists(linter: Any) -> Iterator[Any]:
    yield linter["root_packages"]
    for contract in linter["contracts"]:
        for key in ("source_modules", "forbidden_modules"):
            if key in contract:
                yield contract[key]


def new_requirements(texts: Iterable[str], project: Project) -> list[str]:
    """Return what a connector needs at run time and no requirements file lists.

    Args:
        texts: The texts of all requirements files.
        project: The declarations of the connector.
    """
    listed = {canonicalize_name(each) for text in texts for each in _NAME.findall(text)}
    needed = {each: canonicalize_name(_NAME.findall(each)[0]) for each in project.requirements}
    return [each for each, name in needed.items() if name not in {*listed, CORE}]


def in_maintainers(text: str, folder: str, sponsor: str, day: datetime.date) -> str:
    """Add a maintainer for a new folder without maintainers."""
    document = load(text, name=MAINTAINERS, error=MaintainersError)
    if folder in document["folders"]:
        return text
    term = CommentedMap({"handle": sponsor, "since": day})
    term.fa.set_flow_style()
    document["folders"][folder] = CommentedSeq([term])
    return dump(document)
