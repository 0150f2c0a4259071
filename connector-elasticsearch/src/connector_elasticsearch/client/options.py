# SPDX-License-Identifier: Apache-2.0
"""The options of a connection, declared once for source, sink and lookup."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from connectors_core.options import (
    DURATION,
    JSON_MAP,
    Option,
    OptionSet,
    list_of,
    not_empty,
    positive,
)
from connectors_core.secrets import Secret

__all__ = [
    "API_KEY",
    "BEARER_TOKEN",
    "CA_FILE",
    "CERTIFICATE_FINGERPRINT",
    "CLOUD_ID",
    "CONNECTION_OPTIONS",
    "HEADERS",
    "HOSTS",
    "PASSWORD",
    "PATH_PREFIX",
    "REQUEST_TIMEOUT",
    "SINCE",
    "USERNAME",
]

SINCE: Final = "2.0.0"

HOSTS: Final = Option(
    "hosts",
    list_of(str),
    validator=not_empty,
    aliases=("es.nodes", "nodes", "host", "url"),
    doc="Where the servers listen, as `https://one:9200, https://two:9200`.",
    since=SINCE,
)
CLOUD_ID: Final = Option(
    "cloud-id",
    str,
    validator=not_empty,
    doc="Id of a deployment of Elastic Cloud, in place of `hosts`.",
    since=SINCE,
)
USERNAME: Final = Option(
    "username",
    str,
    validator=not_empty,
    aliases=("es.net.http.auth.user", "user"),
    doc="Who logs in, with `password`.",
    since=SINCE,
)
PASSWORD: Final = Option(
    "password", Secret, aliases=("es.net.http.auth.pass",), doc="The user's password.", since=SINCE
)
API_KEY: Final = Option(
    "api-key",
    Secret,
    aliases=("es.net.http.auth.api.key",),
    doc="API key to log in with: in its encoded form, or as `id:key`.",
    since=SINCE,
)
BEARER_TOKEN: Final = Option(
    "bearer-token",
    Secret,
    aliases=("token",),
    doc="Token of a service account, or of a login service, to log in with.",
    since=SINCE,
)
CA_FILE: Final = Option(
    "ssl.ca-file",
    str,
    validator=not_empty,
    aliases=("es.net.ssl.cert.file", "ca-certs"),
    doc="PEM file of the authorities that may issue the servers' certificates, on every node of "
    "the Spark cluster; by default those that the system trusts.",
    since=SINCE,
)
CERTIFICATE_FINGERPRINT: Final = Option(
    "ssl.certificate-fingerprint",
    str,
    aliases=("ssl-assert-fingerprint",),
    doc="SHA-256 of the server's own certificate, in hexadecimal digits; nothing else of it is "
    "checked then.",
    since=SINCE,
)
PATH_PREFIX: Final = Option(
    "connection.path-prefix",
    str,
    aliases=("es.nodes.path.prefix",),
    doc="What stands before every path, as behind a proxy.",
    since=SINCE,
)
REQUEST_TIMEOUT: Final = Option(
    "connection.request-timeout",
    DURATION,
    default=timedelta(minutes=1),
    validator=positive,
    aliases=("connection.timeout", "socket.timeout", "es.http.timeout"),
    doc="How long a request may take: to connect, to be sent, and until all of its answer is here.",
    since=SINCE,
)
HEADERS: Final[Option[dict[str, Any]]] = Option(
    "headers.*",
    JSON_MAP,
    secret=True,
    doc="Further HTTP headers of every request, such as `headers.x-tenant`.",
    since=SINCE,
)

CONNECTION_OPTIONS: Final = OptionSet(
    HOSTS,
    CLOUD_ID,
    USERNAME,
    PASSWORD,
    API_KEY,
    BEARER_TOKEN,
    CA_FILE,
    CERTIFICATE_FINGERPRINT,
    PATH_PREFIX,
    REQUEST_TIMEOUT,
    HEADERS,
    scope="elasticsearch connection",
)
"""The options of `ElasticsearchConnection`, a part of those of the sink and the source."""
