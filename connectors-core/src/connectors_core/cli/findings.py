# SPDX-License-Identifier: Apache-2.0
"""What `connectors doctor` finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How a finding is to be taken."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: What was looked at.
        found: What was found.
        level: How it is to be taken.
        problem: What does not fit.
        fix: The command or the step that mends it.
    """

    check: str
    found: str
    level: Level = Level.OK
    problem: str | None = None
    fix: str | None = None
