# SPDX-License-Identifier: Apache-2.0
"""The committer for records that are visible as soon as they are written."""

from __future__ import annotations

from collections.abc import Sequence

from connector_kafka.sink.committable import KafkaCommittable
from connectors_core.errors import CommitError
from connectors_core.sink import CommitRequest, Committer

__all__ = ["NonTransactionalCommitter"]


class NonTransactionalCommitter(Committer[KafkaCommittable]):
    """Replaces the committer if the delivery guarantee is not exactly-once. Driver."""

    def commit(self, requests: Sequence[CommitRequest[KafkaCommittable]]) -> None:
        """Refuse transactions that an earlier run decided to commit.

        The sink was exactly-once then, and only that sink can end them.
        """
        for request in requests:
            request.signal_failed(
                CommitError(
                    "a transaction of an earlier run is still open",
                    expected="the original delivery guarantee exactly-once",
                    option="sink.delivery-guarantee",
                    hint="start once with exactly-once, then change the delivery guarantee",
                )
            )
