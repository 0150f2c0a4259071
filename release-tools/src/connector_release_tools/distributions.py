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
        project: The name of its project, as indexes write it.
        version: Its version, as it is spelled in the file's name.
        kind: Which of the two it is.
    """

    path: Path
    project: str
    version: str
    kind: Literal["wheel", "sdist"]

    @classmethod
    def of(cls, path: Path) -> Distribution:
        """Return the distribution of a file, by its name.

        Raises:
            DistributionError: The file does not exist, or its name is not that of a distribution.
        """
        if not path.is_file():
            raise DistributionError(f"there is no file {path}")
        try:
            if path.suffix == ".whl":
                project, version, *_ = parse_wheel_filename(path.name)
                return cls(path, project, str(version), "wheel")
            project, version = parse_sdist_filename(path.name)
            return cls(path, project, str(version), "sdist")
        except (InvalidWheelFilename, InvalidSdistFilename) as error:
            raise DistributionError(
                f"{path.name} is neither a wheel nor a source distribution: {error}",
                hint="give files that `release-tools release build` made",
            ) from error

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 of the file."""
        return sha256(self.path.read_bytes())

    @cached_property
    def metadata_file(self) -> bytes:
        """Its metadata as it carries them.

        Raises:
            DistributionError: It carries none.
        """
        place = "*.dist-info/METADATA" if self.kind == "wheel" else "*/PKG-INFO"
        for name, content in self.members():
            path = Path(name)
            if len(path.parts) == 2 and path.match(place):
                return content
        raise DistributionError(f"{self.path.name} holds no {place}")

    @cached_property
    def metadata(self) -> Metadata:
        """Its metadata, checked.

        Raises:
            DistributionError: They are not there, or not as they must be.
        """
        raw, unknown = parse_email(self.metadata_file)
        if unknown:
            raise DistributionError(
                f"{self.path.name} has metadata that no installer knows: {', '.join(unknown)}"
            )
        try:
            metadata = Metadata.from_raw(raw)
        except ExceptionGroup as error:
            said = "; ".join(str(each) for each in error.exceptions)
            raise DistributionError(f"{self.path.name} has wrong metadata: {said}") from error
        named = (canonicalize_name(metadata.name), str(metadata.version))
        if named != (self.project, self.version):
            raise DistributionError(
                f"{self.path.name} holds {named[0]} {named[1]}, which its name does not say"
            )
        return metadata

    def members(self) -> Iterator[tuple[str, bytes]]:
        """Every file in it, by its path there."""
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
