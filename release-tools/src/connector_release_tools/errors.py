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
        message: What was found, and where.
        hint: What to do about it.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class GitError(ReleaseToolsError):
    """Git is not there, or refused a command."""


class HistoryError(GitError):
    """A commit that is needed is not in this clone."""


class ApiError(ReleaseToolsError):
    """What a package promises cannot be read from its sources."""


class TemplateError(ReleaseToolsError):
    """The template is not there, or cannot be rendered with these answers."""


class ConnectorFolderError(ReleaseToolsError):
    """The folder of a connector is not as it must be."""


class DocsError(ReleaseToolsError):
    """The documents cannot be made into a site."""


class VersionError(ReleaseToolsError, ValueError):
    """A text does not name a version, a line of Spark or a release."""


class MatrixError(ReleaseToolsError):
    """The compatibility matrix is not there, or is not as it must be."""


class ProgramError(ReleaseToolsError):
    """A program that the tools run is not there, or fails."""


class CellError(ReleaseToolsError):
    """A cell of the matrix cannot be tested."""


class InstallError(ReleaseToolsError):
    """A release does not fit the environment that it is to be installed into."""


class DistributionError(ReleaseToolsError):
    """A file is no distribution, or what it says of itself is not as it must be."""


class IndexFolderError(ReleaseToolsError):
    """An index does not take a file."""


class ReleaseError(ReleaseToolsError):
    """A release cannot be made from the existing files."""


class MaintainersError(ReleaseToolsError):
    """The list of maintainers is not there, or is not as it must be."""


class FlipError(ReleaseToolsError):
    """A proposal or the rules for proposals are not as they must be."""


class ReviewError(ReleaseToolsError):
    """What a review is judged by, or an issue form, is not as it must be."""
