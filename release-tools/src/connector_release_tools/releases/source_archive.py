# SPDX-License-Identifier: Apache-2.0
"""The source archive of a release: the files of its folder in git, as reproducible bytes."""

from __future__ import annotations

import gzip
import io
import tarfile

from connector_release_tools.git import Repository, run

__all__ = ["archive_name", "source_archive"]


def archive_name(release: str) -> str:
    """Return the name of the source archive of a release, such as `connector-kafka-3.1.2`."""
    return f"{release}-src.tar.gz"


def source_archive(repository: Repository, release: str, tree: str, seconds: int) -> bytes:
    """Return the source archive of a release. The same tree and time give the same bytes.

    Args:
        repository: The repository.
        release: The release, which is also the name of the top folder.
        tree: The tree of the files.
        seconds: The time of the files, in seconds since 1970.
    """
    exported = run(
        "-c", "tar.umask=0022", "archive", "--format=tar", f"--prefix={release}/", tree,
        folder=repository.root,
    )  # fmt: skip
    written = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(exported)) as files,
        gzip.GzipFile(fileobj=written, mode="wb", filename="", mtime=seconds) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for member in files:
            member.mtime = seconds  # git gives a tree the time of the export
            archive.addfile(member, files.extractfile(member) if member.isreg() else None)
    return written.getvalue()
