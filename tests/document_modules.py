# SPDX-License-Identifier: Apache-2.0
"""The Python code of the documents as modules, so that type checkers can read it at once."""

from __future__ import annotations

import re
from pathlib import Path

from connector_release_tools.site.markdown import Block, parse

_NAMED = re.compile(r"^`((?:[\w-]+/)*\w+\.py)`:$")


# The module name of a document's unnamed blocks, for imports from other blocks.
_IMPORTED = {"connectors-core/README.md": "sqlite_connector.py"}


def write_modules(root: Path, documents: list[Path], folder: Path) -> dict[str, str]:
    """Write the blocks of documents as files, and keep the line numbers of the documents.

    A block after "`folder/name.py`:" becomes that file. The other blocks of a document become one
    module.

    Returns:
        The documents by the paths of their files.
    """
    written: dict[str, str] = {}
    for document in documents:
        text = document.read_text(encoding="utf-8")
        blocks = [each for each in parse(text).blocks if each.language == "python"]
        path = str(document.relative_to(root))
        own = _IMPORTED.get(path) or re.sub(r"\W", "_", path.removesuffix(".md")) + ".py"
        files: dict[str, list[Block]] = {}
        for block in blocks:
            files.setdefault(_name(text, block) or own, []).append(block)
        for name, parts in files.items():
            assert name not in written, f"{path} and {written[name]} have a {name}"
            lines = [""] * (text.count("\n") + 1)
            for part in parts:
                code = part.code.splitlines()
                lines[part.line : part.line + len(code)] = code
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
            written[name] = path
    return written


def _name(text: str, block: Block) -> str | None:
    before = text.splitlines()[max(0, block.line - 3) : block.line - 1]
    found = [match[1] for line in before if (match := _NAMED.match(line))]
    return found[-1] if found else None
