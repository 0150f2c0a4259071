# SPDX-License-Identifier: Apache-2.0
"""One object store that speaks S3, on loopback."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from connectors_core.secrets import Secret
from connectors_core.testing.servers.artifacts import PinnedArtifacts, find_java
from connectors_core.testing.servers.guard import GuardedProcess
from connectors_core.testing.servers.ports import HOST, free_ports
from connectors_core.testing.servers.server import ServerProcess

__all__ = ["S3Server"]

_PINNED: Final = Path(__file__).parent / "pinned" / "s3proxy-4.1.0.txt"
_FOLDER_VARIABLE: Final = "CONNECTORS_S3_JARS"
_USER: Final = "tests"
# Short lives: quick compilation counts, not the best code.
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
    """An S3Proxy that keeps its objects in a folder: it is strict where clients must be right.

    ```python
    with S3Server(buckets=["lake"]) as server:
        source = FileSource("s3://lake/flights", storage_options=server.storage_options())
    ```

    It checks the signature of each request, creates an object exclusively where `If-None-Match: *`
    asks for it, and answers 412 without a `<Condition>` element otherwise, as MinIO does. Times are
    whole seconds, in listings too. It needs Java 17, and fetches its jars at its first start
    (`CONNECTORS_S3_JARS` names a folder that holds them where there is no network). It dies with
    the process that started it, however that ends. Port and objects stay the same over restarts,
    until the context ends.

    Args:
        buckets: Buckets that are there from the start.
    """

    called = "object store"

    def __init__(self, *, buckets: Sequence[str] = ()) -> None:
        self._buckets = tuple(buckets)
        self._secret = Secret(secrets.token_hex(16))
        self._folder: Path | None = None
        self._port = 0

    @property
    def port(self) -> int:
        """Where it listens; 0 before its first start."""
        return self._port

    @property
    def endpoint(self) -> str:
        """Where clients find it; it stays the same over restarts."""
        return f"http://{HOST}:{self._port}"

    def storage_options(self, endpoint: str | None = None) -> dict[str, Any]:
        """What s3fs needs to reach it.

        Args:
            endpoint: Of a relay in front of it, by default its own.
        """
        return {
            "key": _USER,
            "secret": self._secret,
            "endpoint_url": endpoint or self.endpoint,
            "client_kwargs": {"region_name": "us-east-1"},
        }

    def start(self, seconds: float = 60.0) -> None:
        """Start it where it does not run: on the objects and the port that it had, if it had some.

        Args:
            seconds: How long it may take to be ready.

        Raises:
            ServerError: It was not ready in that time; says what it printed.
            ConfigurationError: There is no Java that is new enough.
        """
        if self.running:
            return
        deadline = time.monotonic() + seconds
        jars = PinnedArtifacts.read(_PINNED, folder_variable=_FOLDER_VARIABLE).paths()
        self._configure()
        printed = len(self.log)
        command = [find_java(), *_JVM_OPTIONS]
        command += [f"-Dlogback.configurationFile={self._home / 'logback.xml'}"]
        command += ["-cp", os.pathsep.join(map(str, jars)), "org.gaul.s3proxy.Main"]
        command += ["--properties", str(self._home / "s3proxy.conf")]
        self._process = GuardedProcess.start(command, self._log_path)
        self._wait_until(self._is_ready, deadline, printed)

    def close(self) -> None:
        """End it, and remove its objects."""
        self.kill()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
            self._port = 0

    def _configure(self) -> None:
        if not self._port:
            (self._port,) = free_ports(1)
        home = self._home
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

    @property
    def _home(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="s3-"))
        return self._folder

    def _is_ready(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self._port)) == 0
