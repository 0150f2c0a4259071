# SPDX-License-Identifier: Apache-2.0
"""Serves an index over HTTP to this machine only."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name

from connector_release_tools.index.directory import DirectoryIndex

__all__ = ["IndexServer", "serving"]

LOOPBACK: Final = "127.0.0.1"
# The content types of a page, with the file of each.
_JSON_TYPE: Final = "application/vnd.pypi.simple.v1+json"
_HTML_TYPE: Final = "application/vnd.pypi.simple.v1+html"
_PAGES: Final[Mapping[str, str]] = {
    "text/html": "index.html",
    _HTML_TYPE: "index.html",
    _JSON_TYPE: "index.json",
}


class IndexServer(ThreadingHTTPServer):
    """Serves an index on the loopback interface.

    Args:
        index: The index.
        port: The port; 0 selects a free one.
    """

    daemon_threads = True

    def __init__(self, index: DirectoryIndex, *, port: int = 0) -> None:
        self.index = index
        super().__init__((LOOPBACK, port), _Handler)

    @property
    def url(self) -> str:
        """The URL for installers."""
        return f"http://{LOOPBACK}:{self.server_port}/simple/"


@contextmanager
def serving(folder: Path, *, port: int = 0) -> Iterator[str]:
    """Serve the index in a folder while the block runs, and yield its URL."""
    with IndexServer(DirectoryIndex(folder), port=port) as server:
        thread = threading.Thread(target=server.serve_forever, name="index", daemon=True)
        thread.start()
        try:
            yield server.url
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    """Serves only files that the index lists; it never opens a path from a request."""

    protocol_version = "HTTP/1.1"
    server: IndexServer

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        first, *parts = path.removeprefix("/").split("/")
        if first != "simple" or len(parts) not in {1, 2}:
            self.send_error(HTTPStatus.NOT_FOUND)
        elif parts == [""]:
            self._page(self.server.index.simple)
        else:
            self._below_project(parts[0], parts[1] if len(parts) == 2 else None)

    do_HEAD = do_GET  # noqa: N815 (the base class names it)

    def _below_project(self, asked: str, name: str | None) -> None:
        project = canonicalize_name(asked)
        if project not in self.server.index.projects():
            self.send_error(HTTPStatus.NOT_FOUND)
        elif asked != project or name is None:
            self.send_response(HTTPStatus.MOVED_PERMANENTLY)
            self.send_header("Location", f"/simple/{project}/")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif not name:
            self._page(self.server.index.simple / project)
        else:
            self._file(self.server.index.simple / project, name)

    def _file(self, folder: Path, name: str) -> None:
        if name in _PAGES.values():
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            self._send(folder, name, "application/octet-stream")

    def _page(self, folder: Path) -> None:
        kind = _best(self.headers.get("Accept", "*/*"))
        if kind is None:
            self.send_error(HTTPStatus.NOT_ACCEPTABLE, f"choose one of {', '.join(_PAGES)}")
        else:
            self._send(folder, _PAGES[kind], kind)

    def _send(self, folder: Path, name: str, kind: str) -> None:
        files = {each.name: each for each in folder.iterdir()}
        path = files.get(name)
        if path is None or path.is_symlink() or not path.is_file():
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        content = path.read_bytes()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Vary", "Accept")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing, because installers report their own requests."""


def _best(accept: str) -> str | None:
    """Return the page type that a client prefers; None if none is acceptable."""
    wanted: dict[str, float] = {}
    for each in accept.split(","):
        kind, *parameters = (part.strip() for part in each.lower().split(";"))
        quality = next((it[2:] for it in parameters if it.startswith("q=")), "1")
        try:
            wanted[kind] = float(quality)
        except ValueError:
            continue
    rated = {}
    for kind in _PAGES:
        ranges = (kind, f"{kind.split('/')[0]}/*", "*/*")
        rated[kind] = next((wanted[each] for each in ranges if each in wanted), 0.0)
    best = max(rated, key=lambda kind: rated[kind])
    return best if rated[best] > 0 else None
