# SPDX-License-Identifier: Apache-2.0
"""Reads YAML with its comments, validates it with a model, and writes it with the comments."""

from __future__ import annotations

import datetime
import io
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.tokens import AliasToken, AnchorToken, ScalarToken, TagToken, Token

from connector_release_tools.errors import ReleaseToolsError

__all__ = ["dump", "load", "load_plain", "stamp", "validated"]

Model = TypeVar("Model", bound=BaseModel)

_INDIRECT: Final = {AnchorToken: "an anchor", AliasToken: "an alias", TagToken: "a tag"}


def load(text: str, *, name: str, error: type[ReleaseToolsError]) -> Any:
    """Parse a text into a document that keeps the comments.

    Args:
        text: YAML.
        name: The name of the document in errors.
        error: The class of the error to raise.

    Raises:
        ReleaseToolsError: The text is not YAML.
    """
    try:
        return _yaml().load(text)
    except YAMLError as problem:
        raise error(f"{name} is not valid YAML: {problem}") from problem


def load_plain(text: str, *, name: str, error: type[ReleaseToolsError]) -> Any:
    """Parse a record that people vote on: each entry shows its own value to the reader.

    Args:
        text: YAML without anchors, aliases, merge keys, and tags.
        name: The name of the document in errors.
        error: The class of the error to raise.

    Raises:
        ReleaseToolsError: The text is not YAML, or uses one of these.
    """
    document = load(text, name=name, error=error)
    for token in _yaml().scan(text):
        if (kind := _indirect(token)) is not None:
            raise error(
                f"{name} has {kind} in line {token.start_mark.line + 1}",
                hint="write out each value where it belongs",
            )
    return document


def validated(
    model: type[Model], document: Any, *, name: str, error: type[ReleaseToolsError]
) -> Model:
    """Validate a document with a model.

    Args:
        model: The model.
        document: The result of `load`.
        name: The name of the document in errors.
        error: The class of the error to raise.

    Raises:
        ReleaseToolsError: The document is invalid; the message names each place.
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
    """Return the document as text."""
    written = io.StringIO()
    _yaml().dump(document, written)
    return written.getvalue()


def stamp(at: datetime.datetime) -> Any:
    """Return a time as a value for a document, as in 2026-11-22T10:00:00Z."""
    return _yaml().load(at.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))


def _indirect(token: Token) -> str | None:
    if isinstance(token, ScalarToken):
        return "a merge key" if token.plain and token.value == "<<" else None
    return _INDIRECT.get(type(token))


def _said(message: str) -> str:
    return message.removeprefix("Value error, ")


def _yaml() -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096  # people choose the line breaks
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml
