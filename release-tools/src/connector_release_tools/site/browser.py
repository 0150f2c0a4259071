# SPDX-License-Identifier: Apache-2.0
"""The site as a browser shows it: pictures of its pages, where a browser is installed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from connector_release_tools.errors import DocsError
from connector_release_tools.programs import output

__all__ = ["find", "photograph"]

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_WIDTHS: Final = {"wide": "1280,1600", "narrow": "400,1600"}
_PNG: Final = b"\x89PNG\r\n"


def find() -> str | None:
    """The Chromium of the PATH; None if there is none."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


def photograph(browser: str, site: Path, folder: Path, *, on_page: Callable[[str], None]) -> int:
    """Take a picture of every page in two widths. The browser reaches no network.

    Args:
        browser: The program.
        site: The folder of the site.
        folder: Takes the pictures, in a folder for each width that is recreated.
        on_page: Hears of every page before it is shown.

    Returns:
        The number of pictures.

    Raises:
        DocsError: There is no site, or the browser shows nothing of a page.
        ProgramError: The browser fails.
    """
    pages = sorted(site.rglob("*.html"))
    if not pages:
        raise DocsError(f"there is no site in {site}", hint="run `release-tools docs build`")
    for kind in _WIDTHS:
        shutil.rmtree(folder / kind, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="release-tools-") as profile:
        for page in pages:
            name = page.relative_to(site).with_suffix("").as_posix()
            on_page(name)
            for kind, size in _WIDTHS.items():
                picture = folder / kind / f"{name}.png"
                picture.parent.mkdir(parents=True, exist_ok=True)
                output(
                    (
                        browser,
                        "--headless",
                        "--no-sandbox",  # pages of our own, without a network
                        "--hide-scrollbars",
                        "--host-resolver-rules=MAP * ~NOTFOUND",
                        f"--user-data-dir={profile}",
                        f"--window-size={size}",
                        f"--screenshot={picture.resolve()}",
                        page.resolve().as_uri(),
                    ),
                    folder=site,
                )
                if not picture.exists() or not picture.read_bytes().startswith(_PNG):
                    raise DocsError(f"{browser} made no picture of {page}")
    return len(pages) * len(_WIDTHS)
