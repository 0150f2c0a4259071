# SPDX-License-Identifier: Apache-2.0
"""Changes the topics of a test broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import OffsetSpec


@dataclass(frozen=True)
class Topics:
    """The topics of a broker.

    Every call opens its own connection and completes before it returns.

    Args:
        bootstrap_servers: The broker's address without encryption.
    """

    bootstrap_servers: str

    def create(
        self, name: str, *, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        """Create a topic and wait until it is ready.

        Args:
            name: The name of the topic.
            partitions: The number of partitions.
            config: Kafka's topic settings, e.g. ``{"cleanup.policy": "compact"}``.

        Returns:
            The name.
        """
        topic = {"num_partitions": partitions, "replication_factor": 1, "configs": config or {}}
        with self._admin() as admin:
            admin.create_topics({name: topic}, wait_for_metadata=True)
        return name

    def delete(self, name: str) -> None:
        """Delete a topic and its data."""
        with self._admin() as admin:
            admin.delete_topics([name])

    def add_partitions(self, name: str, total: int) -> None:
        """Add partitions to a topic and wait until they are ready.

        Args:
            name: The topic.
            total: The number of partitions afterward.
        """
        with self._admin() as admin:
            admin.create_partitions({name: total})
            admin.wait_for_topics([name])

    def delete_records(self, name: str, before: Mapping[int, int]) -> None:
        """Delete the oldest records, like retention.

        Args:
            name: The topic.
            before: For every affected partition, the first offset that remains.
        """
        with self._admin() as admin:
            admin.delete_records({TopicPartition(name, at): to for at, to in before.items()})

    def start_offsets(self, name: str) -> dict[int, int]:
        """Return the offset of the oldest record for every partition."""
        return self._offsets(name, OffsetSpec.EARLIEST)

    def end_offsets(self, name: str) -> dict[int, int]:
        """Return the offset of the next record for every partition."""
        return self._offsets(name, OffsetSpec.LATEST)

    def _offsets(self, name: str, where: OffsetSpec) -> dict[int, int]:
        with self._admin() as admin:
            partitions = admin.describe_topics([name])[0]["partitions"]
            found = admin.list_partition_offsets(
                {TopicPartition(name, each["partition_index"]): where for each in partitions}
            )
        return {each.partition: found[each].offset for each in sorted(found)}

    @contextmanager
    def _admin(self) -> Iterator[KafkaAdminClient]:
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        try:
            yield admin
        finally:
            admin.close()
