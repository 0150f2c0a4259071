# SPDX-License-Identifier: Apache-2.0
"""An object store with the S3 API, on loopback."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from connectors_core.secrets import Secret
from connectors_core.testing.servers.artifacts import PinnedArtifacts, find_java
from connectors_core.testing.servers.ports import HOST, free_ports
from connectors_core.testing.servers.server import ServerProcess

__all__ = ["S3Server"]

_PINNED: Final = Path(__file__).parent / "pinned" / "s3proxy-4.1.0.txt"
_FOLDER_VARIABLE: Final = "CONNECTORS_S3_JARS"
_USER: Final = "tests"
# The process is short-lived, so fast compilation matters more than optimal code.
_JVM_OPTIONS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m")
_LOGGING: Final = """\
<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %-5level %logger{20} %msg%n</pattern></encoder>
  </appender>
  <root level="info"><appender-ref ref="OUT"/></root>
</configuration>
"""


class S3Server(ServerProcess):
    """An S3Proxy that stores its objects in a folder and is strict with clients.

    ```python
    with S3Server(buckets=["lake"]) as server:
        source = FileSource("s3://lake/flights", storage_options=server.storage_options())
    ```

    It verifies the signature of each request. It creates an object exclusively if
    `If-None-Match: *` requests it. Otherwise it returns 412 without a `<Condition>` element, as
    MinIO does. Timestamps are whole seconds, also in listings. It needs Java 17 and downloads its
    jars at its first start. Without a network, set `CONNECTORS_S3_JARS` to a folder that contains
    them. It ends with the process that started it, even after a crash. The port and the objects
    stay the same across restarts, until the context ends.

    Args:
        buckets: The initial buckets.
    """

    called = "object store"

    def __init__(self, *, buckets: Sequence[str] = ()) -> None:
        self._buckets = tuple(buckets)
        self._secret = Secret(secrets.token_hex(16))
        self._port = 0

    @property
    def port(self) -> int:
        """The port, or 0 before the first start."""
        return self._port

    @property
    def endpoint(self) -> str:
        """The URL for clients, which stays the same across restarts."""
        return f"http://{HOST}:{self._port}"

    def storage_options(self, endpoint: str | None = None) -> dict[str, Any]:
        """Return the arguments with which s3fs connects to the store.

        Args:
            endpoint: The URL of a relay before the store. The default is the store's own.
        """
        return {
            "key": _USER,
            "secret": self._secret,
            "endpoint_url": endpoint or self.endpoint,
            "client_kwargs": {"region_name": "us-east-1"},
        }

    def start(self, seconds: float = 60.0) -> None:
        """Start the server if it is not running, with its former objects and port.

        Args:
            seconds: The timeout until the server is ready.

        Raises:
            ServerError: The server was not ready in time. The error shows its output.
            ConfigurationError: No recent enough Java was found.
        """
        jars = PinnedArtifacts.read(_PINNED, folder_variable=_FOLDER_VARIABLE).paths()
        self._configure()
        command = [find_java(), *_JVM_OPTIONS]
        command += [f"-Dlogback.configurationFile={self.home / 'logback.xml'}"]
        command += ["-cp", os.pathsep.join(map(str, jars)), "org.gaul.s3proxy.Main"]
        command += ["--properties", str(self.home / "s3proxy.conf")]
        self.launch(command, self._is_ready, seconds=seconds)

    def close(self) -> None:
        """End the server and delete its objects."""
        super().close()
        self._port = 0

    def _configure(self) -> None:
        if not self._port:
            (self._port,) = free_ports(1)
        home = self.home
        for bucket in self._buckets:
            (home / "objects" / bucket).mkdir(parents=True, exist_ok=True)
        (home / "objects").mkdir(exist_ok=True)
        (home / "logback.xml").write_text(_LOGGING, encoding="utf-8")
        properties = {
            "s3proxy.endpoint": self.endpoint,
            "s3proxy.authorization": "aws-v4",
            "s3proxy.identity": _USER,
            "s3proxy.credential": self._secret.reveal(),
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": str(home / "objects"),
        }
        lines = "".join(f"{name}={value}\n" for name, value in properties.items())
        (home / "s3proxy.conf").write_text(lines, encoding="utf-8")

    def _is_ready(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self._port)) == 0
