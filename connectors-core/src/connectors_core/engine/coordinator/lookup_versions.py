# SPDX-License-Identifier: Apache-2.0
"""Versions of fully cached tables: their reloads, and the version of each batch. Driver."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from typing import Final

from connectors_core.engine.coordinator.document_numbers import document_numbers
from connectors_core.engine.execution.lookup_snapshots import WrittenSnapshot
from connectors_core.engine.protocol import (
    LOOKUP_PINS,
    LOOKUP_PINS_FOLDER,
    LOOKUP_VERSIONS,
    LookupPins,
    LookupVersion,
    lookup_pins_path,
    lookup_version_path,
)
from connectors_core.engine.state import StateStore
from connectors_core.errors import StateCorruptedError
from connectors_core.lookup.reload import CacheReloadTrigger
from connectors_core.metrics import LookupMetric, MetricGroup
from connectors_core.secrets import mask_text

_logger: Final = logging.getLogger(__name__)
_KEPT: Final = 2
_PINS: Final = re.compile(r"[\w-]+\.json")
# Time in which a canceled load must end.
_GIVE_UP_SECONDS: Final = 10.0
_GIVE_UP_AGAIN_SECONDS: Final = 0.2


@dataclass(eq=False, repr=False)
class FullCache:
    """The versions of one fully cached table and their reloads.

    Args:
        uid: The lookup.
        pipeline_id: The pipeline.
        store: The folder of the table in the state location.
        confirm: Raises a `LeaseError` if a later driver has taken over.
        load: Loads the table into a file in that folder.
        give_up: Cancels a running load; called repeatedly until the load ends.
        trigger: Triggers reloads.
    """

    uid: str
    _: KW_ONLY
    pipeline_id: str
    store: StateStore
    confirm: Callable[[], None]
    load: Callable[[], WrittenSnapshot]
    give_up: Callable[[], None]
    trigger: CacheReloadTrigger | None

    def __post_init__(self) -> None:
        self.metrics = MetricGroup()
        self._triggered = False
        self._lock = threading.Lock()
        self._loading: ThreadPoolExecutor | None = None
        self._waiting: Future[None] | None = None
        self._idle = threading.Event()
        self._idle.set()
        self._closed = False
        self._versions: dict[int, LookupVersion] = {}
        self._seen: dict[str, list[int]] = {}
        self._error: BaseException | None = None

    def start(self, pinned: Iterable[tuple[str, int]] = ()) -> None:
        """Load the table and start its trigger.

        If the load fails but an earlier start has loaded the table, the pipeline logs a warning and
        continues with that version.

        Args:
            pinned: Queries and the versions that their batches used and may need again.

        Raises:
            ConnectorError: The table was never loaded and cannot be loaded.
        """
        for number in document_numbers(self.store, "versions"):
            version = LOOKUP_VERSIONS.read(self.store, lookup_version_path(number))
            if version is not None:
                self._versions[version.number] = version
        for query, number in pinned:
            self._note_seen(number, query)
        self._loading = ThreadPoolExecutor(1, thread_name_prefix=f"lookup-{self.uid}")
        try:
            self._loading.submit(self._read).result()
        except Exception as error:
            if not self._versions:
                self.close()
                raise
            self._keep_old(error)
        if self.trigger is not None:
            self.trigger.open(self)
            self._triggered = True

    def close(self) -> None:
        """Stop the trigger and cancel a running reload.

        A reload that does not respond in time ends later and does not become a version.
        """
        if self.trigger is not None and self._triggered:
            self._triggered = False
            self.trigger.close()
        with self._lock:
            self._closed = True
            loading, self._loading = self._loading, None
        if loading is None:
            return
        loading.shutdown(wait=False, cancel_futures=True)
        deadline = time.monotonic() + _GIVE_UP_SECONDS
        while not self._idle.is_set() and time.monotonic() < deadline:
            self.give_up()  # repeat, since the load may have been between two cancelable steps
            self._idle.wait(_GIVE_UP_AGAIN_SECONDS)
        if self._idle.is_set():
            loading.shutdown()
        else:
            _logger.warning("a canceled reload of lookup %r is still running", self.uid)

    # --- For the trigger ------------------------------------------------------------------------

    def current_processing_time(self) -> datetime:
        """Return the current time."""
        return datetime.now(UTC)

    def trigger_reload(self) -> Future[None]:
        """Reload the table; merges with a reload that is already waiting."""
        with self._lock:
            if self._waiting is None and self._loading is not None:
                self._waiting = self._loading.submit(self._reload)
            if self._waiting is not None:
                return self._waiting
        ended: Future[None] = Future()
        ended.cancel()
        return ended

    # --- For the queries ------------------------------------------------------------------------

    @property
    def newest(self) -> LookupVersion | None:
        """The version that a new batch uses; None before the first."""
        with self._lock:
            return self._versions[max(self._versions)] if self._versions else None

    @property
    def error(self) -> BaseException | None:
        """The error of the last reload; None if it succeeded."""
        return self._error

    def see(self, number: int, query: str) -> LookupVersion:
        """Return the version that a batch has pinned; keep it until its query has used two others.

        Args:
            number: Number of the version.
            query: The query of the batch.

        Raises:
            StateCorruptedError: The version is missing.
        """
        with self._lock:
            version = self._versions.get(number)
            if version is None:
                raise StateCorruptedError(
                    f"version {number} of lookup {self.uid!r} is missing, and a batch that runs "
                    "again needs it",
                    found=f"versions {', '.join(map(str, sorted(self._versions)))}",
                )
            self._note_seen(number, query)
            return version

    def _note_seen(self, number: int, query: str) -> None:
        seen = self._seen.setdefault(query, [])
        if number not in seen:
            self._seen[query] = [*seen[1 - _KEPT :], number]

    # --- Loading --------------------------------------------------------------------------------

    def _reload(self) -> None:
        with self._lock:
            self._waiting = None
        try:
            self._read()
        except Exception as error:
            if not self._closed:
                self._keep_old(error)
            raise

    def _keep_old(self, error: Exception) -> None:
        self._error = error
        _logger.warning(
            "lookup %r could not be reloaded and keeps version %d: %s",
            self.uid,
            max(self._versions),
            mask_text(str(error)),
        )

    def _read(self) -> None:
        with self._lock:
            if self._closed:
                raise CancelledError
            self._idle.clear()
        try:
            self._read_version()
        finally:
            self._idle.set()

    def _read_version(self) -> None:
        began = time.monotonic()
        try:
            written = self.load()
        except Exception:
            if not self._closed:
                self.metrics.inc(LookupMetric.NUM_LOAD_FAILURE)
            raise
        milliseconds = (time.monotonic() - began) * 1e3
        with self._lock:
            if self._closed:  # another driver may own the folder by now
                self.store.delete(written.file)
                raise CancelledError
            version = self._record(written)
            self._error = None
            self._purge()
        self.metrics.inc(LookupMetric.LOAD_COUNT)
        self.metrics.inc(LookupMetric.LOAD_TIME, round(milliseconds))
        self.metrics.set(LookupMetric.LATEST_LOAD_TIME, milliseconds)
        self.metrics.set(LookupMetric.NUM_CACHED_RECORD, version.rows)
        self.metrics.set(LookupMetric.NUM_CACHED_BYTES, version.bytes)

    def _record(self, written: WrittenSnapshot) -> LookupVersion:
        """Record the loaded file as the next version.

        Raises:
            LeaseError: A later driver has taken over.
        """
        read_at = time.time_ns() // 1_000
        while True:
            number = max(self._versions, default=0) + 1
            version = LookupVersion(
                pipeline_id=self.pipeline_id,
                number=number,
                file=written.file,
                rows=written.rows,
                bytes=written.bytes,
                read_at=read_at,
            )
            path = lookup_version_path(number)
            created = LOOKUP_VERSIONS.create(self.store, path, version)
            found = version if created else LOOKUP_VERSIONS.read(self.store, path)
            if found is not None:
                self._versions[number] = found
            # After a repeated request, an object store may report our own file as existing.
            if found == version:
                return version
            self.confirm()  # else it belongs to an earlier driver, and is equally valid

    def _purge(self) -> None:
        """Remove versions that no batch can need, and files that did not become a version."""
        names = self.store.list()
        self.confirm()  # so none of these belongs to a later driver
        kept = {*sorted(self._versions)[-_KEPT:]}.union(*self._seen.values())
        for number in sorted(self._versions.keys() - kept):
            self.store.delete(lookup_version_path(number))
            del self._versions[number]
        files = {version.file for version in self._versions.values()}
        for name in names:
            if name.endswith(".arrow") and name not in files:
                self.store.delete(name)


@dataclass(eq=False, repr=False)
class LookupPinning:
    """Pins the table versions of each batch of a query, so that a replay uses the same ones.

    Args:
        caches: The fully cached tables of the query.
        store: The state location of the query.
        pipeline_id: The pipeline.
        query: The query.
    """

    caches: Sequence[FullCache]
    _: KW_ONLY
    store: StateStore
    pipeline_id: str
    query: str

    def pinned_last(self) -> Iterator[tuple[str, str, int]]:
        """Yield lookup, query, and version of the last batches. Call it before the first `pin`."""
        if self.caches:
            for name in self._pins()[-_KEPT:]:
                pins = LOOKUP_PINS.read(self.store, f"{LOOKUP_PINS_FOLDER}/{name}")
                for uid, number in (pins.versions if pins is not None else {}).items():
                    yield uid, self.query, number

    def pin(self, batch: str) -> Mapping[str, LookupVersion]:
        """Return the versions of a batch, by lookup; call it before its rows are joined.

        Args:
            batch: Its name, the same when it runs again. Names sort in the order of batches.
        """
        if not self.caches:
            return {}
        path = lookup_pins_path(batch)
        newest = {
            cache.uid: version.number
            for cache in self.caches
            if (version := cache.newest) is not None
        }
        pins = LookupPins(pipeline_id=self.pipeline_id, versions=newest)
        if not LOOKUP_PINS.create(self.store, path, pins):
            pins = LOOKUP_PINS.read(self.store, path) or pins
        # A lookup that was added later has no pin.
        return {
            cache.uid: cache.see(pins.versions.get(cache.uid, newest[cache.uid]), self.query)
            for cache in self.caches
        }

    def purge(self, before: str | None = None) -> None:
        """Remove the pins of batches that cannot run again.

        Args:
            before: Name of the first batch that may run again; None if none can.
        """
        if self.caches:
            for name in self._pins():
                if before is None or name < before:
                    self.store.delete(f"{LOOKUP_PINS_FOLDER}/{name}")

    def _pins(self) -> list[str]:
        names = self.store.list(LOOKUP_PINS_FOLDER)
        return [name for name in names if _PINS.fullmatch(name)]
