# SPDX-License-Identifier: Apache-2.0
"""A real Kafka for tests and examples: one Java process, without a container."""

from __future__ import annotations

import base64
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from connector_kafka.testing.errors import BrokerError
from connector_kafka.testing.java import KafkaJava
from connector_kafka.testing.proxy import KafkaProxy
from connector_kafka.testing.security import BrokerSecurity
from connector_kafka.testing.topics import Topics
from connectors_core.secrets import Secret
from connectors_core.testing.servers import HOST, GuardedProcess, ServerProcess, free_ports

NEWEST: Final = "4.3.1"
_ENDED_IN_ORDER: Final = 128 + signal.SIGTERM
_PROPERTIES: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "INTERNAL",
    # The roles of a single broker.
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    # The settings of a small broker that starts fast.
    "background.threads": "2",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.index.size.max.bytes": "1048576",
    "num.io.threads": "4",
    "num.network.threads": "2",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    # Tests write records with old timestamps, which retention would delete.
    "log.retention.ms": "-1",
    # Topics are created explicitly, so that a wrong name is an error.
    "auto.create.topics.enable": "false",
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "30000",
    "controlled.shutdown.enable": "false",
}
# A restarted broker waits for the end of its former session, so the session is short. On a busy
# machine, a shorter session would end by itself, and then no broker could host a partition.
_COMING_BACK: Final = {"broker.session.timeout.ms": "2000"}


class KafkaBroker(ServerProcess):
    """A single-broker Kafka on the loopback interface, in KRaft mode.

    ```python
    with KafkaBroker() as broker:
        broker.topics.create("flights", partitions=4)
        source = KafkaSource(broker.bootstrap_servers, topics=["flights"])
    ```

    It needs Java 17. The first start downloads Kafka's jars (`connector_kafka.testing.jars`). The
    broker ends with the process that started it, however that process ends. It does not create
    topics automatically. `properties` can set any server property.

    Args:
        version: A pinned version of Kafka: 4.3.1 or 3.9.2.
        security: Encryption and login of its clients. The default is neither.
        proxy: A started network proxy that can fail.
        properties: Additional server properties, by Kafka's names.
        heap: The maximum heap size, in Java's notation.
        folder: The folder for its data and log. The default is a temporary one, removed when the
            context ends. The folder of an earlier broker restores its data.
    """

    called = "broker"
    error = BrokerError

    def __init__(
        self,
        *,
        version: str = NEWEST,
        security: BrokerSecurity | None = None,
        proxy: KafkaProxy | None = None,
        properties: Mapping[str, str] | None = None,
        heap: str = "512m",
        folder: Path | None = None,
    ) -> None:
        self.version = version
        self._java = KafkaJava(version)
        self._security = security or BrokerSecurity()
        self._proxy = proxy
        self._given = dict(properties or {})
        self._heap = heap
        self._keep = folder is not None
        self._folder = folder
        self._ports: dict[str, int] = {}

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap servers for clients, which stay the same over restarts."""
        return self._address("CLIENT")

    @property
    def internal_servers(self) -> str:
        """The bootstrap servers without login and encryption, for the tools of the tests."""
        return self._address("INTERNAL")

    def client_properties(self) -> dict[str, str | Secret]:
        """The client properties, by Kafka's names: bootstrap servers, encryption, and login."""
        servers = {"bootstrap.servers": self.bootstrap_servers}
        return servers | self._security.client_properties()

    @property
    def topics(self) -> Topics:
        """Its topics."""
        return Topics(self.internal_servers)

    def segments(self, topic: str, partition: int = 0) -> Iterator[bytes]:
        """Return the stored record batches of a partition, oldest first, as they were sent."""
        folder = self._home / "data" / f"{topic}-{partition}"
        for path in sorted(folder.glob("*.log")):
            yield path.read_bytes()

    def start(self, seconds: float = 120.0) -> None:
        """Start the broker if it is not running, with its previous data and ports if it had any.

        Args:
            seconds: The deadline for the broker to be ready.

        Raises:
            BrokerError: The broker was not ready in time. The error contains its output.
        """
        if self.running:
            return
        if not self._ports:
            listeners = self._listeners()
            self._ports = dict(zip(listeners, free_ports(len(listeners)), strict=True))
        self._start(time.monotonic() + seconds)

    def close(self) -> None:
        """Stop the broker, and remove its data unless they are in a given folder."""
        self.stop()
        self._ports = {}
        if self._folder is not None and not self._keep:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    @property
    def _home(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="kafka-"))
        return self._folder

    @property
    def _has_data(self) -> bool:
        return (self._home / "data" / "meta.properties").exists()

    def _ended(self, code: int | None) -> None:
        if code == _ENDED_IN_ORDER:
            self._java.keep(self._home / "classes.jsa")

    def _address(self, listener: str) -> str:
        if not self._ports:
            raise BrokerError("the broker was never started", hint="use it as a context manager")
        return f"{HOST}:{self._ports[listener]}"

    def _listeners(self) -> dict[str, str]:
        """The name of each listener, and its protocol."""
        found = {"CLIENT": self._security.protocol, "INTERNAL": "PLAINTEXT"}
        if self._proxy is not None:
            found["PROXIED"] = self._security.protocol
        return found | {"CONTROLLER": "PLAINTEXT"}

    def _start(self, deadline: float) -> None:
        home = self._home
        home.mkdir(parents=True, exist_ok=True)
        properties = home / "server.properties"
        properties.touch(mode=0o600)  # it can contain a password and a key
        properties.write_text("".join(map(_line, self._properties().items())))
        if not self._has_data:
            self._format(properties)
        if self._proxy is not None:
            self._proxy.forward_to(self._ports["PROXIED"])
        printed = len(self.log)
        command = self._java.command(
            "kafka.Kafka", str(properties), heap=self._heap, archive=home / "classes.jsa"
        )
        self._process = GuardedProcess.start(command, self._log_path)
        self._wait_until(lambda: _answers(self._ports["INTERNAL"]), deadline, printed)

    def _properties(self) -> dict[str, str]:
        listeners = self._listeners()
        addresses = {name: f"{name}://{self._address(name)}" for name in listeners}
        told = {name: address for name, address in addresses.items() if name != "CONTROLLER"}
        found = _PROPERTIES | (_COMING_BACK if self._has_data else {}) | self._given
        for listener in ("CLIENT", "PROXIED"):
            if listener in listeners:
                found |= self._security.server_properties(listener)
        if self._proxy is not None:
            told["PROXIED"] = f"PROXIED://{self._proxy.bootstrap_servers}"
        found["listeners"] = ",".join(addresses.values())
        found["advertised.listeners"] = ",".join(told.values())
        found["listener.security.protocol.map"] = ",".join(map(":".join, listeners.items()))
        found["controller.quorum.voters"] = f"1@{self._address('CONTROLLER')}"
        found["log.dirs"] = str(self._home / "data")
        return found

    def _format(self, properties: Path) -> None:
        command = self._java.command(
            "kafka.tools.StorageTool",
            *("format", "--cluster-id", _cluster_id(), "--config", str(properties)),
            *self._security.format_options(),
        )
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            raise BrokerError(
                "the storage of the broker could not be formatted",
                found=(done.stdout + done.stderr)[-4000:],
            )


def _line(entry: tuple[str, str]) -> str:
    """Format a line of a Java properties file."""
    name, value = entry
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n")
    return f"{name}={escaped}\n"


def _cluster_id() -> str:
    # Kafka's form of a UUID, which must not look like an option.
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode().replace("-", "A")


def _answers(port: int) -> bool:
    """Whether the broker lists itself in its response to Metadata, version 1, for no topics."""
    body = struct.pack(">hhihi", 3, 1, 1, -1, 0)
    try:
        with socket.create_connection((HOST, port), timeout=2) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            with connection.makefile("rb") as answer:
                size = answer.read(4)
                return len(size) == 4 and int.from_bytes(answer.read(8)[4:]) > 0
    except OSError:
        return False
