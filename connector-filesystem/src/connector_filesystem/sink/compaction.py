# SPDX-License-Identifier: Apache-2.0
"""How a file sink merges its files: when, with what, or that it no longer does."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from connector_filesystem.filesystem import FileLocation, mapped_errors
from connector_filesystem.folders import make_folders, sync_folders
from connector_filesystem.sink.compact_strategy import FileCompactStrategy
from connector_filesystem.sink.compactors import FileCompactor, InputFile, MergedFile, Merging
from connector_filesystem.sink.part_file import (
    EncoderConfig,
    request_folder,
)
from connector_filesystem.sink.writer import FileCommittable
from connectors_core.errors import InvalidOptionError
from connectors_core.options import Configured, Options, Setting, option, part
from connectors_core.sink import CompactContext, Compactor

__all__ = ["FileCompaction", "FileMerger", "compaction_of"]

_SINCE: Final = "3.0.0"


class FileCompaction(Configured, since=_SINCE):
    """The compaction of a `FileSink`; see `FileSink.enable_compact`."""

    enabled: Setting[bool] = option(
        "auto-compaction",
        bool,
        default=True,
        doc="Whether small files are merged before they become visible. `false` commits the files "
        "that an earlier run held back. By default, there is no compaction.",
    )
    strategy: Setting[FileCompactStrategy] = part(
        FileCompactStrategy, default=FileCompactStrategy, doc="When to merge files."
    )
    compactor: Setting[FileCompactor | None] = part(
        FileCompactor,
        default=None,
        doc="Merges files. The default depends on the format.",
    )


def compaction_of(options: Options) -> FileCompaction | None:
    """Return the compaction of options, or None if they do not mention it.

    Raises:
        InvalidOptionError: There are options for a compaction that is not enabled.
    """
    declared = {each.key: each for each in FileCompaction.OPTIONS}
    enabled = declared.pop("auto-compaction")
    if options.is_given(enabled):
        return FileCompaction.from_parsed(options)
    given = [each.key for each in declared.values() if options.is_given(each)]
    if given:
        raise InvalidOptionError(
            "files are not merged, so the option would have no effect",
            expected="'auto-compaction' = 'true'",
            found="not set",
            option=given[0],
        )
    return None


@dataclass(frozen=True, kw_only=True)
class FileMerger(Compactor[FileCommittable]):
    """Merges staged files of a sink into new staged files. Executor.

    Args:
        location: The target.
        config: The format of the files. Its schema is not used.
        compactor: Merges files.
        suffix: The suffix of file names.
        buffer_size: Maximum number of bytes to buffer.
    """

    location: FileLocation
    config: EncoderConfig
    compactor: FileCompactor
    suffix: str
    buffer_size: int

    def compact(
        self, committables: Sequence[FileCommittable], context: CompactContext
    ) -> Sequence[FileCommittable]:
        """Merge the files of one folder. Files of a former format stay as they are."""
        if not all(each.final_path.endswith(self.suffix) for each in committables):
            return committables
        ids = context.pipeline_id, context.sink_uid, context.request_id
        attempt = f"{context.attempt_number}-{context.nonce}"
        folder = posixpath.join(request_folder(*ids), attempt)
        told = "\0".join((*ids, attempt)).encode("utf-8", "surrogatepass")
        with mapped_errors("merging files of", self.location.url):
            make_folders(self.location, folder)
            merged = self.compactor.merge(
                [
                    InputFile(path=each.staged_path, size=each.size, rows=each.rows)
                    for each in committables
                ],
                Merging(self.location, folder, config=self.config, buffer_size=self.buffer_size),
            )
            sync_folders(self.location, [folder])
        context.metric_group.inc("numFilesCompacted", len(committables))
        context.metric_group.inc("numBytesCompacted", sum(each.size for each in committables))
        return list(self._committables(committables, merged, hashlib.sha256(told).hexdigest()))

    def _committables(
        self, originals: Sequence[FileCommittable], merged: Sequence[MergedFile], name: str
    ) -> Iterator[FileCommittable]:
        """Yield the merged files, named after the first file in each."""
        following = iter(originals)
        for number, file in enumerate(merged):
            own = list(islice(following, file.inputs))
            stem = own[0].final_path.removesuffix(self.suffix)
            yield FileCommittable(
                staged_path=file.path,
                final_path=f"{stem}-compacted-{name[:12]}-{number}{self.suffix}",
                rows=sum(each.rows for each in own),
                size=file.size,
            )
