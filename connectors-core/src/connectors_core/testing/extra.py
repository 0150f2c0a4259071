# SPDX-License-Identifier: Apache-2.0
"""The extra ``connectors-core[testing]``: packages that only the suites need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from connectors_core.errors import MissingDependencyError

INSTALL_TESTING: Final = "pip install 'connectors-core[testing]'"
_PACKAGES: Final = frozenset({"_pytest", "cryptography", "hypothesis", "pytest"})


@contextmanager
def needs_extra() -> Iterator[None]:
    """Raise an error that names the extra if one of its packages is missing.

    Raises:
        MissingDependencyError: A package is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _PACKAGES:
            raise
        raise MissingDependencyError(
            package, install=INSTALL_TESTING, feature="connectors_core.testing"
        ) from error
