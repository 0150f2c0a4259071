# SPDX-License-Identifier: Apache-2.0
"""The template's questions about what a connector provides, as options of commands."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Annotated, Final

import typer

from connector_release_tools.template.link import Answers

__all__ = [
    "Catalog",
    "Changes",
    "Compaction",
    "Kind",
    "Lookup",
    "SinkKind",
    "Table",
    "Topologies",
    "as_options",
]


class SinkKind(enum.StrEnum):
    """The kind of a connector's sink."""

    TWO_PHASE = "two-phase"
    ASYNC = "async"


Kind = Annotated[
    SinkKind, typer.Option("--sink-kind", help="What the sink writes: committed rows, or requests.")
]
Topologies = Annotated[
    bool, typer.Option("--topologies/--no-topologies", help="Steps around the sink's commits.")
]
Lookup = Annotated[bool, typer.Option("--lookup/--no-lookup", help="A lookup table.")]
Table = Annotated[bool, typer.Option("--table/--no-table", help="Tables in SQL.")]
Catalog = Annotated[
    bool, typer.Option("--catalog/--no-catalog", help="A catalog of the system's tables.")
]
Compaction = Annotated[
    bool,
    typer.Option(
        "--compaction/--no-compaction", help="Merge what the sink staged before its commit."
    ),
]
Changes = Annotated[
    bool, typer.Option("--changes/--no-changes", help="A sink that applies changes by key.")
]

_DEFAULTS: Final[Mapping[str, str | bool]] = {
    "description": "",
    "source": True,
    "sink": True,
    "sink_kind": SinkKind.TWO_PHASE.value,
    "topologies": False,
    "lookup": False,
    "table": False,
    "catalog": False,
    "compaction": False,
    "changes": False,
}


def as_options(answers: Answers) -> list[str]:
    """Return the options of a command that give these answers, without those that are defaults."""
    words = []
    for question, default in _DEFAULTS.items():
        answer, option = answers.get(question, default), question.replace("_", "-")
        if answer == default:
            continue
        if isinstance(answer, str):
            words += [f"--{option}", answer]
        else:
            words.append(f"--{option}" if answer else f"--no-{option}")
    return words
