# SPDX-License-Identifier: Apache-2.0
"""Tests that PySpark's Ivy downloads files once from the named repository and verifies them."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from connectors_core.testing.servers import Artifact, PinnedArtifacts, ServerError, cache_folder
from connectors_core.testing.servers.artifacts import REPOSITORY_VARIABLE

pytestmark = pytest.mark.line("3.5")  # without Spark
CONTENT = b"the content of a file"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
VARIABLE = "CONNECTORS_TEST_FILES"
BOTH = PinnedArtifacts(
    "both",
    (
        Artifact("org.example", "one", "1.0", DIGEST),
        Artifact("org.example", "two", "1.0", DIGEST, extension="zip"),
    ),
    VARIABLE,
)


class Repository:
    """A repository on loopback.

    Args:
        folder: The folder of the repository.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []

    def offer(self, name: str, content: bytes) -> None:
        module = name.partition("-")[0]
        folder = self.folder / "org" / "example" / module / "1.0"
        folder.mkdir(parents=True)
        (folder / name).write_bytes(content)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """A repository that counts requests, and an empty cache."""
    found = Repository(tmp_path / "repository")
    found.folder.mkdir()

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, form: str, *arguments: object) -> None:
            found.asked.append(f"{self.command} {self.path}")

    handler = partial(Handler, directory=str(found.folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        monkeypatch.setenv(REPOSITORY_VARIABLE, address)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.delenv(VARIABLE, raising=False)
        yield found
        server.shutdown()


def test_concurrent_callers_fetch_the_files_once(repository: Repository) -> None:
    repository.offer("one-1.0.jar", CONTENT)
    repository.offer("two-1.0.zip", CONTENT)
    with ThreadPoolExecutor(2) as both:
        paths, again = both.map(PinnedArtifacts.paths, [BOTH] * 2)
    assert paths == again
    assert [path.read_bytes() for path in paths] == [CONTENT, CONTENT]
    names = ["one-1.0.jar", "two-1.0.zip"]
    asked = [Path(each).name for each in repository.asked if each.startswith("GET")]
    assert sorted(each for each in asked if each in names) == names
    assert sorted(path.name for path in paths[0].parent.iterdir()) == [".lock", *names]


def test_an_existing_file_is_not_fetched_again(repository: Repository) -> None:
    repository.offer("two-1.0.zip", CONTENT)
    folder = cache_folder() / "jars"
    folder.mkdir(parents=True)
    (folder / "one-1.0.jar").write_bytes(CONTENT)
    BOTH.paths()
    assert not any("one-1.0" in asked for asked in repository.asked)


def test_a_file_other_than_the_pinned_one_is_refused(repository: Repository) -> None:
    repository.offer("one-1.0.jar", CONTENT)
    repository.offer("two-1.0.zip", b"something else")
    with pytest.raises(ServerError, match=r"does not match its pinned digest(.|\n)*two-1\.0\.zip"):
        BOTH.paths()
    assert not list(cache_folder().rglob("*-1.0.*"))


def test_a_file_that_the_repository_does_not_offer_is_named(repository: Repository) -> None:
    repository.offer("one-1.0.jar", CONTENT)
    with pytest.raises(ServerError) as error:
        BOTH.paths()
    assert "two" in str(error.value)
    assert VARIABLE in str(error.value)
