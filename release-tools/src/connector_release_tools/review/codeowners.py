# SPDX-License-Identifier: Apache-2.0
"""Generates `.github/CODEOWNERS` from `MAINTAINERS.yaml`. GitHub asks these people for reviews."""

from __future__ import annotations

from typing import Final

from connector_release_tools.maintainers import EVERYTHING, MAINTAINERS, Maintainers

__all__ = ["codeowners"]

_HEAD: Final = (
    f"# Generated from {MAINTAINERS} by `release-tools review sync`. The last match counts.\n"
)


def codeowners(maintainers: Maintainers) -> str:
    """Return the text of the file: all maintainers whose term has no end."""
    folders = sorted(maintainers.folders, key=lambda folder: (folder != EVERYTHING, folder))
    lines = (
        " ".join([
            "*" if folder == EVERYTHING else f"/{folder}/",
            *(f"@{handle}" for handle in maintainers.current(folder)),
        ])
        for folder in folders
    )  # fmt: skip
    return _HEAD + "".join(f"{line}\n" for line in lines)
