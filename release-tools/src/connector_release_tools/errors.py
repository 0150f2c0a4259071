# SPDX-License-Identifier: Apache-2.0
"""The errors of the tools; the command shows them without a traceback and exits with 2."""

from __future__ import annotations

__all__ = [
    "ApiError",
    "CellError",
    "ConnectorFolderError",
    "DistributionError",
    "DocsError",
    "FlipError",
    "ForgeError",
    "GitError",
    "HistoryError",
    "IndexFolderError",
    "InstallError",
    "MaintainersError",
    "MatrixError",
    "ProgramError",
    "ReleaseError",
    "ReleaseToolsError",
    "ReviewError",
    "TemplateError",
    "VersionError",
]


class ReleaseToolsError(Exception):
    """The root of all errors of the tools.

    Args:
        message: The problem and its location.
        hint: The remedy.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class GitError(ReleaseToolsError):
    """Git is not installed, or a command failed."""


class HistoryError(GitError):
    """A required commit is missing from this clone."""


class ApiError(ReleaseToolsError):
    """A package's API promise cannot be read from its sources."""


class TemplateError(ReleaseToolsError):
    """The template is missing, or cannot be rendered with the given answers."""


class ConnectorFolderError(ReleaseToolsError):
    """The folder of a connector is invalid."""


class DocsError(ReleaseToolsError):
    """The site cannot be built from the documentation."""


class VersionError(ReleaseToolsError, ValueError):
    """A text does not name a version, a Spark line or a release."""


class MatrixError(ReleaseToolsError):
    """The compatibility matrix is missing or invalid."""


class ProgramError(ReleaseToolsError):
    """A program that the tools run is missing or fails."""


class CellError(ReleaseToolsError):
    """A cell of the matrix cannot be tested."""


class InstallError(ReleaseToolsError):
    """A release is incompatible with the target environment."""


class DistributionError(ReleaseToolsError):
    """A file is not a distribution, or its metadata is invalid."""


class IndexFolderError(ReleaseToolsError):
    """An index rejects a file."""


class ReleaseError(ReleaseToolsError):
    """A release cannot be made from the existing files."""


class MaintainersError(ReleaseToolsError):
    """The list of maintainers is missing or invalid."""


class FlipError(ReleaseToolsError):
    """A proposal or the rules for proposals are invalid."""


class ForgeError(ReleaseToolsError):
    """The code forge cannot be read."""


class ReviewError(ReleaseToolsError):
    """A review's criteria or an issue form are invalid."""
