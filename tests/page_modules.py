# SPDX-License-Identifier: Apache-2.0
"""The importable modules of a page."""

from __future__ import annotations

import atexit
import importlib
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

_DOCS = Path(__file__).parents[1] / "docs"
_FILE = re.compile(r"^`(\w+)\.py`:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def modules_of(page: str) -> dict[str, Any]:
    """Write the modules of a page to files, which separate driver processes can import."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    sys.path.insert(0, folder.name)
    files = dict(_FILE.findall((_DOCS / page).read_text(encoding="utf-8")))
    for name, code in files.items():
        Path(folder.name, f"{name}.py").write_text(code, encoding="utf-8")
    return {name: importlib.import_module(name) for name in files}
