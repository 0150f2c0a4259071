# SPDX-License-Identifier: Apache-2.0
"""The findings of `connectors doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one check.

    Attributes:
        check: What was checked.
        found: The actual value.
        level: The severity.
        problem: What is incompatible.
        fix: The command or step that fixes it.
    """

    check: str
    found: str
    level: Level = Level.OK
    problem: str | None = None
    fix: str | None = None
