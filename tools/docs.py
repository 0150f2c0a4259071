# SPDX-License-Identifier: Apache-2.0
"""Regenerates the option tables in the documents: `python -m tools.docs [--check]`.

An option table is between `<!-- options of package.module.NAME, by ... -->` and `<!-- end -->`. The
table of all metrics starts with `<!-- metrics, by ... -->`.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

from connectors_core.spark import exported_metrics

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (".", "connectors-core", "connector-*", "release-tools", "examples")
TABLE = re.compile(r"(<!-- options of (\S+)\.(\w+)\b.*? -->\n).*?(<!-- end -->)", re.DOTALL)
METRICS = re.compile(r"(<!-- metrics\b.*? -->\n).*?(<!-- end -->)", re.DOTALL)


def documents() -> list[Path]:
    """Return the documents of the repository by their paths."""
    return sorted(
        path
        for folder in FOLDERS
        for pattern in ("*.md", "docs/**/*.md")
        for path in ROOT.glob(f"{folder}/{pattern}")
    )


def with_tables(text: str) -> str:
    """Return the text of a document with tables of the currently declared options."""

    def table(match: re.Match[str]) -> str:
        begin, module, name, end = match.groups()
        declared = getattr(importlib.import_module(module), name)
        rows = getattr(declared, "OPTIONS", declared).markdown()
        return f"{begin}\n{rows}\n{end}"

    def metrics(match: re.Match[str]) -> str:
        return f"{match[1]}\n{exported_metrics.markdown()}\n{match[2]}"

    return METRICS.sub(metrics, TABLE.sub(table, text))


def main(check: bool) -> bool:
    """Write or only report the changes. Return true if there are none."""
    same = True
    for path in documents():
        text = path.read_text(encoding="utf-8")
        wanted = with_tables(text)
        if wanted != text:
            same = False
            if check:
                print(f"{path.relative_to(ROOT)}: the option tables do not match the code")
            else:
                path.write_text(wanted, encoding="utf-8")
                print(f"{path.relative_to(ROOT)}: wrote the option tables")
    return same


if __name__ == "__main__":
    checking = "--check" in sys.argv[1:]
    sys.exit(not main(checking) and checking)
