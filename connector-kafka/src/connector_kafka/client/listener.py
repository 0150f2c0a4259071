# SPDX-License-Identifier: Apache-2.0
"""Detects the security protocol of a broker's listener, without the client's settings.

A broker closes the connection of a client that uses another protocol, without a reason.
"""

from __future__ import annotations

import socket
import ssl
import struct
from typing import Final

from connector_kafka.errors import KafkaRequestError

__all__ = ["check_protocol", "protocol_at"]

_SECONDS: Final = 2.0
_SASL_HANDSHAKE: Final = 17
_NO_MECHANISM: Final = b"-"
# Correlation id, error code.
_ANSWER: Final = struct.Struct(">ih")
_SIZE: Final = struct.Struct(">i")
_UNSUPPORTED_MECHANISM: Final = 33
_NO_LOGIN_HERE: Final = 34


def check_protocol(host: str, port: int, configured: str) -> None:
    """Compare `security.protocol` with the protocol of a broker, which takes some seconds.

    Sends no data of the user: no password and no certificate. Driver and executor.

    Args:
        host: The broker's host.
        port: The broker's port.
        configured: The client's setting.

    Raises:
        KafkaRequestError: The broker speaks another protocol.
    """
    spoken = protocol_at(host, port)
    if spoken is not None and spoken != configured:
        raise KafkaRequestError(
            f"the broker at {host}:{port} uses another protocol",
            expected=f"{spoken}, which the broker uses at this port",
            found=configured,
            option="properties.security.protocol",
            hint="set the protocol of the listener at this port, or use the port of another "
            "listener",
        )


def protocol_at(host: str, port: int) -> str | None:
    """Return the value of `security.protocol` for an address, or None if it cannot be detected."""
    try:
        encrypted = _speaks_tls(host, port)
        with socket.create_connection((host, port), _SECONDS) as plain:
            if not encrypted:
                login = _wants_login(plain)
            else:
                with _context().wrap_socket(plain, server_hostname=host) as secured:
                    login = _wants_login(secured)
    except OSError:  # closed meanwhile, or requires a client certificate first
        return None
    if login is None:
        return None
    transport = "SSL" if encrypted else "PLAINTEXT"
    return f"SASL_{transport}" if login else transport


def _speaks_tls(host: str, port: int) -> bool:
    with socket.create_connection((host, port), _SECONDS) as plain:
        try:
            with _context().wrap_socket(plain, server_hostname=host):
                return True
        except ssl.SSLError as error:
            # A server that sends an alert uses TLS, and only requires something that the probe
            # lacks.
            return "ALERT" in (error.reason or "")
        except OSError:
            return False


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the probe sends no data of the user
    return context


def _wants_login(connection: socket.socket) -> bool | None:
    """Request an unknown login mechanism: the response lists the supported ones."""
    client = b"listener-check"
    request = struct.pack(">hhih", _SASL_HANDSHAKE, 1, 0, len(client)) + client
    request += struct.pack(">h", len(_NO_MECHANISM)) + _NO_MECHANISM
    connection.sendall(_SIZE.pack(len(request)) + request)
    answer = b""
    while len(answer) < _SIZE.size + _ANSWER.size:
        read = connection.recv(4096)
        if not read:
            return None
        answer += read
    _, code = _ANSWER.unpack_from(answer, _SIZE.size)
    return {_UNSUPPORTED_MECHANISM: True, _NO_LOGIN_HERE: False}.get(code)
