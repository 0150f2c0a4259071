# SPDX-License-Identifier: Apache-2.0
"""One Elasticsearch on the loopback interface."""

from __future__ import annotations

import base64
import json
import os
import shutil
import ssl
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from connector_elasticsearch.testing.distribution import Distribution
from connector_elasticsearch.testing.errors import ElasticsearchServerError
from connector_elasticsearch.testing.plugins import SECURITY_INDEX, Plugin
from connector_elasticsearch.testing.security import ServerSecurity
from connectors_core.secrets import Secret
from connectors_core.testing.servers import HOST, GuardedProcess, ServerProcess, free_ports

NEWEST_FOR_JAVA_17: Final = "8.19.21"
_UNPRIVILEGED: Final = 65534  # Elasticsearch does not run as root
_OPEN_TO_ALL: Final = "/tmp"  # noqa: S108
_SETTINGS: Final = {
    "action.destructive_requires_name": "false",
    "cluster.routing.allocation.disk.threshold_enabled": "false",
    "discovery.type": "single-node",
    "network.host": HOST,
    "xpack.security.enabled": "false",
}
# The serial collector leaves garbage until the heap is full, which the breaker would count as used.
_BREAKER: Final = {"indices.breaker.total.use_real_memory": "false"}
# For short runs on few cores, fast compilation matters more than optimized code.
_JVM_OPTIONS: Final = """\
-XX:+UseSerialGC
-XX:TieredStopAtLevel=1
-Xshare:auto
-XX:+ExitOnOutOfMemoryError
-Djava.io.tmpdir=${ES_TMPDIR}
-Dorg.apache.lucene.store.MMapDirectory.sharedArenaMaxPermits=1
20-:--add-modules=jdk.incubator.vector
"""
_LOGGING: Final = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p][%-25c{1.}] %m%consoleException%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""


class ElasticsearchServer(ServerProcess):
    """A single-node Elasticsearch on the loopback interface.

    ```python
    with ElasticsearchServer() as server:
        sink = ElasticsearchSink(server.url, index="flights")
    ```

    The first start downloads Elastic's artifact. For offline use, `CONNECTORS_ELASTICSEARCH_ZIPS`
    names a folder that contains it. The server ends with the process that started it, however that
    process ends. Its port and data survive restarts until the context ends.

    Args:
        version: A pinned version: 8.19.21, or 9.5.3, which needs Java 21.
        security: Encryption and login of its clients. The default is neither.
        settings: Additional settings, by Elasticsearch's names.
        heap: The maximum heap size, in Java's notation.
        plugins: Plugins to add. They need Java's compiler.
        quick: Whether a fast start matters more than later speed. Do not use it in a benchmark.
    """

    error = ElasticsearchServerError

    def __init__(
        self,
        *,
        version: str = NEWEST_FOR_JAVA_17,
        security: ServerSecurity | None = None,
        settings: Mapping[str, str] | None = None,
        heap: str = "256m",
        plugins: Sequence[Plugin] = (),
        quick: bool = True,
    ) -> None:
        self.version = version
        if security is not None and security.api_keys:
            plugins = [*plugins, SECURITY_INDEX]
        self._distribution = Distribution(version, tuple(plugins))
        self._security = security
        self._given = dict(settings or {})
        self._heap = heap
        self._quick = quick
        self._folder: Path | None = None
        self._ports: list[int] = []

    @property
    def port(self) -> int:
        """The HTTP port."""
        if not self._ports:
            raise ElasticsearchServerError(
                "the server was never started", hint="use it as a context manager"
            )
        return self._ports[0]

    @property
    def url(self) -> str:
        """The address for clients, which stays the same over restarts."""
        encrypted = self._security is not None and self._security.authority is not None
        return f"{'https' if encrypted else 'http'}://{HOST}:{self.port}"

    def start(self, seconds: float = 180.0) -> None:
        """Start the server if it is not running, with its previous data and port if it had any.

        Args:
            seconds: The deadline for the server to be ready.

        Raises:
            ElasticsearchServerError: The server was not ready in time. The error contains its
                output.
            ConfigurationError: No Java is new enough.
        """
        if self.running:
            return
        deadline = time.monotonic() + seconds
        self._configure()
        printed = len(self.log)
        self._process = GuardedProcess.start(
            [str(self._distribution.home / "bin" / "elasticsearch")],
            self._log_path,
            environment=self._environment(),
            user=_user(),
        )
        self._wait_until(self._is_ready, deadline, printed)

    def close(self) -> None:
        """Stop the server and remove its data."""
        self.kill()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
            self._ports = []

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Send one request with all privileges.

        Args:
            method: GET, PUT, POST, DELETE or HEAD.
            path: The path from the first slash on, with its query.
            body: An object to send as JSON, or bytes to send unchanged as lines of JSON.

        Returns:
            The response as a JSON object, or None if it is empty.

        Raises:
            ElasticsearchServerError: The server did not respond, or reported a failure. The error
                contains its response.
        """
        try:
            return self._request(method, path, body, seconds=60.0)
        except urllib.error.HTTPError as error:
            raise ElasticsearchServerError(
                f"{method} {path} failed with status {error.code}",
                found=error.read().decode()[:4000],
            ) from error
        except OSError as error:
            raise ElasticsearchServerError(f"{method} {path} received no response") from error

    def api_key(self, privileges: Mapping[str, Sequence[str]]) -> Secret:
        """Create an API key, in the form that clients send, on a server with API keys.

        Args:
            privileges: The privileges for the indices of each pattern, by Elasticsearch's names.

        Raises:
            ElasticsearchServerError: The server has no API keys.
        """
        indices = [
            {"names": [pattern], "privileges": list(names)} for pattern, names in privileges.items()
        ]
        role = {"connectors": {"cluster": ["monitor"], "indices": indices}}
        made = self.request(
            "POST", "/_security/api_key", {"name": "connectors", "role_descriptors": role}
        )
        return Secret(made["encoded"])

    def documents(self, index: str) -> list[dict[str, Any]]:
        """Return all documents of an index, alias, or pattern written so far, as hits.

        Args:
            index: The index, with at most 10,000 documents.
        """
        self.request("POST", f"/{index}/_refresh")
        found = self.request(
            "POST", f"/{index}/_search?version=true&size=10000", {"sort": ["_doc"]}
        )
        hits: list[dict[str, Any]] = found["hits"]["hits"]
        if len(hits) != found["hits"]["total"]["value"]:
            raise ElasticsearchServerError(f"{index} has more documents than one response can hold")
        return hits

    def count(self, index: str) -> int:
        """Return the number of documents in an index, alias, or pattern."""
        self.request("POST", f"/{index}/_refresh")
        number: int = self.request("GET", f"/{index}/_count")["count"]
        return number

    @property
    def _home(self) -> Path:
        if self._folder is None:
            # Root's own temporary folder can be inaccessible to other users.
            folder = None if _user() is None else _OPEN_TO_ALL
            self._folder = Path(tempfile.mkdtemp(prefix="elasticsearch-", dir=folder))
        return self._folder

    def _configure(self) -> None:
        self._ports = self._ports or free_ports(2)
        config = self._home / "config"
        if not config.exists():
            shutil.copytree(self._distribution.home / "config", config)
            for name in ("data", "logs", "tmp"):
                (self._home / name).mkdir()
        files = {
            "elasticsearch.yml": "".join(
                f"{name}: {json.dumps(value)}\n" for name, value in self._settings().items()
            ),
            "jvm.options.d/tests.options": f"-Xms{self._heap}\n-Xmx{self._heap}\n",
            "log4j2.properties": _LOGGING,
        }
        if self._quick:
            files["jvm.options"] = _JVM_OPTIONS
        if self._security is not None:
            files |= self._security.files()
        for name, text in files.items():
            (config / name).parent.mkdir(exist_ok=True)
            (config / name).touch(mode=0o600)  # it can contain a key
            (config / name).write_text(text)
        if (user := _user()) is not None:
            for path in [self._home, *self._home.rglob("*")]:
                os.chown(path, user, user)

    def _settings(self) -> dict[str, str]:
        http, transport = map(str, self._ports)
        found = _SETTINGS | {
            "http.port": http,
            "path.data": str(self._home / "data"),
            "path.logs": str(self._home / "logs"),
            "transport.port": transport,
        }
        if self._quick:
            found |= _BREAKER
        if self._security is not None:
            found |= self._security.settings()
        return found | self._given

    def _environment(self) -> dict[str, str]:
        return {
            "CLI_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto -Xmx32m",
            "ES_JAVA_HOME": str(self._distribution.java_home),
            "ES_PATH_CONF": str(self._home / "config"),
            "ES_TMPDIR": str(self._home / "tmp"),
            "HOME": str(self._home),
            "LANG": "C.UTF-8",
            "PATH": os.defpath,
        }

    def _is_ready(self) -> bool:
        try:
            health = self._request(
                "GET", "/_cluster/health?wait_for_status=yellow&timeout=1s", None, seconds=5.0
            )
        except OSError:
            return False
        return health["status"] in {"yellow", "green"}

    def _request(self, method: str, path: str, body: Any, *, seconds: float) -> Any:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, method=method, data=data)  # noqa: S310
        kind = "application/x-ndjson" if isinstance(body, bytes) else "application/json"
        request.add_header("Content-Type", kind)
        context = None
        if self._security is not None:
            login = f"{self._security.user}:{self._security.password.reveal()}".encode()
            request.add_header("Authorization", f"Basic {base64.b64encode(login).decode()}")
            if self._security.authority is not None:
                context = ssl.create_default_context(cadata=self._security.authority.certificate)
                if self._security.identity is not None:  # can be deliberately wrong
                    context.check_hostname = False
                    context.verify_mode = ssl.CERT_NONE
        with urllib.request.urlopen(request, timeout=seconds, context=context) as answer:  # noqa: S310
            text = answer.read()
        return json.loads(text) if text else None


def _user() -> int | None:
    """Return the user that runs the server: the current user, unless that is root."""
    return _UNPRIVILEGED if os.geteuid() == 0 else None
