# SPDX-License-Identifier: Apache-2.0
"""Takes screenshots of the site's pages with an installed browser."""

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
_SCHEMES: Final = {"": "1", "-dark": "0"}  # Blink's PreferredColorScheme
_VIEWS: Final = {
    f"{width}{scheme}": (f"--window-size={size}", f"--blink-settings=preferredColorScheme={blink}")
    for width, size in _WIDTHS.items()
    for scheme, blink in _SCHEMES.items()
}
_SUFFIX: Final = ".png"
_PNG: Final = b"\x89PNG\r\n"


def find() -> str | None:
    """Return the Chromium on the PATH; None if there is none."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


def photograph(browser: str, site: Path, folder: Path, *, on_page: Callable[[str], None]) -> int:
    """Take screenshots of every page: wide and narrow, light and dark, without a network.

    Args:
        browser: The program.
        site: The folder of the site.
        folder: The folder of the screenshots. Those of an earlier run are removed.
        on_page: Called with every page before its screenshots.

    Returns:
        The number of screenshots.

    Raises:
        DocsError: The site does not exist, the folder has other contents than screenshots, or the
            browser creates no screenshot of a page.
        ProgramError: The browser fails.
    """
    pages = sorted(site.rglob("*.html"))
    if not pages:
        raise DocsError(f"{site} does not contain a site", hint="run `release-tools docs build`")
    _remove_screenshots(folder)
    with tempfile.TemporaryDirectory(prefix="release-tools-") as profile:
        for page in pages:
            name = page.relative_to(site).with_suffix("").as_posix()
            on_page(name)
            for kind, options in _VIEWS.items():
                picture = folder / kind / f"{name}{_SUFFIX}"
                picture.parent.mkdir(parents=True, exist_ok=True)
                output(
                    (
                        browser,
                        "--headless",
                        "--no-sandbox",  # only our own pages, without a network
                        "--hide-scrollbars",
                        "--host-resolver-rules=MAP * ~NOTFOUND",
                        f"--user-data-dir={profile}",
                        *options,
                        f"--screenshot={picture.resolve()}",
                        page.resolve().as_uri(),
                    ),
                    folder=site,
                )
                if not picture.exists() or not picture.read_bytes().startswith(_PNG):
                    raise DocsError(f"{browser} created no screenshot of {page}")
    return len(pages) * len(_VIEWS)


def _remove_screenshots(folder: Path) -> None:
    """Remove the screenshots of an earlier run, which have a folder of their own."""
    for path in sorted(folder.rglob("*")) if folder.exists() else ():
        view = path.relative_to(folder).parts[0]
        is_known = path.is_dir() or path.suffix == _SUFFIX
        if view not in _VIEWS or path.is_symlink() or not is_known:
            raise DocsError(
                f"{folder} has other contents than screenshots, such as {path}",
                hint="choose a new folder with --out",
            )
    shutil.rmtree(folder, ignore_errors=True)
