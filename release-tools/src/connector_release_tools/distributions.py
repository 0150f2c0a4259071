# SPDX-License-Identifier: Apache-2.0
"""Wheels and source distributions, with their metadata and members."""

from __future__ import annotations

import hashlib
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from packaging.metadata import Metadata, parse_email
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)

from connector_release_tools.errors import DistributionError

__all__ = ["Distribution", "sha256"]


def sha256(content: bytes) -> str:
    """Return the SHA-256 of bytes, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class Distribution:
    """A wheel or a source distribution.

    Attributes:
        path: The file.
        project: The normalized name of its project.
        version: Its version, as spelled in the file name.
        kind: Wheel or source distribution.
    """

    path: Path
    project: str
    version: str
    kind: Literal["wheel", "sdist"]

    @classmethod
    def of(cls, path: Path) -> Distribution:
        """Return the distribution in a file, based on the file name.

        Raises:
            DistributionError: The file does not exist, or its name is not a distribution's.
        """
        if not path.is_file():
            raise DistributionError(f"the file {path} does not exist")
        try:
            if path.suffix == ".whl":
                project, version, *_ = parse_wheel_filename(path.name)
                return cls(path, project, str(version), "wheel")
            project, version = parse_sdist_filename(path.name)
            return cls(path, project, str(version), "sdist")
        except (InvalidWheelFilename, InvalidSdistFilename) as error:
            raise DistributionError(
                f"{path.name} is neither a wheel nor a source distribution: {error}",
                hint="pass files that `release-tools release build` created",
            ) from error

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 of the file."""
        return sha256(self.path.read_bytes())

    @cached_property
    def metadata_file(self) -> bytes:
        """The raw metadata.

        Raises:
            DistributionError: It contains no metadata.
        """
        place = "*.dist-info/METADATA" if self.kind == "wheel" else "*/PKG-INFO"
        for name, content in self.members():
            path = Path(name)
            if len(path.parts) == 2 and path.match(place):
                return content
        raise DistributionError(f"{self.path.name} does not contain {place}")

    @cached_property
    def metadata(self) -> Metadata:
        """The validated metadata.

        Raises:
            DistributionError: The metadata is missing or invalid.
        """
        raw, unknown = parse_email(self.metadata_file)
        if unknown:
            raise DistributionError(
                f"{self.path.name} has unknown metadata fields: {', '.join(unknown)}"
            )
        try:
            metadata = Metadata.from_raw(raw)
        except ExceptionGroup as error:
            said = "; ".join(str(each) for each in error.exceptions)
            raise DistributionError(f"{self.path.name} has invalid metadata: {said}") from error
        named = (canonicalize_name(metadata.name), str(metadata.version))
        if named != (self.project, self.version):
            raise DistributionError(
                f"{self.path.name} contains {named[0]} {named[1]}, which differs from its file name"
            )
        return metadata

    def members(self) -> Iterator[tuple[str, bytes]]:
        """Yield every member with its path and content."""
        if self.kind == "wheel":
            with zipfile.ZipFile(self.path) as wheel:
                for name in wheel.namelist():
                    if not name.endswith("/"):
                        yield name, wheel.read(name)
        else:
            with tarfile.open(self.path) as sdist:
                for member in sdist:
                    if (content := sdist.extractfile(member)) is not None:
                        yield member.name, content.read()
