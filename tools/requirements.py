# SPDX-License-Identifier: Apache-2.0
"""Adds requirements to the run-time part of a file: requirements.py FILE 'REQUIREMENT ...'.

`make requirements PACKAGE=...` calls it, in an environment without other packages.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

PART = "# runtime"
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
RANGE = r"(===?|~=|!=|[<>]=?)[\w.*+!-]+"
REQUIREMENT = re.compile(rf"{NAME.pattern}(\[[\w.,-]+\])?({RANGE}(,{RANGE})*)?", re.ASCII)


def key(requirement: str) -> str:
    """Return the normalized name of a requirement; empty for other lines."""
    name = NAME.match(requirement)
    return re.sub(r"[-_.]+", "-", name[0]).lower() if name else ""


def added(text: str, requirement: str) -> str:
    """Return the text with a requirement, in order of names.

    Args:
        text: The text of a requirements file.
        requirement: A package, such as `redis>=6`. Its name alone accepts any line that lists it.

    Raises:
        ValueError: It is not a name with a range, or a line lists the package differently.
    """
    if not REQUIREMENT.fullmatch(requirement):
        raise ValueError(f"expected a package, such as redis or 'redis>=6', found {requirement!r}")
    name, lines = key(requirement), text.splitlines()
    listed = next((line for line in lines if key(line) == name), None)
    if listed is not None and requirement != listed and not NAME.fullmatch(requirement):
        raise ValueError(f"it already lists {listed}; edit that line, and pass only the name")
    if listed is None:
        index = lines.index(PART) + 1
        while index < len(lines) and "" != key(lines[index]) < name:
            index += 1
        lines.insert(index, requirement)
    return "\n".join(lines) + "\n"


def main() -> str | None:
    """Change the file; return the problem, if any."""
    file = Path(sys.argv[1])
    text = file.read_text(encoding="utf-8")
    try:
        for requirement in sys.argv[2].split():
            text = added(text, requirement)
    except ValueError as error:
        return f"{file}: {error}"
    file.write_text(text, encoding="utf-8")
    return None


if __name__ == "__main__":
    sys.exit(main())
