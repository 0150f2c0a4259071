# SPDX-License-Identifier: Apache-2.0
"""Checks that a code block parses as the language of its fence, without running it."""

from __future__ import annotations

import json
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from connector_release_tools.errors import ProgramError
from connector_release_tools.programs import output
from connector_release_tools.site.markdown import Block

__all__ = ["LANGUAGES", "problem"]


def problem(block: Block) -> str | None:
    """Return why a block does not parse; None if it parses or its language has no check."""
    try:
        LANGUAGES.get(block.language, _nothing)(block.code)
    except (SyntaxError, ValueError, YAMLError, ProgramError) as error:
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        return f"not valid {block.language}: {said}"
    return None


def _python(code: str) -> None:
    compile(code, "block", "exec", dont_inherit=True)


def _shell(code: str) -> None:
    output(("bash", "-n", "-c", code), folder=Path(tempfile.gettempdir()))


def _yaml(code: str) -> None:
    list(YAML(typ="safe").load_all(code))


def _nothing(_code: str) -> None:
    pass


# Parsers by language, which raise an error for an invalid text.
LANGUAGES: Final[Mapping[str, Callable[[str], object]]] = {
    "bash": _shell,
    "json": json.loads,
    "python": _python,
    "sh": _shell,
    "toml": tomllib.loads,
    "yaml": _yaml,
}
