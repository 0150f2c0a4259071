# SPDX-License-Identifier: Apache-2.0
"""Gives kafka-python a password for each login, and keeps passwords out of its logs."""

from __future__ import annotations

import logging
from typing import Any, Final

from kafka.net.sasl import get_sasl_mechanism, register_sasl_mechanism

from connectors_core.secrets import Secret

__all__ = ["prepare_logins"]

_PASSWORD: Final = "sasl_plain_password"  # noqa: S105 - the name of an argument

# At DEBUG, these loggers log requests, also as bytes. Login requests contain the password.
_LOGGERS: Final = ("kafka.net.connection", "kafka.protocol.parser")
_HIDDEN: Final = "(not shown)"
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class _LoginFilter(logging.Filter):
    """Replaces logins in the arguments of a log record."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Pass every record through, without logins."""
        if isinstance(record.args, tuple):
            record.args = tuple(_HIDDEN if _may_be_login(each) else each for each in record.args)
        return True


def _may_be_login(value: object) -> bool:
    return isinstance(value, (bytes, bytearray, memoryview)) or (
        type(value).__name__.startswith("Sasl")
    )


_filter: Final = _LoginFilter()


def _revealing(mechanism: Any) -> Any:
    """Return a mechanism that reveals its password for each login."""

    class Revealing(mechanism):  # type: ignore[misc]  # it has no types
        def __init__(self, **config: Any) -> None:
            password = config.get(_PASSWORD)
            if isinstance(password, Secret):
                config[_PASSWORD] = password.reveal()
            super().__init__(**config)

    return Revealing


def prepare_logins() -> None:
    """Prepare the client of this process. Repeated calls have no effect."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_filter)
    for name in _MECHANISMS:
        known = get_sasl_mechanism(name)
        if known.__module__ != __name__:
            register_sasl_mechanism(name, _revealing(known), overwrite=True)
