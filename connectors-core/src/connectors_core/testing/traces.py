# SPDX-License-Identifier: Apache-2.0
"""The leaked resources of a pipeline, and the places where a secret could be visible."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import os
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from connectors_core.clients.event_loop import event_loop
from connectors_core.testing.pace import Deadline

# The other side of a connection may need a moment to see that it was closed.
_GRACE_SECONDS: Final = 3.0


@contextlib.contextmanager
def nothing_left(folder: Path) -> Iterator[None]:
    """Check that everything that starts in this context ends in it, such as threads and open files.

    This includes sockets, temporary files, and coroutines on the event loop of the process. The
    loop itself may remain.

    Args:
        folder: The folder for temporary files within the context.

    Raises:
        AssertionError: Resources remain. The message names them.
    """
    folder.mkdir()
    before_folder, tempfile.tempdir = tempfile.tempdir, str(folder)
    loop = event_loop()
    coroutines = asyncio.all_tasks(loop)
    threads = _threads()
    opened = _handles()
    try:
        yield
    finally:
        tempfile.tempdir = before_folder
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
    assert not files, f"temporary files: {', '.join(files)}"
    _wait_until_gone(lambda: asyncio.all_tasks(loop) - coroutines, "coroutines that still run")
    _wait_until_gone(lambda: _threads() - threads, "threads that still run")
    gc.collect()  # closes unreachable objects
    _wait_until_gone(lambda: _handles() - opened, "files and sockets that are still open")


def _wait_until_gone(what: Callable[[], set[Any]], name: str) -> None:
    deadline = Deadline(_GRACE_SECONDS)
    while left := what():
        if deadline.passed:
            raise AssertionError(f"{name}: {', '.join(sorted(map(str, left)))}")
        time.sleep(0.02)


def _threads() -> set[Any]:
    return set(threading.enumerate())


def _handles() -> set[str]:
    found = set()
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):
            found.add(os.readlink(f"/dev/fd/{name}"))
    return {target for target in found if not target.startswith(("/proc/", "/dev/", "anon_inode"))}


def assert_unseen(secrets: Sequence[str], texts: Iterable[str], folder: Path) -> None:
    """Check that no secret appears in a text or in a file.

    Args:
        secrets: The secrets.
        texts: All visible texts.
        folder: The folder whose files are searched, recursively.

    Raises:
        AssertionError: A secret appears, or there is none to search for. The message gives the
            place but not the secret.
    """
    assert secrets, "the context names no secret"
    forms = [form for secret in secrets for form in _forms(secret)]
    for text in texts:
        for start in map(text.find, forms):
            assert start < 0, f"a secret can be seen after {text[max(0, start - 80) : start]!r}"
    for path in filter(Path.is_file, folder.rglob("*")):
        data = path.read_bytes()
        assert not any(form.encode() in data for form in forms), f"a secret is visible in {path}"


def _forms(secret: str) -> Iterator[str]:
    """Return the secret itself, and all its forms inside a longer base64 text."""
    yield secret
    for shift, first in ((0, 0), (1, 2), (2, 3)):
        data = b"\0" * shift + secret.encode()
        yield base64.b64encode(data).decode()[first : len(data) * 8 // 6]


def error_texts(error: BaseException) -> list[str]:
    """Return the whole text of an error, with notes, attributes, and all causes, shown or not."""
    texts = ["".join(traceback.format_exception(error))]
    for each in chain_of(error):
        texts += [repr(each), str(each), repr(each.args), repr(vars(each))]
    return texts


def chain_of(error: BaseException | None) -> list[BaseException]:
    """Return an error and all its causes."""
    found: list[BaseException] = []
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and each not in found:
            found.append(each)
            waiting += [each.__cause__, each.__context__]
    return found
