# SPDX-License-Identifier: Apache-2.0
"""The committer of records that are visible as they are written."""

from __future__ import annotations

from collections.abc import Sequence

from connector_kafka.sink.committable import KafkaCommittable
from connectors_core.errors import CommitError
from connectors_core.sink import CommitRequest, Committer

__all__ = ["NothingToCommit"]


class NothingToCommit(Committer[KafkaCommittable]):
    """Stands where the delivery guarantee is not exactly-once. Driver."""

    def commit(self, requests: Sequence[CommitRequest[KafkaCommittable]]) -> None:
        """Refuse transactions that an earlier start decided on.

        The sink was exactly-once then, and only that sink may end them.
        """
        for request in requests:
            request.signal_failed(
                CommitError(
                    "a transaction of an earlier start is still open",
                    expected="the original delivery guarantee exactly-once",
                    option="sink.delivery-guarantee",
                    hint="start once more with exactly-once, and change it afterwards",
                )
            )
