# SPDX-License-Identifier: Apache-2.0
"""Client properties by Kafka's own dotted names, and their equivalents in kafka-python."""

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
from connectors_core.options import (
    Option,
    Options,
    OptionSet,
    OptionType,
    at_least,
    between,
    list_of,
    not_empty,
)
from connectors_core.secrets import Secret

__all__ = [
    "CLIENT_PROPERTIES",
    "CONSUMER_PROPERTIES",
    "PRODUCER_PROPERTIES",
    "ClientConfig",
]

T = TypeVar("T")


def _property(key: str, kind: type[T] | OptionType[T], doc: str, **declared: Any) -> Option[T]:
    return Option(key, kind, doc=doc, since="2.0.0", **declared)


def _milliseconds(key: str, default: int, doc: str, *, least: int = 0) -> Option[int]:
    return _property(key, int, doc, default=default, unit="ms", validator=at_least(least))


def _bytes(key: str, default: int, doc: str, *, least: int = 1) -> Option[int]:
    return _property(key, int, doc, default=default, unit="bytes", validator=at_least(least))


BOOTSTRAP_SERVERS: Final = _property(
    "bootstrap.servers",
    list_of(str),
    "Bootstrap brokers, as `host:port, host:port`.",
    required=True,
    validator=not_empty,
    aliases=(
        "kafka.bootstrap.servers",
        "metadata.broker.list",
        "brokers",
        "bootstrap-servers",
        "bootstrap_servers",
    ),
)
CLIENT_ID: Final = _property(
    "client.id", str, "Name of the client in the broker's logs.", default="connector-kafka"
)
CLIENT_RACK: Final = _property(
    "client.rack",
    str,
    "Rack of this client, so that it reads from the nearest replica.",
    default="",
)
REQUEST_TIMEOUT_MS: Final = _milliseconds(
    "request.timeout.ms",
    30_000,
    "Maximum wait for a response. After it, the client closes the connection.",
    least=1,
)
API_TIMEOUT_MS: Final = _milliseconds(
    "default.api.timeout.ms",
    60_000,
    "Deadline of an operation with all its retries. Each attempt can take up to "
    "`request.timeout.ms`.",
    least=1,
)
RETRY_BACKOFF_MS: Final = _milliseconds(
    "retry.backoff.ms", 100, "Initial wait before a retry. It doubles with each retry."
)
RETRY_BACKOFF_MAX_MS: Final = _milliseconds(
    "retry.backoff.max.ms", 1_000, "Maximum wait before a retry."
)
METADATA_MAX_AGE_MS: Final = _milliseconds(
    "metadata.max.age.ms", 300_000, "Age at which the client refreshes the partition leaders."
)
RECONNECT_BACKOFF_MS: Final = _milliseconds(
    "reconnect.backoff.ms",
    50,
    "Initial wait before reconnecting to a broker. It doubles with each attempt.",
)
RECONNECT_BACKOFF_MAX_MS: Final = _milliseconds(
    "reconnect.backoff.max.ms", 1_000, "Maximum wait before reconnecting to a broker."
)
CONNECTION_SETUP_TIMEOUT_MS: Final = _milliseconds(
    "socket.connection.setup.timeout.ms", 10_000, "Timeout for setting up a connection."
)
CONNECTION_SETUP_TIMEOUT_MAX_MS: Final = _milliseconds(
    "socket.connection.setup.timeout.max.ms",
    30_000,
    "Maximum timeout for setting up a connection after failures.",
)
CONNECTIONS_MAX_IDLE_MS: Final = _milliseconds(
    "connections.max.idle.ms", 540_000, "Idle time after which a connection is closed."
)
RECEIVE_BUFFER_BYTES: Final = _bytes(
    "receive.buffer.bytes", -1, "TCP receive buffer. -1 uses the system default.", least=-1
)
SEND_BUFFER_BYTES: Final = _bytes(
    "send.buffer.bytes", -1, "TCP send buffer. -1 uses the system default.", least=-1
)
CLIENT_DNS_LOOKUP: Final = _property(
    "client.dns.lookup",
    str,
    "DNS lookup of broker names.",
    default="use_all_dns_ips",
    choices=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
)
SECURITY_PROTOCOL: Final = _property(
    "security.protocol",
    str,
    "Protocol between client and brokers.",
    default="PLAINTEXT",
    choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    aliases=("kafka.security.protocol",),
)
SASL_MECHANISM: Final = _property(
    "sasl.mechanism",
    str,
    "Login mechanism.",
    choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    aliases=("sasl.mechanisms",),
)
SASL_USERNAME: Final = _property(
    "sasl.username",
    str,
    "User name. It can also be part of `sasl.jaas.config`, as for Java's clients.",
)
SASL_PASSWORD: Final = _property("sasl.password", Secret, "Password of the user.")
SASL_JAAS_CONFIG: Final = _property(
    "sasl.jaas.config",
    Secret,
    'As for Java\'s clients: `...LoginModule required username="u" password="p";`.',
)
SSL_TRUSTSTORE_TYPE: Final = _property(
    "ssl.truststore.type", str, "Only PEM is supported.", default="PEM", choices=("PEM",)
)
SSL_TRUSTSTORE_LOCATION: Final = _property(
    "ssl.truststore.location",
    str,
    "PEM file of the trusted authorities. The default is the system's authorities.",
    aliases=("ssl.ca.location", "ssl.cafile"),
)
SSL_TRUSTSTORE_CERTIFICATES: Final = _property(
    "ssl.truststore.certificates", str, "Trusted authorities as PEM text."
)
SSL_KEYSTORE_TYPE: Final = _property(
    "ssl.keystore.type", str, "Only PEM is supported.", default="PEM", choices=("PEM",)
)
SSL_KEYSTORE_LOCATION: Final = _property(
    "ssl.keystore.location",
    str,
    "PEM file with the client's private key and certificate chain.",
    aliases=("ssl.certificate.location", "ssl.certfile"),
)
SSL_KEYSTORE_CERTIFICATE_CHAIN: Final = _property(
    "ssl.keystore.certificate.chain", str, "The client's certificate chain as PEM text."
)
SSL_KEYSTORE_KEY: Final = _property(
    "ssl.keystore.key", Secret, "The client's private key as PEM text.", aliases=("ssl.key.pem",)
)
SSL_KEY_PASSWORD: Final = _property(
    "ssl.key.password", Secret, "Password of the client's private key."
)
SSL_ENDPOINT_IDENTIFICATION: Final = _property(
    "ssl.endpoint.identification.algorithm",
    str,
    "`https`: the certificate must contain the broker's host name. `none` or empty: no check.",
    default="https",
    choices=("https", "none", ""),
)

#: The properties of every client.
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

GROUP_ID: Final = _property(
    "group.id", str, "Consumer group whose committed offsets are read and written."
)
AUTO_OFFSET_RESET: Final = _property(
    "auto.offset.reset",
    str,
    "Start of partitions without a committed offset, for `scan.startup.mode` `group-offsets`.",
    default="earliest",
    choices=("earliest", "latest", "none"),
)
ISOLATION_LEVEL: Final = _property(
    "isolation.level",
    str,
    "With `read_committed`, the source skips records of open and aborted transactions.",
    default="read_uncommitted",
    choices=("read_uncommitted", "read_committed"),
)
FETCH_MIN_BYTES: Final = _bytes(
    "fetch.min.bytes", 1, "Minimum number of bytes before the broker answers a fetch."
)
FETCH_MAX_BYTES: Final = _bytes("fetch.max.bytes", 16 << 20, "Maximum number of bytes in a fetch.")
MAX_PARTITION_FETCH_BYTES: Final = _bytes(
    "max.partition.fetch.bytes", 4 << 20, "Maximum number of bytes per partition in a fetch."
)
FETCH_MAX_WAIT_MS: Final = _milliseconds(
    "fetch.max.wait.ms", 500, "Maximum time that the broker waits for `fetch.min.bytes`."
)
CHECK_CRCS: Final = _property(
    "check.crcs", bool, "Verify the checksums of record batches.", default=True
)

#: The additional properties of a source, and all of its properties.
READING_PROPERTIES: Final = OptionSet(
    GROUP_ID,
    AUTO_OFFSET_RESET,
    ISOLATION_LEVEL,
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

ACKS: Final = _property(
    "acks",
    str,
    "Number of replicas that must acknowledge a record.",
    default="all",
    choices=("all", "-1", "1", "0"),
)
BATCH_SIZE: Final = _bytes("batch.size", 256 << 10, "Maximum size of a record batch, uncompressed.")
COMPRESSION_TYPE: Final = _property(
    "compression.type",
    str,
    "Codec of the record batches.",
    default="none",
    choices=("none", "gzip", "snappy", "lz4", "zstd"),
)
MAX_REQUEST_SIZE: Final = _bytes("max.request.size", 1 << 20, "Maximum size of a request.")
DELIVERY_TIMEOUT_MS: Final = _milliseconds(
    "delivery.timeout.ms", 120_000, "Deadline for sending a batch, including retries.", least=1
)
MAX_IN_FLIGHT: Final = _property(
    "max.in.flight.requests.per.connection",
    int,
    "Maximum number of requests in flight per broker.",
    unit="requests",
    default=5,
    validator=between(1, 5),
)
TRANSACTION_TIMEOUT_MS: Final = _milliseconds(
    "transaction.timeout.ms", 600_000, "Age at which the broker aborts a transaction.", least=1
)

#: The additional properties of a sink, and all of its properties.
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

_CLASSES = "names a Java class, and this client does not use Java"
_STORES = "belongs to Java key stores; use PEM"
_OURS = "is controlled by the connector"
_GROUPS = "belongs to consumer groups; the source assigns partitions, not the broker"

#: Unsupported properties of Java's clients, with the reason.
_REFUSED: Final[Mapping[str, str]] = {
    "key.deserializer": f"{_CLASSES}: choose the format of keys in the source's options",
    "value.deserializer": f"{_CLASSES}: choose the format of values in the source's options",
    "key.serializer": f"{_CLASSES}: choose the format of keys in the sink's options",
    "value.serializer": f"{_CLASSES}: choose the format of values in the sink's options",
    "partitioner.class": f"{_CLASSES}: choose the partitioner in the sink's options",
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
    "enable.auto.commit": f"{_OURS}: the checkpoint stores the positions",
    "auto.commit.interval.ms": f"{_OURS}: the checkpoint stores the positions",
    "max.poll.records": f"{_OURS}: choose the number of rows in a batch in the source's options",
    "exclude.internal.topics": f"{_OURS}: a pattern never matches internal topics",
    "allow.auto.create.topics": f"{_OURS}: the client never creates topics",
    "transactional.id": f"{_OURS}: choose the prefix of transactional ids in the sink's options",
    "enable.idempotence": f"{_OURS}: the producer is always idempotent",
    "retries": f"{_OURS}: delivery.timeout.ms limits the retries",
    "linger.ms": f"{_OURS}: rows already arrive in batches",
    "buffer.memory": f"{_OURS}: the batches in flight limit the memory",
    "max.block.ms": f"{_OURS}: see default.api.timeout.ms",
    "sasl.kerberos.service.name": "belongs to Kerberos, which this connector does not support",
    "sasl.oauthbearer.token.endpoint.url": "belongs to OAuth, which this connector does not "
    "support",
}

_JAAS_OPTION: Final = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))')
_JAAS_MODULES: Final[Mapping[str, str]] = {
    "PlainLoginModule": "PLAIN",
    "ScramLoginModule": "SCRAM-SHA-",
}


@dataclass(frozen=True)
class ClientConfig:
    """Validated properties of a client, safe to show, pickle, and ship to executors.

    Args:
        options: Values by declaration, created by :meth:`of`.
    """

    options: Options

    @classmethod
    def of(
        cls, properties: Mapping[str, Any], declared: OptionSet = CLIENT_PROPERTIES
    ) -> ClientConfig:
        """Validate properties by Kafka's names, e.g. `{"bootstrap.servers": "host:9092"}`.

        Args:
            properties: The user's values. A password can be a `Secret`.
            declared: The properties that this client supports.

        Raises:
            UnsupportedError: A property only applies to Java's client. The error has the reason.
            OptionError: A property is unknown, missing, or not valid. For an unknown one, the error
                suggests similar names.
            ConfigurationError: Properties contradict each other.
        """
        for key in properties:
            reason = _REFUSED.get(key.lower())
            if reason is not None:
                raise UnsupportedError(
                    f"the property {key!r} is not supported",
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
        """Return the value of a property, its default, or None."""
        return self.options.get(option)

    @property
    def servers(self) -> tuple[str, ...]:
        """The bootstrap brokers."""
        servers: tuple[str, ...] = self.options.values[BOOTSTRAP_SERVERS.key]
        return servers

    @property
    def uses_sasl(self) -> bool:
        """Whether the client logs in."""
        return self[SECURITY_PROTOCOL].startswith("SASL")

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self[SECURITY_PROTOCOL].endswith("SSL")

    def client_arguments(self) -> dict[str, Any]:
        """Return the arguments of kafka-python's clients.

        They contain secrets in plain text: never show them.

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
            password.reveal()  # if that fails, the error says why; that of a login may not
            arguments["sasl_plain_password"] = password  # each login reveals it
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
            jaas = self.get(SASL_JAAS_CONFIG)
            if jaas is None or not jaas.varies:  # otherwise, only its use can check it
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
                    "the user is set twice",
                    expected="sasl.username and sasl.password, or sasl.jaas.config",
                    option="properties.sasl.jaas.config",
                )
            name, secret = _parse_jaas(jaas, mechanism)
            if jaas.varies:
                secret = Secret(lambda: _parse_jaas(jaas, mechanism)[1].reveal())
            return name, secret
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
    return found["username"], Secret.plain(found["password"])


def _malformed_jaas(expected: str) -> OptionError:
    return InvalidOptionError(
        "sasl.jaas.config cannot be read",
        expected=expected,
        found="a text that is not shown",
        option="properties.sasl.jaas.config",
        hint="or use sasl.username and sasl.password",
    )
