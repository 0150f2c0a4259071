# SPDX-License-Identifier: Apache-2.0
"""Regenerates the option tables in the documents: `python -m tools.docs [--check]`.

A table stands between `<!-- options of package.module.NAME, by ... -->` and `<!-- end -->`; that
of all metrics begins with `<!-- metrics, by ... -->`.
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
    """The documents of the house, by their paths."""
    return sorted(
        path
        for folder in FOLDERS
        for pattern in ("*.md", "docs/**/*.md")
        for path in ROOT.glob(f"{folder}/{pattern}")
    )


def with_tables(text: str) -> str:
    """The text of a document with the tables as the options are declared now."""

    def table(match: re.Match[str]) -> str:
        begin, module, name, end = match.groups()
        declared = getattr(importlib.import_module(module), name)
        rows = getattr(declared, "OPTIONS", declared).markdown()
        return f"{begin}\n{rows}\n{end}"

    def metrics(match: re.Match[str]) -> str:
        return f"{match[1]}\n{exported_metrics.markdown()}\n{match[2]}"

    return METRICS.sub(metrics, TABLE.sub(table, text))


def main(check: bool) -> bool:
    """Write what has changed, or only say it; true if nothing has."""
    same = True
    for path in documents():
        text = path.read_text(encoding="utf-8")
        wanted = with_tables(text)
        if wanted != text:
            same = False
            print(f"{path.relative_to(ROOT)}: the tables of options are not those declared")
            if not check:
                path.write_text(wanted, encoding="utf-8")
    return same


if __name__ == "__main__":
    checking = "--check" in sys.argv[1:]
    sys.exit(not main(checking) and checking)
