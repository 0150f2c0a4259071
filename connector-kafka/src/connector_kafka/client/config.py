# SPDX-License-Identifier: Apache-2.0
"""Properties of the client by Kafka's own dotted names, and what they are in kafka-python."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from connector_kafka.client.tls import TlsFiles
from connectors_core.errors import (
    ConfigurationError,
    InvalidOptionError,
    MissingOptionError,
    OptionError,
    UnsupportedError,
)
from connectors_core.options import Option, Options, OptionSet, at_least, list_of, not_empty
from connectors_core.secrets import Secret

__all__ = [
    "CLIENT_PROPERTIES",
    "CONSUMER_PROPERTIES",
    "PRODUCER_PROPERTIES",
    "ClientConfig",
]

T = TypeVar("T")

_SINCE: Final = "2.0.0"
_natural: Final = at_least(0)


def _milliseconds(key: str, default: int, doc: str) -> Option[int]:
    return Option(key, int, default=default, validator=_natural, doc=doc, since=_SINCE)


def _bytes(key: str, default: int, doc: str) -> Option[int]:
    return Option(key, int, default=default, validator=at_least(1), doc=doc, since=_SINCE)


BOOTSTRAP_SERVERS: Final = Option(
    "bootstrap.servers",
    list_of(str),
    required=True,
    validator=not_empty,
    aliases=(
        "kafka.bootstrap.servers",
        "metadata.broker.list",
        "brokers",
        "bootstrap-servers",
        "bootstrap_servers",
    ),
    doc="Brokers to begin with, as `host:port, host:port`.",
    since=_SINCE,
)
CLIENT_ID: Final = Option(
    "client.id",
    str,
    default="connector-kafka",
    doc="Names the client in the broker's logs.",
    since=_SINCE,
)
CLIENT_RACK: Final = Option(
    "client.rack",
    str,
    default="",
    doc="Where this client is; the nearest replica is read.",
    since=_SINCE,
)
REQUEST_TIMEOUT_MS: Final = Option(
    "request.timeout.ms",
    int,
    default=30_000,
    validator=at_least(1),
    doc="Longest wait for an answer; the connection is closed then.",
    since=_SINCE,
)
API_TIMEOUT_MS: Final = Option(
    "default.api.timeout.ms",
    int,
    default=60_000,
    validator=at_least(1),
    doc="Time in which an operation is tried again; each try may last `request.timeout.ms`.",
    since=_SINCE,
)
RETRY_BACKOFF_MS: Final = _milliseconds(
    "retry.backoff.ms", 100, "Wait before a request is tried again; it doubles each time."
)
RETRY_BACKOFF_MAX_MS: Final = _milliseconds(
    "retry.backoff.max.ms", 1_000, "Longest wait before a request is tried again."
)
METADATA_MAX_AGE_MS: Final = _milliseconds(
    "metadata.max.age.ms", 300_000, "Age at which what is known of leaders is asked anew."
)
RECONNECT_BACKOFF_MS: Final = _milliseconds(
    "reconnect.backoff.ms", 50, "Wait before a broker is connected again; it doubles each time."
)
RECONNECT_BACKOFF_MAX_MS: Final = _milliseconds(
    "reconnect.backoff.max.ms", 1_000, "Longest wait before a broker is connected again."
)
CONNECTION_SETUP_TIMEOUT_MS: Final = _milliseconds(
    "socket.connection.setup.timeout.ms", 10_000, "Longest wait for a connection."
)
CONNECTION_SETUP_TIMEOUT_MAX_MS: Final = _milliseconds(
    "socket.connection.setup.timeout.max.ms", 30_000, "The same after failures."
)
CONNECTIONS_MAX_IDLE_MS: Final = _milliseconds(
    "connections.max.idle.ms", 540_000, "A connection that was idle for so long is closed."
)
RECEIVE_BUFFER_BYTES: Final = Option(
    "receive.buffer.bytes",
    int,
    default=-1,
    validator=at_least(-1),
    doc="TCP receive buffer; -1 leaves it to the system.",
    since=_SINCE,
)
SEND_BUFFER_BYTES: Final = Option(
    "send.buffer.bytes",
    int,
    default=-1,
    validator=at_least(-1),
    doc="TCP send buffer; -1 leaves it to the system.",
    since=_SINCE,
)
CLIENT_DNS_LOOKUP: Final = Option(
    "client.dns.lookup",
    str,
    default="use_all_dns_ips",
    choices=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    doc="How names of brokers are resolved.",
    since=_SINCE,
)
SECURITY_PROTOCOL: Final = Option(
    "security.protocol",
    str,
    default="PLAINTEXT",
    choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    aliases=("kafka.security.protocol",),
    doc="How brokers are talked to.",
    since=_SINCE,
)
SASL_MECHANISM: Final = Option(
    "sasl.mechanism",
    str,
    choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    aliases=("sasl.mechanisms",),
    doc="How the user logs in.",
    since=_SINCE,
)
SASL_USERNAME: Final = Option(
    "sasl.username",
    str,
    doc="The user; or in `sasl.jaas.config`, as Java's clients have it.",
    since=_SINCE,
)
SASL_PASSWORD: Final = Option("sasl.password", Secret, doc="The user's password.", since=_SINCE)
SASL_JAAS_CONFIG: Final = Option(
    "sasl.jaas.config",
    Secret,
    doc='As for Java\'s clients: `...LoginModule required username="u" password="p";`.',
    since=_SINCE,
)
SSL_TRUSTSTORE_TYPE: Final = Option(
    "ssl.truststore.type",
    str,
    default="PEM",
    choices=("PEM",),
    doc="Only PEM can be read.",
    since=_SINCE,
)
SSL_TRUSTSTORE_LOCATION: Final = Option(
    "ssl.truststore.location",
    str,
    aliases=("ssl.ca.location", "ssl.cafile"),
    doc="PEM file of the authorities that are trusted; by default those of the system.",
    since=_SINCE,
)
SSL_TRUSTSTORE_CERTIFICATES: Final = Option(
    "ssl.truststore.certificates", str, doc="The same as text.", since=_SINCE
)
SSL_KEYSTORE_TYPE: Final = Option(
    "ssl.keystore.type",
    str,
    default="PEM",
    choices=("PEM",),
    doc="Only PEM can be read.",
    since=_SINCE,
)
SSL_KEYSTORE_LOCATION: Final = Option(
    "ssl.keystore.location",
    str,
    aliases=("ssl.certificate.location", "ssl.certfile"),
    doc="PEM file with the client's private key and its chain of certificates.",
    since=_SINCE,
)
SSL_KEYSTORE_CERTIFICATE_CHAIN: Final = Option(
    "ssl.keystore.certificate.chain",
    str,
    doc="The client's chain of certificates as text.",
    since=_SINCE,
)
SSL_KEYSTORE_KEY: Final = Option(
    "ssl.keystore.key",
    Secret,
    aliases=("ssl.key.pem",),
    doc="The client's private key as text.",
    since=_SINCE,
)
SSL_KEY_PASSWORD: Final = Option(
    "ssl.key.password", Secret, doc="Password of the client's private key.", since=_SINCE
)
SSL_ENDPOINT_IDENTIFICATION: Final = Option(
    "ssl.endpoint.identification.algorithm",
    str,
    default="https",
    choices=("https", "none", ""),
    doc="`https`: the certificate must name the broker's host. `none` or empty: it need not.",
    since=_SINCE,
)

#: What every client understands.
CLIENT_PROPERTIES: Final = OptionSet(
    BOOTSTRAP_SERVERS,
    CLIENT_ID,
    REQUEST_TIMEOUT_MS,
    API_TIMEOUT_MS,
    RETRY_BACKOFF_MS,
    RETRY_BACKOFF_MAX_MS,
    METADATA_MAX_AGE_MS,
    RECONNECT_BACKOFF_MS,
    RECONNECT_BACKOFF_MAX_MS,
    CONNECTION_SETUP_TIMEOUT_MS,
    CONNECTION_SETUP_TIMEOUT_MAX_MS,
    CONNECTIONS_MAX_IDLE_MS,
    RECEIVE_BUFFER_BYTES,
    SEND_BUFFER_BYTES,
    CLIENT_DNS_LOOKUP,
    SECURITY_PROTOCOL,
    SASL_MECHANISM,
    SASL_USERNAME,
    SASL_PASSWORD,
    SASL_JAAS_CONFIG,
    SSL_TRUSTSTORE_TYPE,
    SSL_TRUSTSTORE_LOCATION,
    SSL_TRUSTSTORE_CERTIFICATES,
    SSL_KEYSTORE_TYPE,
    SSL_KEYSTORE_LOCATION,
    SSL_KEYSTORE_CERTIFICATE_CHAIN,
    SSL_KEYSTORE_KEY,
    SSL_KEY_PASSWORD,
    SSL_ENDPOINT_IDENTIFICATION,
    scope="Kafka's client",
)

GROUP_ID: Final = Option(
    "group.id",
    str,
    doc="Consumer group whose committed offsets are read and written.",
    since=_SINCE,
)
FETCH_MIN_BYTES: Final = _bytes(
    "fetch.min.bytes", 1, "The broker answers a fetch once it has so many bytes."
)
FETCH_MAX_BYTES: Final = _bytes("fetch.max.bytes", 16 << 20, "Most bytes of one fetch.")
MAX_PARTITION_FETCH_BYTES: Final = _bytes(
    "max.partition.fetch.bytes", 4 << 20, "Most bytes of one partition in a fetch."
)
FETCH_MAX_WAIT_MS: Final = _milliseconds(
    "fetch.max.wait.ms", 500, "Longest wait of the broker for `fetch.min.bytes`."
)
CHECK_CRCS: Final = Option(
    "check.crcs", bool, default=True, doc="Check that records arrived undamaged.", since=_SINCE
)

#: What a source understands beside these, and all of it.
READING_PROPERTIES: Final = OptionSet(
    GROUP_ID,
    CLIENT_RACK,
    FETCH_MIN_BYTES,
    FETCH_MAX_BYTES,
    MAX_PARTITION_FETCH_BYTES,
    FETCH_MAX_WAIT_MS,
    CHECK_CRCS,
)
CONSUMER_PROPERTIES: Final = CLIENT_PROPERTIES.extended(
    *READING_PROPERTIES, scope="Kafka's consumer"
)

ACKS: Final = Option(
    "acks",
    str,
    default="all",
    choices=("all", "-1", "1", "0"),
    doc="Who must have a record.",
    since=_SINCE,
)
BATCH_SIZE: Final = _bytes("batch.size", 256 << 10, "Most bytes of a record batch, uncompressed.")
COMPRESSION_TYPE: Final = Option(
    "compression.type",
    str,
    default="none",
    choices=("none", "gzip", "snappy", "lz4", "zstd"),
    doc="Codec of the record batches.",
    since=_SINCE,
)
MAX_REQUEST_SIZE: Final = _bytes("max.request.size", 1 << 20, "Most bytes of a request.")
DELIVERY_TIMEOUT_MS: Final = Option(
    "delivery.timeout.ms",
    int,
    default=120_000,
    validator=at_least(1),
    doc="Longest time in which a batch is tried again.",
    since=_SINCE,
)
MAX_IN_FLIGHT: Final = Option(
    "max.in.flight.requests.per.connection",
    int,
    default=5,
    validator=lambda value: None if 1 <= value <= 5 else "1 to 5",
    doc="Requests on their way to a broker at a time.",
    since=_SINCE,
)
TRANSACTION_TIMEOUT_MS: Final = Option(
    "transaction.timeout.ms",
    int,
    default=600_000,
    validator=at_least(1),
    doc="Age at which the broker aborts a transaction.",
    since=_SINCE,
)

#: What a sink understands beside these, and all of it.
WRITING_PROPERTIES: Final = OptionSet(
    ACKS,
    BATCH_SIZE,
    COMPRESSION_TYPE,
    MAX_REQUEST_SIZE,
    DELIVERY_TIMEOUT_MS,
    MAX_IN_FLIGHT,
    TRANSACTION_TIMEOUT_MS,
)
PRODUCER_PROPERTIES: Final = CLIENT_PROPERTIES.extended(
    *WRITING_PROPERTIES, scope="Kafka's producer"
)

_CLASSES = "names a class of Java; there is no Java in this client"
_STORES = "belongs to key stores of Java; give PEM"
_OURS = "is decided by the connector"
_GROUPS = "belongs to consumer groups; partitions are assigned by the source, not by the broker"

#: Properties of Java's clients that are not understood here, and why.
_REFUSED: Final[Mapping[str, str]] = {
    "key.deserializer": f"{_CLASSES}: choose the format of keys by the source's options",
    "value.deserializer": f"{_CLASSES}: choose the format of values by the source's options",
    "key.serializer": f"{_CLASSES}: choose the format of keys by the sink's options",
    "value.serializer": f"{_CLASSES}: choose the format of values by the sink's options",
    "partitioner.class": f"{_CLASSES}: choose the partitioner by the sink's options",
    "interceptor.classes": _CLASSES,
    "metric.reporters": _CLASSES,
    "sasl.login.class": _CLASSES,
    "sasl.login.callback.handler.class": _CLASSES,
    "sasl.client.callback.handler.class": _CLASSES,
    "security.providers": _CLASSES,
    "ssl.engine.factory.class": _CLASSES,
    "ssl.provider": _CLASSES,
    "ssl.truststore.password": _STORES,
    "ssl.keystore.password": f"{_STORES}; the password of a PEM key is ssl.key.password",
    "ssl.keymanager.algorithm": _STORES,
    "ssl.trustmanager.algorithm": _STORES,
    "partition.assignment.strategy": _GROUPS,
    "group.protocol": _GROUPS,
    "group.instance.id": _GROUPS,
    "session.timeout.ms": _GROUPS,
    "heartbeat.interval.ms": _GROUPS,
    "max.poll.interval.ms": _GROUPS,
    "auto.offset.reset": f"{_OURS}: give the starting offsets",
    "enable.auto.commit": f"{_OURS}: positions are those of the checkpoint",
    "auto.commit.interval.ms": f"{_OURS}: positions are those of the checkpoint",
    "isolation.level": f"{_OURS}: choose the isolation level by the source's options",
    "max.poll.records": f"{_OURS}: choose the rows of a batch by the source's options",
    "exclude.internal.topics": f"{_OURS}: a pattern never finds internal topics",
    "allow.auto.create.topics": f"{_OURS}: the client never makes topics",
    "transactional.id": f"{_OURS}: choose the prefix of transactional ids by the sink's options",
    "enable.idempotence": f"{_OURS}: the producer is always idempotent",
    "retries": f"{_OURS}: delivery.timeout.ms limits them",
    "linger.ms": f"{_OURS}: rows come in batches already",
    "buffer.memory": f"{_OURS}: memory is bounded by the batches that are on their way",
    "max.block.ms": f"{_OURS}: see default.api.timeout.ms",
    "sasl.kerberos.service.name": "belongs to Kerberos, which this connector does not offer",
    "sasl.oauthbearer.token.endpoint.url": "belongs to OAuth, which this connector does not offer",
}

_JAAS_OPTION: Final = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))')
_JAAS_MODULES: Final[Mapping[str, str]] = {
    "PlainLoginModule": "PLAIN",
    "ScramLoginModule": "SCRAM-SHA-",
}


@dataclass(frozen=True)
class ClientConfig:
    """Checked properties of a client; may be shown, pickled and shipped to executors.

    Args:
        options: Values by declaration; made by :meth:`of`.
    """

    options: Options

    @classmethod
    def of(
        cls, properties: Mapping[str, Any], declared: OptionSet = CLIENT_PROPERTIES
    ) -> ClientConfig:
        """Check properties by Kafka's names, e.g. `{"bootstrap.servers": "host:9092"}`.

        Args:
            properties: Values as a user gave them; passwords may be a `Secret`.
            declared: What this client understands.

        Raises:
            UnsupportedError: One makes sense for Java's client only, with the reason.
            OptionError: One is unknown (with what may have been meant), missing or wrong.
            ConfigurationError: They do not fit together.
        """
        for key in properties:
            reason = _REFUSED.get(key.lower())
            if reason is not None:
                raise UnsupportedError(
                    f"the property {key!r} cannot be used",
                    found=f"it {reason}",
                    option=f"properties.{key}",
                    hint="remove it",
                )
        config = cls(declared.parse(properties))
        config._check_login()
        return config

    def __getitem__(self, option: Option[T]) -> T:
        return self.options[option]

    def get(self, option: Option[T]) -> T | None:
        """The value of a property, its default, or None."""
        return self.options.get(option)

    @property
    def servers(self) -> tuple[str, ...]:
        """The brokers to begin with."""
        servers: tuple[str, ...] = self.options.values[BOOTSTRAP_SERVERS.key]
        return servers

    @property
    def uses_sasl(self) -> bool:
        """Whether a user logs in."""
        return self[SECURITY_PROTOCOL].startswith("SASL")

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self[SECURITY_PROTOCOL].endswith("SSL")

    def client_arguments(self) -> dict[str, Any]:
        """What kafka-python's clients are made with; holds secrets in the clear: never show it.

        Raises:
            ConfigurationError: A certificate or key cannot be read.
        """
        arguments: dict[str, Any] = {
            "bootstrap_servers": list(self.servers),
            "client_id": self[CLIENT_ID],
            "request_timeout_ms": self[REQUEST_TIMEOUT_MS],
            "retry_backoff_ms": self[RETRY_BACKOFF_MS],
            "metadata_max_age_ms": self[METADATA_MAX_AGE_MS],
            "reconnect_backoff_ms": self[RECONNECT_BACKOFF_MS],
            "reconnect_backoff_max_ms": self[RECONNECT_BACKOFF_MAX_MS],
            "connections_max_idle_ms": self[CONNECTIONS_MAX_IDLE_MS],
            "client_dns_lookup": self[CLIENT_DNS_LOOKUP],
            "security_protocol": self[SECURITY_PROTOCOL],
        }
        if self.uses_tls:
            arguments["ssl_context"] = self._tls().context()
        if self.uses_sasl:
            user, password = self._login()
            arguments["sasl_mechanism"] = self[SASL_MECHANISM]
            arguments["sasl_plain_username"] = user
            arguments["sasl_plain_password"] = password.reveal()
        return arguments

    def _tls(self) -> TlsFiles:
        return TlsFiles(
            authorities_file=self.get(SSL_TRUSTSTORE_LOCATION),
            authorities=self.get(SSL_TRUSTSTORE_CERTIFICATES),
            identity_file=self.get(SSL_KEYSTORE_LOCATION),
            certificate_chain=self.get(SSL_KEYSTORE_CERTIFICATE_CHAIN),
            key=self.get(SSL_KEYSTORE_KEY),
            key_password=self.get(SSL_KEY_PASSWORD),
            check_hostname=self[SSL_ENDPOINT_IDENTIFICATION] == "https",
        )

    def _check_login(self) -> None:
        if self.uses_sasl:
            self._login()
            return
        for option in (SASL_MECHANISM, SASL_USERNAME, SASL_PASSWORD, SASL_JAAS_CONFIG):
            if self.options.is_given(option):
                raise ConfigurationError(
                    f"{option.key!r} has no effect without a login",
                    expected="security.protocol SASL_SSL or SASL_PLAINTEXT",
                    found=self[SECURITY_PROTOCOL],
                    option="properties.security.protocol",
                )

    def _login(self) -> tuple[str, Secret]:
        mechanism = self[SASL_MECHANISM]
        jaas = self.get(SASL_JAAS_CONFIG)
        if jaas is not None:
            if self.options.is_given(SASL_USERNAME) or self.options.is_given(SASL_PASSWORD):
                raise InvalidOptionError(
                    "the user is given twice",
                    expected="sasl.username and sasl.password, or sasl.jaas.config",
                    option="properties.sasl.jaas.config",
                )
            return _parse_jaas(jaas, mechanism)
        user, password = self.get(SASL_USERNAME), self.get(SASL_PASSWORD)
        if user is None:
            raise MissingOptionError("properties.sasl.username", doc=SASL_USERNAME.doc)
        if password is None:
            raise MissingOptionError("properties.sasl.password", doc=SASL_PASSWORD.doc)
        return user, password


def _parse_jaas(jaas: Secret, mechanism: str) -> tuple[str, Secret]:
    text = jaas.reveal().strip()
    module = text.split(None, 1)[0].rsplit(".", 1)[-1] if text else ""
    expected = _JAAS_MODULES.get(module)
    if expected is None or not mechanism.startswith(expected):
        raise _malformed_jaas(f"the login module of {mechanism}")
    found = {
        name: re.sub(r"\\(.)", r"\1", quoted) if quoted else plain
        for name, quoted, plain in _JAAS_OPTION.findall(text)
    }
    if "username" not in found or "password" not in found or not text.endswith(";"):
        raise _malformed_jaas('username="..." password="..."; with the semicolon')
    return found["username"], Secret(found["password"])


def _malformed_jaas(expected: str) -> OptionError:
    return InvalidOptionError(
        "sasl.jaas.config cannot be read",
        expected=expected,
        found="a text that is not shown",
        option="properties.sasl.jaas.config",
        hint="or use sasl.username and sasl.password",
    )
