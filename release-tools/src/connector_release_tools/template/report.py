# SPDX-License-Identifier: Apache-2.0
"""Prints the results of the commands: tables and diffs for people, JSON for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import typer
from rich.console import Console
from rich.table import Column, Table

from connector_release_tools.errors import ReleaseToolsError
from connector_release_tools.template.comparison import Finding, Side
from connector_release_tools.template.files import Change
from connector_release_tools.template.template_update import Update

__all__ = [
    "Verdict",
    "describe",
    "show_diffs",
    "show_error",
    "show_findings",
    "show_update",
    "show_verdict",
]


@dataclass(frozen=True)
class Verdict:
    """The result of a check of one connector.

    Attributes:
        connector: Its name.
        findings: The differences from the template.
        error: The error that prevented the check.
    """

    connector: str
    findings: Sequence[Finding] = ()
    error: ReleaseToolsError | None = None

    @property
    def state(self) -> str:
        """The verdict in a few words."""
        if self.error is not None:
            return "not checked"
        sides = {finding.side for finding in self.findings}
        if Side.TEMPLATE in sides:
            return "older than the template"
        return "has changed template files" if sides else "up to date"

    @property
    def exit_code(self) -> int:
        """The exit code: 0 up to date, 1 not up to date, 2 not checked."""
        return 2 if self.error is not None else int(bool(self.findings))


def show_verdict(console: Console, verdict: Verdict) -> None:
    """Show the result of a check of one connector."""
    style = ("green", "yellow", "red")[verdict.exit_code]
    console.print(f"{verdict.connector}: {verdict.state}", style=style)
    if verdict.error is not None:
        show_error(console, verdict.error)
    show_findings(console, verdict.findings)


def show_error(console: Console, error: ReleaseToolsError) -> None:
    """Show an error and its hint."""
    console.print(f"  {error}")
    if error.hint:
        console.print(f"  hint: {error.hint}")


def show_findings(console: Console, findings: Sequence[Finding]) -> None:
    """Show the files that differ as a table."""
    if not findings:
        return
    table = Table(Column("file", overflow="fold"), "difference", box=None, padding=(0, 2))
    for finding in findings:
        table.add_row(finding.path, f"{finding.kind} in the {finding.side}")
    console.print(table)


def show_update(console: Console, plan: Update, *, dry_run: bool) -> None:
    """Show what an update does, or would do."""
    name = plan.connector.name
    done = "nothing to update"
    if plan.is_needed:
        done = "would be updated" if dry_run else "updated"
    console.print(f"{name}: {done}", style="green")
    for change in plan.changes:
        console.print(f"  {change.kind} {change.path}")
    for path, advice in sorted(plan.conflicts.items()):
        console.print(f"  conflict in {name}/{path}: {advice}", style="red")
    edited = [finding for finding in plan.remaining if finding.path not in plan.conflicts]
    for finding in edited:
        console.print(
            f"  {finding.kind} in the connector, but the file belongs to the template: "
            f"{name}/{finding.path}",
            style="yellow",
        )
    if edited:
        console.print(
            "  hint: change the template instead, list the file in [tool.cruft] skip, or undo "
            "the change with --restore"
        )


def show_diffs(changes: Iterable[Change]) -> None:
    """Show the diffs of files without rich, which would break lines."""
    for change in changes:
        typer.echo(change.diff(), nl=False)


def describe(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict for programs."""
    said: dict[str, Any] = {
        "connector": verdict.connector,
        "state": verdict.state,
        "files": [
            {
                "path": finding.path,
                "side": str(finding.side),
                "change": finding.kind,
                "diff": finding.diff(),
            }
            for finding in verdict.findings
        ],
    }
    if verdict.error is not None:
        said["error"] = {"message": str(verdict.error), "hint": verdict.error.hint}
    return said
