# SPDX-License-Identifier: Apache-2.0
"""The format of state documents: JSON in an envelope with format, kind, and checksum."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import orjson

from connectors_core.errors import StateCorruptedError, StateVersionError, UnsupportedError

__all__ = ["FORMAT", "decode", "encode"]

FORMAT: Final = 1
"""Version of the envelope. The layout of a payload is versioned within the payload."""

# Plain JSON only: orjson would write other types too, but could not read them back.
_STRICT: Final = (
    orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
)


def encode(kind: str, payload: Mapping[str, Any]) -> bytes:
    """Return a document as bytes; equal payloads give equal bytes.

    Args:
        kind: Kind of document, such as `plan`; a read checks it.
        payload: Plain JSON values.

    Raises:
        UnsupportedError: If the payload holds a value that is not plain JSON.
    """
    try:
        canonical = orjson.dumps(dict(payload), option=_STRICT)
    except TypeError as exc:
        raise UnsupportedError(
            f"a {kind} document cannot be stored",
            expected="plain JSON values",
            found=str(exc),
            hint="convert objects to JSON with a VersionedSerializer first",
        ) from exc
    envelope = {
        "checksum": hashlib.sha256(canonical).hexdigest(),
        "format": FORMAT,
        "kind": kind,
        "payload": orjson.Fragment(canonical),
    }
    return orjson.dumps(envelope)


def decode(kind: str, data: bytes, *, path: str | None = None) -> dict[str, Any]:
    """Read a document and check its integrity.

    Args:
        kind: The expected kind.
        data: The bytes of the file.
        path: Path of the file, for messages.

    Returns:
        The payload.

    Raises:
        StateCorruptedError: If it is truncated, altered, or of another kind.
        StateVersionError: If a newer release wrote it.
    """
    where = f"the {kind} document" + (f" {path}" if path else "")
    try:
        envelope = orjson.loads(data)
    except orjson.JSONDecodeError as exc:
        raise StateCorruptedError(
            f"{where} is truncated or was changed",
            expected="a JSON document",
            found=f"{len(data)} bytes: {exc}",
        ) from exc
    if not isinstance(envelope, dict) or not isinstance(envelope.get("format"), int):
        raise StateCorruptedError(
            f"{where} is not a state document",
            expected="an envelope with format, kind, checksum and payload",
        )
    if envelope["format"] > FORMAT:
        raise StateVersionError(
            f"{where} was written by a newer release",
            expected=f"format {FORMAT} or older",
            found=f"format {envelope['format']}",
        )
    if envelope.get("kind") != kind:
        raise StateCorruptedError(
            f"{where} has another kind",
            expected=kind,
            found=str(envelope.get("kind")),
        )
    payload = envelope.get("payload")
    checksum = hashlib.sha256(orjson.dumps(payload, option=_STRICT)).hexdigest()
    if not isinstance(payload, dict) or checksum != envelope.get("checksum"):
        raise StateCorruptedError(
            f"{where} was changed",
            expected=f"checksum {envelope.get('checksum')}",
            found=f"checksum {checksum}",
        )
    return payload
