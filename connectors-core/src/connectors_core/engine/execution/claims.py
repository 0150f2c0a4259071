# SPDX-License-Identifier: Apache-2.0
"""Names that one attempt has to itself, among all attempts of a job. Executor."""

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
    """Takes names, each once: a file for each, created exclusively.

    The files need not survive a loss of power. They tell apart the attempts of one job, and no
    attempt outlives the machine that keeps them; where that is another machine, it is a file system
    or object store whose answer to a create is durable by itself.

    Args:
        store: The state location of the query.
        folder: Where the claims of the job are.
    """

    store: StateStore
    folder: str

    def __call__(self, name: str) -> bool:
        """Take a name; see `WriterInitContext.claim`.

        Raises:
            ConfigurationError: It is not a plain name.
        """
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"{name!r} cannot be claimed",
                expected="letters, digits, '_', '.' and '-', at most 200, no '.' in front",
            )
        path, own = f"{self.folder}/{name}", uuid.uuid4().bytes
        # An object store may say of our own that it was there, when its client repeated a request.
        return self.store.create(path, own, durable=False) or self.store.read(path) == own
