# SPDX-License-Identifier: Apache-2.0
"""Names that one attempt of a job claims for itself. Executor."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import Final

from connectors_core.engine.state import StateStore
from connectors_core.errors import ConfigurationError

_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}")


@dataclass(frozen=True, kw_only=True)
class Claims:
    """Claims each name once, by creating a file for it exclusively.

    The files need not survive a power loss. They only distinguish the attempts of one job, and no
    attempt outlives the machine that stores them. On a remote file system or object store, a create
    is durable by itself.

    Args:
        store: The state location of the query.
        folder: The folder of the job's claims.
    """

    store: StateStore
    folder: str

    def __call__(self, name: str) -> bool:
        """Claim a name; see `WriterInitContext.claim`.

        Raises:
            ConfigurationError: The name has characters that are not allowed.
        """
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"{name!r} cannot be claimed",
                expected="letters, digits, '_', '.' and '-', at most 200, no leading '.'",
            )
        path, own = f"{self.folder}/{name}", uuid.uuid4().bytes
        # After a repeated request, an object store may report our own file as existing.
        return self.store.create(path, own, durable=False) or self.store.read(path) == own
