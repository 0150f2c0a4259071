# SPDX-License-Identifier: Apache-2.0
"""The findings of `connectors doctor` as a table for people."""

from __future__ import annotations

from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from connectors_core.cli.findings import Finding, Level


def show(findings: list[Finding], console: Console) -> None:
    """Print the findings for people."""
    styles = {Level.OK: "green", Level.WARNING: "yellow", Level.PROBLEM: "bold red"}
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        table.add_row(
            Text(finding.level.value, style=styles[finding.level]),
            Text(finding.check),
            Text(finding.found),
        )
    console.print(table)
    told = [finding for finding in findings if finding.level is not Level.OK]
    for _, sharing in groupby(told, key=lambda finding: finding.fix or finding.check):
        console.print()
        for finding in sharing:
            problem = Text(f"{finding.check}: {finding.problem}", style=styles[finding.level])
            console.print(problem, soft_wrap=True)
        if finding.fix is not None:
            # The text is neither wrapped nor styled, so that it can be copied.
            console.print(f"  {finding.fix}", markup=False, highlight=False, soft_wrap=True)
