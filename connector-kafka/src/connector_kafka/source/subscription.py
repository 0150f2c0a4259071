# SPDX-License-Identifier: Apache-2.0
"""The selection of partitions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from connector_kafka.client.metadata import Cluster, Topic, TopicPartition
from connectors_core.errors import ConfigurationError, InvalidOptionError

__all__ = ["Subscription"]


@dataclass(frozen=True, kw_only=True)
class Subscription:
    """Topics by name or by pattern, or single partitions: exactly one of these.

    Attributes:
        topics: Names of topics.
        pattern: Regular expression that must match the whole topic name. It never matches internal
            topics.
        partitions: Single partitions.
    """

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()

    def __post_init__(self) -> None:
        given = [
            name
            for name, value in (
                ("topic", self.topics),
                ("topic-pattern", self.pattern),
                ("partitions", self.partitions),
            )
            if value
        ]
        if len(given) != 1:
            raise InvalidOptionError(
                "it is not clear which topics to read",
                expected="exactly one of 'topic', 'topic-pattern', and 'partitions'",
                found=", ".join(map(repr, given)) or "none of them",
                option="topic",
            )
        try:
            re.compile(self.pattern or "")
        except re.error as exc:
            raise InvalidOptionError(
                "the topic pattern is not a regular expression",
                found=f"{self.pattern!r}: {exc}",
                option="topic-pattern",
            ) from exc

    def find(self, cluster: Cluster) -> dict[TopicPartition, str]:
        """Return the current partitions, with the IDs of their topics. This can block."""
        if self.pattern is not None:
            pattern = re.compile(self.pattern)
            found = cluster.topics()
            found = {name: topic for name, topic in found.items() if pattern.fullmatch(name)}
            return _partitions(found)
        found = cluster.topics(self.topics or {each.topic for each in self.partitions})
        there = _partitions(found)
        if not self.partitions:
            return there
        return {each: there[each] for each in self.partitions if each in there}

    def check_complete(self, found: Mapping[TopicPartition, str]) -> None:
        """Check that everything named explicitly exists.

        Raises:
            ConfigurationError: A topic or partition does not exist.
        """
        topics = {each.topic for each in found}
        missing = [name for name in self.topics if name not in topics]
        missing += [str(each) for each in self.partitions if each not in found]
        if missing:
            raise ConfigurationError(
                f"the topic or partition {', '.join(missing)} does not exist",
                expected="existing topics that the user can see",
                option="partitions" if self.partitions else "topic",
                hint="check the name and the user's permissions; with topic-pattern, topics may "
                "be created later",
            )

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"pattern {self.pattern}"
        return ", ".join(self.topics or map(str, self.partitions))


def _partitions(topics: Mapping[str, Topic]) -> dict[TopicPartition, str]:
    return {
        TopicPartition(topic.name, number): topic.topic_id
        for topic in topics.values()
        for number in topic.partitions
    }
