# SPDX-License-Identifier: Apache-2.0
"""Whether a block of code is what its fence says it is. Nothing is run."""

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
    """Why a block cannot be read as its language; None if it can, or the language has no check."""
    try:
        LANGUAGES.get(block.language, _nothing)(block.code)
    except (SyntaxError, ValueError, YAMLError, ProgramError) as error:
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        return f"no {block.language}: {said}"
    return None


def _python(code: str) -> None:
    compile(code, "block", "exec", dont_inherit=True)


def _shell(code: str) -> None:
    output(("bash", "-n", "-c", code), folder=Path(tempfile.gettempdir()))


def _yaml(code: str) -> None:
    list(YAML(typ="safe").load_all(code))


def _nothing(_code: str) -> None:
    pass


# What raises, by the language, where a text is not of it.
LANGUAGES: Final[Mapping[str, Callable[[str], object]]] = {
    "bash": _shell,
    "json": json.loads,
    "python": _python,
    "sh": _shell,
    "toml": tomllib.loads,
    "yaml": _yaml,
}
