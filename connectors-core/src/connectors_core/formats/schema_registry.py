# SPDX-License-Identifier: Apache-2.0
"""Registries for the schemas of messages that contain only a schema id (Confluent's registry)."""

from __future__ import annotations

import base64
import http.client
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Protocol, cast

import orjson

from connectors_core.errors import ConfigurationError, InvalidOptionError, RetryableError
from connectors_core.options import Configured, Setting, option, positive
from connectors_core.secrets import Secret, mask_url

__all__ = [
    "HttpSchemaRegistry",
    "RegisteredSchema",
    "SchemaRegistry",
    "StaticSchemaRegistry",
    "UnknownSchemaError",
]

_ANSWER_BYTES: Final = 16 << 20
AVRO: Final = "AVRO"
JSON: Final = "JSON"
_TYPE: Final = "application/vnd.schemaregistry.v1+json"


class UnknownSchemaError(LookupError):
    """The registry has no schema with this id that a format reads."""


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema of a registry.

    Attributes:
        kind: Its language: `AVRO`, `JSON`, or `PROTOBUF`.
        text: Its text.
    """

    kind: str
    text: str


class SchemaRegistry(Protocol):
    """Maps ids to schemas and assigns ids; an immutable value that is sent to executors."""

    def schema_of(self, schema_id: int) -> str:
        """Return a schema as JSON, and cache it; driver or executor.

        Raises:
            UnknownSchemaError: It does not exist.
            RetryableError: The registry is temporarily unreachable.
            ConfigurationError: The registry rejects the request.
        """

    def register(self, subject: str, schema: str) -> int:
        """Return the id of a schema under a subject; register it if necessary.

        Raises:
            RetryableError: The registry is temporarily unreachable.
            ConfigurationError: The registry rejects the schema or the request.
        """


@dataclass(frozen=True)
class StaticSchemaRegistry:
    """A registry with a fixed set of schemas.

    Args:
        schemas: Schemas as JSON, by id.
    """

    schemas: Mapping[int, str]

    def schema_of(self, schema_id: int) -> str:
        """See `SchemaRegistry`."""
        try:
            return self.schemas[schema_id]
        except KeyError:
            raise UnknownSchemaError(f"the schema {schema_id} does not exist") from None

    def register(self, subject: str, schema: str) -> int:
        """See `SchemaRegistry`; the schema must be in the set."""
        wanted = orjson.loads(schema)
        for schema_id, known in self.schemas.items():
            if orjson.loads(known) == wanted:
                return schema_id
        raise ConfigurationError(
            f"the schema of the subject {subject!r} has no id",
            expected="one of the schemas of the registry",
            found=schema,
            option="avro-confluent.schema",
        )


class HttpSchemaRegistry(Configured, scope="schema registry"):
    """A registry with Confluent's HTTP interface.

    Raises:
        ConfigurationError: If the address is invalid.
    """

    url: Setting[str] = option(
        "avro-confluent.url",
        str,
        doc="Address of the schema registry.",
        since="1.0.0",
        aliases=("schema.registry.url",),
    )
    user_info: Setting[Secret | None, Secret | str | None] = option(
        "avro-confluent.basic-auth.user-info",
        Secret,
        default=None,
        doc="`user:password` for the schema registry.",
        since="1.0.0",
        aliases=("basic.auth.user.info",),
    )
    timeout: Setting[timedelta, timedelta | str] = option(
        "avro-confluent.timeout",
        timedelta,
        default=timedelta(seconds=10),
        doc="Timeout for the schema registry.",
        since="1.0.0",
        validator=positive,
    )

    def __post_init__(self) -> None:
        self._schemas: dict[int, str] = {}
        self._ids: dict[tuple[str, str], int] = {}
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise ConfigurationError(
                "the address of the schema registry cannot be used",
                expected="http:// or https:// with a host, and no user",
                found=mask_url(self.url),
                option="avro-confluent.url",
                hint="pass user and password in avro-confluent.basic-auth.user-info",
            )

    def schema_of(self, schema_id: int) -> str:
        """See `SchemaRegistry`."""
        if schema_id not in self._schemas:
            answer = self._ask(f"/schemas/ids/{schema_id}")
            if answer is None:
                raise UnknownSchemaError(f"the registry has no schema {schema_id}")
            what = f"the schema {schema_id}"
            schema = self._registered(answer, what)
            if schema.kind != AVRO:
                raise UnknownSchemaError(f"{what} is not an Avro schema, but one of {schema.kind}")
            self._schemas[schema_id] = schema.text
        return self._schemas[schema_id]

    def newest_schema(self, subject: str) -> RegisteredSchema | None:
        """Return the newest schema of a subject, or None if it has none; driver.

        Raises:
            UnknownSchemaError: It refers to others.
            RetryableError: The registry is temporarily unreachable.
            ConfigurationError: The registry rejects the request.
        """
        answer = self._ask(f"{_path_of(subject)}/latest")
        return None if answer is None else self._registered(answer, f"the schema of {subject}")

    def register(self, subject: str, schema: str) -> int:
        """See `SchemaRegistry`."""
        key = (subject, schema)
        if key not in self._ids:
            answer = self._ask(_path_of(subject), {"schema": schema})
            if answer is None:
                raise self._refusal("the address is not a schema registry")
            if not isinstance(answer.get("id"), int):
                raise self._refusal("its response has no id of the schema")
            self._ids[key] = answer["id"]
        return self._ids[key]

    def _registered(self, answer: Mapping[str, Any], what: str) -> RegisteredSchema:
        """Return the schema of a response.

        Raises:
            UnknownSchemaError: It is not complete.
            ConfigurationError: There is none.
        """
        if answer.get("references"):
            raise UnknownSchemaError(f"{what} refers to others")
        if "schema" not in answer:
            raise self._refusal("its response has no schema")
        return RegisteredSchema(str(answer.get("schemaType", AVRO)), str(answer["schema"]))

    def _ask(self, path: str, content: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        request = urllib.request.Request(  # noqa: S310 - the scheme was checked
            self.url.rstrip("/") + path,
            data=None if content is None else orjson.dumps(content),
            headers={"Accept": _TYPE, "Content-Type": _TYPE},
        )
        if self.user_info is not None:
            token = base64.b64encode(self.user_info.reveal().encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {token}")
        try:
            seconds = self.timeout.total_seconds()
            with urllib.request.urlopen(request, timeout=seconds) as response:  # noqa: S310
                answer = orjson.loads(response.read(_ANSWER_BYTES))
        except urllib.error.HTTPError as exc:
            exc.close()
            if exc.code == 404:
                return None
            if exc.code == 429 or exc.code >= 500:
                raise self._unreachable(f"it responded with {exc.code}") from exc
            raise self._refusal(f"it responded with {exc.code}") from exc
        except (OSError, http.client.HTTPException) as exc:  # timeouts and closed connections
            raise self._unreachable(str(exc)) from exc
        except ValueError as exc:
            raise self._refusal("its response is not JSON") from exc
        if not isinstance(answer, dict):
            raise self._refusal("its response is not a JSON object")
        return answer

    def _unreachable(self, found: str) -> RetryableError:
        return RetryableError(
            f"the schema registry {mask_url(self.url)} is unreachable",
            found=found,
            option="avro-confluent.url",
            hint="check that it is running",
        )

    def _refusal(self, found: str) -> ConfigurationError:
        return ConfigurationError(
            f"the schema registry {mask_url(self.url)} rejected a request",
            found=found,
            option="avro-confluent.url",
            hint="check the address, avro-confluent.basic-auth.user-info and the schema",
        )


def as_registry(given: Any) -> SchemaRegistry:
    """Return a registry of schemas.

    Raises:
        InvalidOptionError: It is none.
    """
    if not all(callable(getattr(given, each, None)) for each in ("schema_of", "register")):
        raise InvalidOptionError(
            "the registry of the schemas cannot be used",
            expected="a SchemaRegistry, such as HttpSchemaRegistry(url=...)",
            found=type(given).__name__,
            option="registry",
        )
    return cast("SchemaRegistry", given)


def _path_of(subject: str) -> str:
    return f"/subjects/{urllib.parse.quote(subject, safe='')}/versions"
