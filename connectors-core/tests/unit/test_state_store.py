# SPDX-License-Identifier: Apache-2.0
"""Tests that one writer wins, files are never overwritten, and partial writes do not count."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.spec import AbstractFileSystem

from connectors_core.engine.state import StateStore, decode_document, encode_document
from connectors_core.engine.state import store as store_module
from connectors_core.errors import (
    ConfigurationError,
    RetryableError,
    StateCorruptedError,
    StateLocationError,
    StateVersionError,
    UnsupportedError,
)
from connectors_core.secrets import Secret
from connectors_core.testing.servers import HttpAnswer, HttpRelay, HttpRequest, S3Server


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    """Start a strict object store."""
    with S3Server(buckets=["state"]) as server:
        yield server


@pytest.fixture(params=["local", "memory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StateStore]:
    if request.param == "local":
        yield StateStore(str(tmp_path / "state"))
    elif request.param == "s3":
        server = request.getfixturevalue("s3")
        yield StateStore(f"s3://state/{uuid.uuid4().hex}", server.storage_options())
    else:
        root = f"/state-{uuid.uuid4().hex}"
        yield StateStore(f"memory://{root}")
        StateStore("memory://").delete_tree(root.strip("/"))


def test_a_suitable_location_passes_and_no_file_remains(store: StateStore) -> None:
    store.create("kept", b"")
    store.verify()
    assert store.list(recursive=True) == ["kept"]


def test_the_first_writer_wins_and_no_one_overwrites(store: StateStore) -> None:
    assert store.create("plans/0000000001.json", b"first")
    assert not store.create("plans/0000000001.json", b"second")
    assert store.read("plans/0000000001.json") == b"first"


def test_exactly_one_of_many_concurrent_writers_wins(store: StateStore) -> None:
    writers = 16
    for number in range(10):
        together = threading.Barrier(writers)

        def write(
            content: int, number: int = number, together: threading.Barrier = together
        ) -> bool:
            together.wait()
            return store.create(f"reports/{number}", b"%d" % content)

        with ThreadPoolExecutor(writers) as pool:
            won = list(pool.map(write, range(writers)))
        assert won.count(True) == 1
        assert store.read(f"reports/{number}") == b"%d" % won.index(True)


def test_missing_files_are_reported_as_missing(store: StateStore) -> None:
    assert store.read_or_none("a/b") is None
    assert not store.exists("a/b")
    assert store.list("a") == []
    assert store.list("a", recursive=True) == []
    store.delete("a/b")
    store.delete_tree("a")
    with pytest.raises(FileNotFoundError):
        store.read("a/b")
    with pytest.raises(FileNotFoundError):
        store.open_input("a/b")


def test_listing_is_sorted_and_recursive_only_on_request(store: StateStore) -> None:
    for path in ("done/2/b", "done/10", "done/1", "done/2/a", "other"):
        store.create(path, b"")
    assert store.list("done") == ["1", "10"]
    assert store.list("done", recursive=True) == ["1", "10", "2/a", "2/b"]
    assert store.list() == ["other"]
    assert store.list("done/2") == ["a", "b"]


def test_files_and_folders_can_be_removed(store: StateStore) -> None:
    for path in ("a/1", "a/2/3", "b/1"):
        store.create(path, b"x")
    store.delete("b/1")
    store.delete_tree("a")
    assert store.list(recursive=True) == []
    assert store.create("a/1", b"again")


def test_replace_overwrites_an_existing_file(store: StateStore) -> None:
    store.replace("lease/alive", b"1")
    store.replace("lease/alive", b"2")
    assert store.read("lease/alive") == b"2"
    assert store.list("lease") == ["alive"]


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a\\b", "a\0"]
)
def test_a_path_that_leaves_the_location_is_refused(store: StateStore, path: str) -> None:
    for call in (store.read, store.exists, store.delete, store.delete_tree, store.open_input):
        with pytest.raises(ConfigurationError):
            call(path)
    with pytest.raises(ConfigurationError):
        store.create(path, b"")


def test_the_reserved_name_of_a_temporary_file_is_refused(store: StateStore) -> None:
    with pytest.raises(ConfigurationError):
        store.create("plans/.x.tmp", b"")


def test_a_store_can_be_pickled(store: StateStore) -> None:
    store.create("a", b"x")
    copy = pickle.loads(pickle.dumps(store))
    assert copy == store
    assert copy.read("a") == b"x"


def test_a_relative_location_does_not_depend_on_the_working_directory_of_executors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = StateStore("state")
    monkeypatch.chdir("/")
    store.create("a", b"x")
    assert (tmp_path / "state" / "a").read_bytes() == b"x"


def test_passwords_are_hidden_and_secrets_are_revealed_only_to_the_filesystem() -> None:
    store = StateStore("s3://key:hunter2@bucket/x", {"secret": Secret("hunter3")})
    assert "hunter" not in str(store) + repr(store)


def test_construction_has_no_side_effects(tmp_path: Path) -> None:
    StateStore(str(tmp_path / "x"))
    StateStore("no-such-protocol://x")
    assert list(tmp_path.iterdir()) == []


def _create_in_child(store: StateStore, results: Any) -> None:
    results.put(store.create("child", b"x"))


def test_a_used_store_works_after_a_fork(tmp_path: Path) -> None:
    store = StateStore(str(tmp_path))
    store.create("parent", b"x")
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    child = context.Process(target=_create_in_child, args=(store, results))
    child.start()
    child.join(30)
    assert results.get() is True
    assert store.list() == ["child", "parent"]


# --- Partially written files ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "write",
    [
        "store.create('plans/1', b'x')",
        "store.replace('plans/1', b'x')",
        "out = store.open_output('plans/1'); out.write(b'x'); out.close()",
    ],
)
def test_a_process_killed_while_writing_leaves_no_visible_file(tmp_path: Path, write: str) -> None:
    program = (
        "import os, signal\n"
        "from connectors_core.engine.state import StateStore\n"
        "os.fsync = lambda fd: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"store = StateStore({str(tmp_path)!r})\n"
        "os.mkdir(store.url + '/plans')\n"
        f"{write}\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    store = StateStore(str(tmp_path))
    assert len(os.listdir(tmp_path / "plans")) == 1  # the hidden temporary file
    assert store.list("plans") == []
    assert not store.exists("plans/1")
    assert store.create("plans/1", b"whole")


def test_a_failing_disk_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = StateStore(str(tmp_path))

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        store.create("a", b"x")
    assert os.listdir(tmp_path) == []


def test_a_hard_link_whose_response_was_lost_still_counts_as_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def link_twice(source: str, target: str) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", link_twice)
    assert StateStore(str(tmp_path)).create("a", b"x")


def test_an_output_appears_only_when_it_is_closed(store: StateStore) -> None:
    with store.open_output("spool/a") as output:
        output.write(b"one ")
        output.write(memoryview(b"two"))
        assert output.tell() == 7
        if "memory" not in store.url:
            assert store.list("spool") == []
    assert store.list("spool") == ["a"]
    with store.open_input("spool/a") as file:
        assert file.read() == b"one two"


def test_an_output_is_discarded_after_an_exception(store: StateStore) -> None:
    def fail() -> None:
        with store.open_output("spool/a") as output:
            output.write(b"one")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert store.list("spool") == []


def test_an_output_that_is_never_closed_is_discarded(tmp_path: Path) -> None:
    store = StateStore(str(tmp_path))
    output = store.open_output("spool/a")
    output.write(b"one")
    del output
    assert os.listdir(tmp_path / "spool") == []


# --- Object stores -------------------------------------------------------------------------------

Forward = Callable[[], HttpAnswer]


def is_exclusive(request: HttpRequest) -> bool:
    return request.method == "PUT" and request.headers.get("If-None-Match") == "*"


def error(status: int, code: str, more: str = "") -> HttpAnswer:
    text = f"<Error><Code>{code}</Code><Message>so it is</Message>{more}</Error>"
    return HttpAnswer(status, {"Content-Type": "application/xml"}, text.encode())


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(
            error(412, "PreconditionFailed", "<Condition>If-None-Match</Condition>"), id="Amazon"
        ),
        pytest.param(error(412, "PreconditionFailed"), id="MinIO"),
        pytest.param(HttpAnswer(412), id="no-body"),
    ],
)
def test_the_http_status_tells_that_an_object_exists(s3: S3Server, refusal: HttpAnswer) -> None:
    def answering(request: HttpRequest, forward: Forward) -> HttpAnswer:
        answer = forward()
        return refusal if answer.status == 412 and is_exclusive(request) else answer

    with HttpRelay(s3.port, answering) as relay:
        options = s3.storage_options(relay.endpoint)
        store = StateStore(f"s3://state/{uuid.uuid4().hex}", options)
        store.verify()
        assert store.create("a", b"first")
        assert not store.create("a", b"second")
        assert store.read("a") == b"first"


@pytest.mark.parametrize("taken", [False, True])
def test_a_conflict_with_another_request_is_retried(s3: S3Server, taken: bool) -> None:
    conflicts = 3
    asked = []

    def answering(request: HttpRequest, forward: Forward) -> HttpAnswer:
        if is_exclusive(request):
            asked.append(request.path)
            if len(asked) <= conflicts:
                return error(409, "ConditionalRequestConflict")
        return forward()

    folder = uuid.uuid4().hex
    if taken:
        assert StateStore(f"s3://state/{folder}", s3.storage_options()).create("a", b"other")
    with HttpRelay(s3.port, answering) as relay:
        store = StateStore(f"s3://state/{folder}", s3.storage_options(relay.endpoint))
        assert store.create("a", b"ours") is not taken
        assert store.read("a") == (b"other" if taken else b"ours")
    assert len(asked) == conflicts + 1


def test_endless_conflicts_raise_a_retryable_error(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon = replace(store_module._CONFLICTS, timeout=0.2)
    monkeypatch.setattr(store_module, "_CONFLICTS", soon)

    def answering(request: HttpRequest, forward: Forward) -> HttpAnswer:
        return error(409, "ConditionalRequestConflict") if is_exclusive(request) else forward()

    with HttpRelay(s3.port, answering) as relay:
        store = StateStore("s3://state/conflicts", s3.storage_options(relay.endpoint))
        with pytest.raises(RetryableError, match="conflict"):
            store.create("a", b"")


def test_invalid_credentials_are_not_mistaken_for_an_existing_file(s3: S3Server) -> None:
    options = {**s3.storage_options(), "secret": Secret("not-the-secret")}
    with pytest.raises(StateLocationError) as caught:
        StateStore("s3://state/denied", options).verify()
    assert "credentials" in (caught.value.hint or "")
    assert "not-the-secret" not in str(caught.value)


# --- Unsuitable storage --------------------------------------------------------------------------


class Overwriting(MemoryFileSystem):  # type: ignore[misc]
    """Ignores mode="create", as older clients of object stores do."""

    protocol = "overwriting"

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        super().pipe_file(path, value, mode="overwrite")


class InPlace(MemoryFileSystem):  # type: ignore[misc]
    """Creates files exclusively, but writes directly into the final file."""

    protocol = "inplace"
    pipe_file = AbstractFileSystem.pipe_file


class ReadOnly(MemoryFileSystem):  # type: ignore[misc]
    protocol = "readonly"

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        raise PermissionError("denied for https://me:hunter2@host/")  # pragma: allowlist secret


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Overwriting, "second create True"),
        (InPlace, "partially written"),
        (ReadOnly, "denied"),
    ],
)
def test_storage_without_exclusive_create_is_refused_with_a_reason_and_a_hint(
    kind: type[AbstractFileSystem], reason: str
) -> None:
    fsspec.register_implementation(kind.protocol, kind, clobber=True)
    with pytest.raises(StateLocationError) as caught:
        StateStore(f"{kind.protocol}://{uuid.uuid4().hex}").verify()
    assert reason in str(caught.value)
    assert caught.value.option == "state_location"
    assert caught.value.hint
    assert "hunter2" not in str(caught.value)


class Full(MemoryFileSystem):  # type: ignore[misc]
    protocol = "full"

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_system_error_without_a_file_name_gets_one() -> None:
    fsspec.register_implementation(Full.protocol, Full, clobber=True)
    store = StateStore("full://me:hunter2@disk/state")
    for write in (store.create, store.replace):
        with pytest.raises(OSError, match=r"on device: 'full://.*/state/a/b'") as raised:
            write("a/b", b"")
        assert "hunter2" not in str(raised.value)


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(StateLocationError):
        StateStore("no-such-protocol://x").verify()


def test_a_missing_filesystem_package_is_named_with_its_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(ConfigurationError, match="pip install"):
        StateStore("gs://bucket/x").verify()


def test_a_filesystem_without_hard_links_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(source: str, target: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(StateLocationError, match="hard links"):
        StateStore(str(tmp_path)).verify()


# --- Documents -----------------------------------------------------------------------------------

PAYLOAD = {"pipeline": "p", "number": 7, "ratio": 0.1, "entries": [{"b": None, "a": "ü"}]}


def test_a_document_is_read_back_equal() -> None:
    assert decode_document("plan", encode_document("plan", PAYLOAD)) == PAYLOAD


def test_equal_documents_produce_equal_bytes() -> None:
    reordered = dict(reversed(PAYLOAD.items()))
    assert encode_document("plan", reordered) == encode_document("plan", PAYLOAD)


def test_every_truncated_document_is_refused_and_named() -> None:
    data = encode_document("plan", PAYLOAD)
    for length in range(len(data)):
        with pytest.raises(StateCorruptedError, match="plans/7"):
            decode_document("plan", data[:length], path="plans/7")


@pytest.mark.parametrize(
    ("old", "new"),
    [(b'"number":7', b'"number":8'), (b'"kind":"plan"', b'"kind":"plot"'), (b'"b":null', b'"b":0')],
)
def test_an_altered_document_is_refused(old: bytes, new: bytes) -> None:
    data = encode_document("plan", PAYLOAD)
    assert old in data
    with pytest.raises(StateCorruptedError):
        decode_document("plan", data.replace(old, new))


@pytest.mark.parametrize("data", [b"[]", b"{}", b'{"format":"1"}', b'{"format":1,"kind":"plan"}'])
def test_data_that_is_not_a_document_is_refused(data: bytes) -> None:
    with pytest.raises(StateCorruptedError):
        decode_document("plan", data)


def test_a_newer_format_is_reported_before_any_other_problem() -> None:
    with pytest.raises(StateVersionError, match="newer"):
        decode_document("plan", b'{"format":2,"whatever":1}')


@pytest.mark.parametrize("value", [datetime.now(UTC), 2**70, object(), {1: 2}])
def test_only_plain_json_is_accepted_in_a_document(value: object) -> None:
    with pytest.raises(UnsupportedError, match="plan document"):
        encode_document("plan", {"value": value})
