# SPDX-License-Identifier: Apache-2.0
"""Jars are fetched once, by PySpark's Ivy, from the repository that is named; and checked."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from connector_kafka.testing import BrokerError, jars

pytestmark = pytest.mark.line("3.5")  # no Spark in them
CONTENT = b"the content of a jar"


class Repository:
    """A repository on loopback.

    Args:
        folder: What it offers.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []

    def offer(self, name: str, content: bytes) -> None:
        folder = self.folder / "org" / "example" / name / "1.0"
        folder.mkdir(parents=True)
        (folder / f"{name}-1.0.jar").write_bytes(content)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """The repository that is asked, a list of two jars, and a cache that is empty."""
    lists = tmp_path / "pinned"
    lists.mkdir()
    digest = hashlib.sha256(CONTENT).hexdigest()
    lines = [f"org.example:{name}:1.0 sha256:{digest}\n" for name in ("one", "two")]
    (lists / "both-1.0.txt").write_text("".join(lines))
    found = Repository(tmp_path / "repository")
    found.folder.mkdir()

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, form: str, *arguments: object) -> None:
            found.asked.append(f"{self.command} {self.path}")

    handler = partial(Handler, directory=str(found.folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        monkeypatch.setenv(jars.REPOSITORY_VARIABLE, address)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.delenv(jars.FOLDER_VARIABLE, raising=False)
        monkeypatch.setattr(jars, "_PINNED", lists)
        yield found
        server.shutdown()


def test_those_who_need_them_at_the_same_time_fetch_them_once(repository: Repository) -> None:
    repository.offer("one", CONTENT)
    repository.offer("two", CONTENT)
    with ThreadPoolExecutor(2) as both:
        first, second = both.map(jars.class_path, ["both-1.0"] * 2)
    assert first == second
    paths = [Path(path) for path in first.split(":")]
    assert [path.read_bytes() for path in paths] == [CONTENT, CONTENT]
    names = ["one-1.0.jar", "two-1.0.jar"]
    asked = [Path(each).name for each in repository.asked if each.startswith("GET")]
    assert sorted(each for each in asked if each in names) == names
    assert sorted(path.name for path in paths[0].parent.iterdir()) == [".lock", *names]


def test_what_is_there_is_not_fetched_again(repository: Repository) -> None:
    repository.offer("two", CONTENT)
    folder = jars.cache_folder() / "jars"
    folder.mkdir(parents=True)
    (folder / "one-1.0.jar").write_bytes(CONTENT)
    jars.class_path("both-1.0")
    assert not any("one-1.0" in asked for asked in repository.asked)


def test_another_jar_than_the_pinned_one_is_refused(repository: Repository) -> None:
    repository.offer("one", CONTENT)
    repository.offer("two", b"something else")
    with pytest.raises(BrokerError, match=r"not the one that is pinned(.|\n)*two-1\.0\.jar"):
        jars.class_path("both-1.0")
    assert not list(jars.cache_folder().rglob("*.jar"))


def test_a_jar_that_is_not_offered_is_named(repository: Repository) -> None:
    repository.offer("one", CONTENT)
    with pytest.raises(BrokerError) as error:
        jars.class_path("both-1.0")
    assert "two" in str(error.value)
    assert jars.FOLDER_VARIABLE in str(error.value)
