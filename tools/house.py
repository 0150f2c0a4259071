# SPDX-License-Identifier: Apache-2.0
"""Checks the rules of the repository that no linter knows: `python tools/house.py`."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SPDX = "SPDX-License-Identifier: Apache-2.0"
SOURCES = {".py", ".sh", ".java"}
FORBIDDEN = {
    "the address of a package registry": re.compile(
        r"\b(pypi|pythonhosted|crates|repo1?[.]maven|proxy[.]golang|registry[.]npmjs)"
        r"[.](org|io|com)\b|\b(extra-)?index-url\s*=\s*\S"
    ),
    "the path of a machine": re.compile(r"(?<![\w.$}])/(root|work|home/\w+|Users/\w+)/"),
}

# The limits of a module, by folder. Split larger modules, and larger classes. A module of tests may
# be longer: it is a list of cases with their data.
LINES_OF_A_MODULE = {"src": 700, "tests": 900}
LINES_OF_A_CLASS = 450


def files() -> list[Path]:
    """Return all files that are, or could be, committed."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def breaches(path: Path) -> list[str]:
    """Return the problems of one file, as `path:line: reason`."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return []
    name = path.relative_to(ROOT)
    found = [
        f"{name}:{number}: {what}"
        for number, line in enumerate(lines, 1)
        for what, pattern in FORBIDDEN.items()
        if pattern.search(line)
    ]
    source = path.suffix in SOURCES or (lines and lines[0].startswith("#!"))
    if source and not any(SPDX in line for line in lines[:3]):
        found.append(f"{name}:1: expected `{SPDX}` in the first three lines")
    limit = most_lines(name)
    if limit is not None:
        found += [f"{name}:{breach}" for breach in too_large(lines, limit)]
    return found


def most_lines(name: Path) -> int | None:
    """Return the limit of a module in the src or tests of a package; None for other files."""
    folder = next((part for part in name.parts[:2] if part in LINES_OF_A_MODULE), None)
    return LINES_OF_A_MODULE[folder] if folder and name.suffix == ".py" else None


def too_large(lines: list[str], limit: int) -> list[str]:
    """Return the classes and modules that are too large, as `line: reason`."""
    found = []
    if len(lines) > limit:
        found.append(f"1: a module of {len(lines)} lines, the most is {limit}")
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.ClassDef) and node.end_lineno is not None:
            size = node.end_lineno - node.lineno + 1
            if size > LINES_OF_A_CLASS:
                found.append(
                    f"{node.lineno}: class {node.name} of {size} lines, "
                    f"the most is {LINES_OF_A_CLASS}"
                )
    return found


if __name__ == "__main__":
    found = [breach for path in files() for breach in breaches(path)]
    print("\n".join(found) if found else "the house is in order")
    sys.exit(bool(found))
