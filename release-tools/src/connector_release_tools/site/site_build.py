# SPDX-License-Identifier: Apache-2.0
"""Builds one site from the documents with Sphinx, without network access and imports."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from connector_release_tools.errors import DocsError
from connector_release_tools.git import Repository
from connector_release_tools.matrix.file import MatrixFile
from connector_release_tools.programs import output
from connector_release_tools.site.pages import HOME, write

__all__ = ["build"]

_CONFIGURATION: Final = Path(__file__).parent / "sphinx"
_MARK: Final = ".buildinfo"  # Sphinx creates this file in its output


def build(repository: Repository, out: Path) -> int:
    """Rebuild the site; the old one stays until the new one is complete.

    Args:
        repository: The repository with the documents.
        out: The folder of the site.

    Returns:
        The number of pages.

    Raises:
        DocsError: The folder contains something other than a site, or a document is missing.
        HistoryError: A release that the matrix pins is not in this clone.
        ProgramError: Sphinx reported a problem; its output names the documents.
    """
    if out.exists() and any(out.iterdir()) and not (out / _MARK).exists():
        raise DocsError(
            f"{out} contains something other than a site", hint="choose another folder with --out"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".site-", dir=out.parent) as temporary:
        scratch = Path(temporary)
        sources, html = scratch / "sources", scratch / "html"
        matrix = MatrixFile.of(repository).matrix()
        write(repository, matrix, sources, scratch / "trees")
        output(
            (sys.executable, "-m", "sphinx", "-q", "-b", "html", "-c", _CONFIGURATION,
             "-d", scratch / "doctrees", "-n", "-W", "--keep-going", sources, html),
            folder=sources,
        )  # fmt: skip
        shutil.copyfile(html / f"{HOME}.html", html / "index.html")
        shutil.rmtree(out, ignore_errors=True)
        html.rename(out)
        return sum(1 for _ in sources.rglob("*.md"))
