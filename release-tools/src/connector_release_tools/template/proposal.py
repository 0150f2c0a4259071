# SPDX-License-Identifier: Apache-2.0
"""The commands that register a new connector in this repository."""

from __future__ import annotations

import shlex

from connector_release_tools.template.link import Answers
from connector_release_tools.template.questions import as_options

__all__ = ["how_to_register"]


def how_to_register(system: str, answers: Answers) -> str:
    """Return the next commands for a connector that is not registered.

    Args:
        system: The external system, such as pulsar.
        answers: The answers that the connector was created with; empty if they are unknown.
    """
    title, described = f"A connector for {system}", {"description": "TEXT", **answers}
    words = [title, "--author", "HANDLE", "--connector", system, *as_options(described)]
    return (
        f"to register it, propose it: release-tools flip new {shlex.join(words)}\n"
        "  after the proposal is accepted: release-tools flip scaffold NUMBER --sponsor HANDLE"
    )
