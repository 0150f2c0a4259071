# SPDX-License-Identifier: Apache-2.0
"""Backs up a pipeline's state, verifies the copy, and restores it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import IO, Any, Final, cast

from connectors_core.engine.coordinator.completeness import verify_complete, verify_same_moment
from connectors_core.engine.coordinator.identity import PipelineIdentity, read_identity
from connectors_core.engine.coordinator.plan_log import (
    complete_reports,
    newest_decision,
    newest_number,
    newest_plan,
    plans_since_snapshot,
)
from connectors_core.engine.protocol import DECISIONS, DECISIONS_FOLDER, Decision, decision_path
from connectors_core.engine.recovery.copies import (
    MANIFEST,
    MANIFESTS,
    CopiedFile,
    CopyReader,
    Manifest,
    copy_checked,
    copy_file,
    extracted,
    new_copy,
    open_copy,
    read_manifest,
    refuse_existing,
)
from connectors_core.engine.recovery.locations import Locations
from connectors_core.engine.recovery.selection import (
    QueryCut,
    cut_of,
    files_of_pipeline,
    files_of_query,
)
from connectors_core.engine.state import Lease, LeaseOwner, StateStore, encode_document
from connectors_core.errors import FatalError, LeaseError, StateCorruptedError

Progress = Callable[[int, int], None]
"""Called with the number of copied files and the number of all files."""

LEASE_FOLDER: Final = "lease"
_CHECKED_FOLDERS: Final = frozenset(
    {"plans", "reports", "decisions", "done", "rewrites", "pipeline"}
)
# A restored pipeline numbers its epochs from a new range. The original pipeline may have continued
# after the backup, and a sink ignores an epoch that it already has.
_FIRST_DAY: Final = datetime(2025, 1, 1, tzinfo=UTC).timestamp()
_EPOCHS_PER_SECOND: Final = 10


@dataclass(frozen=True, kw_only=True)
class BackupPlan:
    """The files that a backup would copy now.

    Attributes:
        identity: The pipeline.
        running: Whether a driver is running.
        cuts: The end of the copy for each query.
        files: Relative paths, newest first.
    """

    identity: PipelineIdentity
    running: bool
    cuts: tuple[QueryCut, ...]
    files: tuple[str, ...]


@contextmanager
def held(locations: Locations) -> Iterator[bool]:
    """Keep drivers out for the context; yields False if a driver may be running.

    A driver that is paused, or that another machine runs, is never fenced: the copy is then cut as
    that of a running pipeline.
    """
    locations.whole_identity()
    try:
        lease = Lease.acquire(locations.state, fence=False)
    except LeaseError:
        yield False
        return
    with lease:
        yield True


def plan_backup(locations: Locations, *, running: bool) -> BackupPlan:
    """Determine the files that a backup would copy. Read-only.

    Args:
        locations: The locations of the pipeline.
        running: Whether a driver writes during the backup.
    """
    identity = locations.identity()
    cuts = tuple(cut_of(locations, identity, query, running=running) for query in identity.queries)
    files = [
        path
        for query, cut in zip(identity.queries, cuts, strict=True)
        for path in files_of_query(locations, query, cut)
    ]
    files += files_of_pipeline(locations, whole=not running)
    return BackupPlan(identity=identity, running=running, cuts=cuts, files=tuple(files))


def back_up(
    locations: Locations,
    plan: BackupPlan,
    url: str,
    storage_options: Mapping[str, Any],
    *,
    progress: Progress = lambda _done, _all: None,
) -> Manifest:
    """Copy the state of a pipeline and verify the copy.

    Args:
        locations: The locations of the pipeline.
        plan: The files to copy.
        url: A new or empty folder, or a new archive whose name ends with `.zip`.
        storage_options: Arguments of its fsspec file system.
        progress: Called after each file.

    Raises:
        ConfigurationError: The target already exists.
        FatalError: During the backup, the pipeline removed files that the copy needs.
        StateCorruptedError: The state is incomplete, and so is the copy.
    """
    copied: list[CopiedFile] = []
    with ExitStack() as stack:
        writer = new_copy(url, storage_options)
        stack.callback(writer.close)
        for number, path in enumerate(plan.files, 1):
            try:
                source = locations.of(path).open_input(path)
            except FileNotFoundError:
                continue  # the pipeline has removed an old file
            with source, writer.open(path) as target:
                copied.append(copy_file(source, target, path))
            progress(number, len(plan.files))
        _refuse_outrun(locations, plan)
        manifest = Manifest(
            pipeline_id=plan.identity.pipeline_id,
            name=plan.identity.name,
            taken_at=time.time(),
            running=plan.running,
            incarnation=_newest_incarnation(locations.state),
            cuts=plan.cuts,
            files=tuple(copied),
        )
        with writer.open(MANIFEST) as target:
            target.write(MANIFESTS.encode(manifest))
    verify_copy(url, storage_options)
    return manifest


def _refuse_outrun(locations: Locations, plan: BackupPlan) -> None:
    """Check that Spark still has the micro-batch; it keeps its state as long as its offsets."""
    if not plan.running:
        return
    for query, cut in zip(plan.identity.queries, plan.cuts, strict=True):
        if cut.batch >= 0 and cut.batch not in locations.spark(query).logged():
            raise FatalError(
                f"{query.folder} removed micro-batch {cut.batch} while the backup was running",
                hint="retry, raise spark.sql.streaming.minBatchesToRetain, or stop the pipeline "
                "first",
            )


def verify_copy(url: str, storage_options: Mapping[str, Any]) -> Manifest:
    """Check that a copy is complete and that a pipeline can start from it.

    Raises:
        ConfigurationError: There is no complete copy.
        StateCorruptedError: A file was altered, or the copied state is incomplete.
    """
    copy = open_copy(url, storage_options)
    try:
        manifest = read_manifest(copy, url)
        documents = [file for file in manifest.files if _is_checked(file.path)]
        with extracted(copy, documents) as store:
            _verify_state(store, manifest)
        for file in set(manifest.files) - set(documents):
            copy_checked(copy, file, cast("IO[bytes]", _Nowhere()))
    finally:
        copy.close()
    return manifest


class _Nowhere:
    def write(self, data: bytes) -> int:
        return len(data)


def _is_checked(path: str) -> bool:
    parts = path.split("/")
    spark = len(parts) > 2 and parts[2] in ("offsets", "commits", "metadata")
    return parts[0] in _CHECKED_FOLDERS or parts[1] in _CHECKED_FOLDERS or spark


def _verify_state(root: StateStore, manifest: Manifest) -> None:
    identity = read_identity(root)
    if identity is None or identity.pipeline_id != manifest.pipeline_id:
        raise StateCorruptedError("the copy does not say which pipeline it belongs to")
    for query in identity.queries:
        store = root.child(query.folder)
        verify_complete(store, pipeline_id=identity.pipeline_id)
        if not identity.streaming:
            continue
        log = Locations(root, root).spark(query)
        logged = max(log.logged(), default=-1)
        verify_same_moment(
            store,
            spark_query_id=query.spark_query_id,
            logged_batch=logged,
            logged_plan=log.plan_after(logged),
        )
        Locations(root, root).verify_decided(query)
        for plan in plans_since_snapshot(store, newest_plan(store))[:-1]:
            if complete_reports(store, plan) is None:
                raise StateCorruptedError(
                    f"{query.folder} of the copy has no report of plan {plan.number}",
                )


# --- restoring ------------------------------------------------------------------------------------


def restore(
    url: str,
    storage_options: Mapping[str, Any],
    locations: Locations,
    *,
    progress: Progress = lambda _done, _all: None,
) -> Manifest:
    """Restore the state of a pipeline from a copy into empty locations.

    Args:
        url: The copy.
        storage_options: Arguments of its fsspec file system.
        locations: The target locations; both must be empty.
        progress: Called after each file.

    Raises:
        ConfigurationError: There is no complete copy, or a location is not empty.
        StateCorruptedError: A file of the copy was altered.
    """
    for store in dict.fromkeys((locations.state, locations.checkpoint)):
        store.verify()
        refuse_existing(store)
    copy = open_copy(url, storage_options)
    try:
        manifest = read_manifest(copy, url)
        _write(copy, manifest, locations, progress)
    finally:
        copy.close()
    identity = locations.identity()
    for query in identity.queries:
        store = locations.state.child(query.folder)
        _skip_epochs(store, identity.pipeline_id, manifest.incarnation)
        verify_complete(store, pipeline_id=identity.pipeline_id)
    return manifest


def _write(copy: CopyReader, manifest: Manifest, locations: Locations, progress: Progress) -> None:
    # The identity comes last: without it, an interrupted restore cannot be started.
    files = sorted(manifest.files, key=lambda file: file.path.startswith("pipeline/"))
    _claim(locations.state, manifest)
    for number, file in enumerate(files, 1):
        with locations.of(file.path).open_output(file.path) as target:
            copy_checked(copy, file, cast("IO[bytes]", target))
        progress(number, len(files))


def _newest_incarnation(store: StateStore) -> int:
    stems = (name.partition(".")[0] for name in store.list(LEASE_FOLDER))
    return max((int(stem) for stem in stems if stem.isdigit()), default=0)


def _claim(store: StateStore, manifest: Manifest) -> None:
    """Leave a released lease, so that no later driver reuses the number of an earlier one."""
    incarnation = max(manifest.incarnation + 1, _number_of_this_moment())
    claim = {
        "claimed_at": time.time(),
        "incarnation": incarnation,
        "nonce": secrets.token_hex(8),
        "owner": asdict(LeaseOwner.current("connectors state restore")),
    }
    path = f"{LEASE_FOLDER}/{incarnation:010d}"
    store.create(f"{path}.json", encode_document("lease", claim))
    store.create(
        f"{path}.released", encode_document("lease-released", {"released_at": time.time()})
    )


def _skip_epochs(store: StateStore, pipeline_id: str, incarnation: int) -> None:
    """Fence off the epochs that the pipeline may have decided after the backup."""
    newest = newest_number(store, DECISIONS_FOLDER)
    fence = Decision(
        pipeline_id=pipeline_id,
        epoch=max(newest + 1, _number_of_this_moment()),
        incarnation=incarnation,
        spark_query_id="",
        batch_id=-1,
        plan=-1,
        sinks={},
        previous=newest_decision(store),
    )
    DECISIONS.create(store, decision_path(fence.epoch), fence)


def _number_of_this_moment() -> int:
    """Return a number that grows with time and exceeds any counter."""
    return int((time.time() - _FIRST_DAY) * _EPOCHS_PER_SECOND)
