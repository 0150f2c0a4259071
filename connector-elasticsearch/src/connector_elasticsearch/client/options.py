# SPDX-License-Identifier: Apache-2.0
"""The settings of a connection, for the source, the sink, and the lookup."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from connectors_core.options import (
    DURATION,
    JSON_MAP,
    Configured,
    OptionType,
    Setting,
    list_of,
    not_empty,
    option,
    positive,
)
from connectors_core.secrets import Secret

__all__ = ["SINCE", "ConnectionOptions"]

SINCE: Final = "2.0.0"

_FINGERPRINT: Final = re.compile(r"[0-9a-fA-F]{64}")


def _fingerprint(value: Any) -> str:
    digits = value.replace(":", "") if isinstance(value, str) else ""
    if not _FINGERPRINT.fullmatch(digits):
        raise ValueError("the 64 hexadecimal digits of a SHA-256, with or without colons")
    return str(digits.lower())


def _headers(value: object) -> dict[str, Secret]:
    return {name: Secret(each) for name, each in JSON_MAP.parse(value).items()}


class ConnectionOptions(Configured, scope="Elasticsearch connection", since=SINCE):
    """The connection to Elasticsearch: the settings of `ElasticsearchConnection`."""

    hosts: Setting[tuple[str, ...], str | Sequence[str]] = option(
        "hosts",
        list_of(str, separator=",;"),
        aliases=("es.nodes", "nodes", "host", "url"),
        doc="Addresses of the servers, e.g. `https://one:9200, https://two:9200`.",
        default=(),
        kw_only=False,
    )
    cloud_id: Setting[str | None] = option(
        "cloud-id",
        str,
        validator=not_empty,
        doc="ID of a deployment in Elastic Cloud, instead of `hosts`.",
        default=None,
    )
    username: Setting[str | None] = option(
        "username",
        str,
        validator=not_empty,
        aliases=("es.net.http.auth.user", "user"),
        doc="User name, with `password`.",
        default=None,
    )
    password: Setting[Secret | None, Secret | str | None] = option(
        "password",
        Secret,
        aliases=("es.net.http.auth.pass",),
        doc="Password of the user.",
        default=None,
    )
    api_key: Setting[Secret | None, Secret | str | None] = option(
        "api-key",
        Secret,
        aliases=("es.net.http.auth.api.key",),
        doc="API key, in its encoded form or as `id:key`.",
        default=None,
    )
    bearer_token: Setting[Secret | None, Secret | str | None] = option(
        "bearer-token",
        Secret,
        aliases=("token",),
        doc="Token of a service account or a login service.",
        default=None,
    )
    ca_file: Setting[str | None, str | os.PathLike[str] | None] = option(
        "ssl.ca-file",
        str,
        validator=not_empty,
        aliases=("es.net.ssl.cert.file", "ca-certs"),
        doc="PEM file of the authorities that can issue the servers' certificates, on every node "
        "of the Spark cluster. The default is the system's authorities.",
        default=None,
    )
    certificate_fingerprint: Setting[str | None] = option(
        "ssl.certificate-fingerprint",
        OptionType("string", _fingerprint),
        aliases=("ssl-assert-fingerprint",),
        doc="SHA-256 fingerprint of the server's own certificate, in hexadecimal digits. It "
        "replaces all other checks of the certificate.",
        default=None,
    )
    path_prefix: Setting[str | None] = option(
        "connection.path-prefix",
        str,
        aliases=("es.nodes.path.prefix",),
        doc="Prefix of every path, e.g. behind a proxy.",
        default=None,
    )
    request_timeout: Setting[timedelta, timedelta | str] = option(
        "connection.request-timeout",
        DURATION,
        default=timedelta(minutes=1),
        validator=positive,
        aliases=("connection.timeout", "socket.timeout", "es.http.timeout"),
        doc="Timeout of a request, which covers connecting, sending, and receiving the whole "
        "response.",
    )
    headers: Setting[dict[str, Secret], Mapping[str, str | Secret] | None] = option(
        "headers.*",
        OptionType(JSON_MAP.name, _headers),
        secret=True,
        doc="Additional HTTP headers of every request, e.g. `headers.x-tenant`.",
        default=None,
    )
