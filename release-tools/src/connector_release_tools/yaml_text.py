# SPDX-License-Identifier: Apache-2.0
"""YAML that people write: read with its comments, checked by a model, written as it was."""

from __future__ import annotations

import datetime
import io
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from connector_release_tools.errors import ReleaseToolsError

__all__ = ["dump", "load", "stamp", "validated"]

Model = TypeVar("Model", bound=BaseModel)


def load(text: str, *, name: str, error: type[ReleaseToolsError]) -> Any:
    """The document in a text, with its comments.

    Args:
        text: YAML.
        name: What the error calls it.
        error: What is raised.

    Raises:
        ReleaseToolsError: It is no YAML.
    """
    try:
        return _yaml().load(text)
    except YAMLError as problem:
        raise error(f"{name} is no YAML: {problem}") from problem


def validated(
    model: type[Model], document: Any, *, name: str, error: type[ReleaseToolsError]
) -> Model:
    """What a document says, checked.

    Args:
        model: What it must hold.
        document: What `load` gave.
        name: What the error calls it.
        error: What is raised.

    Raises:
        ReleaseToolsError: Something in it is not as it must be; the message names each place.
    """
    try:
        return model.model_validate(document)
    except ValidationError as problem:
        found = [
            ": ".join(filter(None, [".".join(map(str, each["loc"])), _said(each["msg"])]))
            for each in problem.errors()
        ]
        raise error(f"{name}: " + "; ".join(found)) from problem


def dump(document: Any) -> str:
    """The document as text."""
    written = io.StringIO()
    _yaml().dump(document, written)
    return written.getvalue()


def stamp(at: datetime.datetime) -> Any:
    """A time as a value for a document, written as in 2026-11-22T10:00:00Z."""
    return _yaml().load(at.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))


def _said(message: str) -> str:
    return message.removeprefix("Value error, ")


def _yaml() -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096  # lines are broken by people
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml
