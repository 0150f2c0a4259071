# SPDX-License-Identifier: Apache-2.0
"""The API that the guide reads: shops and their orders, in memory, on loopback.

An account is its token. Its shops and orders are those that were added for it. The server is a
process of its own, because tests kill drivers and look for threads that were left.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from subprocess import PIPE
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from connectors_core.testing import TestSystem

__all__ = ["Account", "OrdersApi", "running_server"]

_MOST_ORDERS = 20  # of a page


@contextmanager
def running_server() -> Iterator[str]:
    """Run a server that ends with the block or with this process.

    Yields:
        Its address, as `host:port`.
    """
    with subprocess.Popen(
        [sys.executable, "-m", "connector_shops.testing"], stdin=PIPE, stdout=PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()


class OrdersApi(TestSystem):
    """The server of a test run: a running one, or a new one."""

    name = "shops"
    variable = "SHOPS_ADDRESS"

    def embedded(self) -> AbstractContextManager[str]:
        """Start this one."""
        return running_server()


class Account:
    """An account from the shops' side, for tests and examples.

    Args:
        address: Address of the server.
        token: Token of the account, which is opened by its first orders.
    """

    def __init__(self, address: str, token: str) -> None:
        self._address = address
        self._headers = {"Authorization": f"Bearer {token}"}

    def add(self, shop: int, orders: Sequence[Mapping[str, Any]]) -> None:
        """Add orders to a shop. The first call opens the shop, even without orders."""
        with closing(HTTPConnection(self._address, timeout=30)) as http:
            body = json.dumps(orders).encode()
            http.request("POST", f"/shops/{shop}/orders", body, self._headers)
            status = http.getresponse().status
            if status != 200:
                raise ConnectionError(f"the orders were refused: {status}")


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.accounts: dict[str, dict[int, list[Any]]] = {}
        self.lock = threading.Lock()

    def handle_error(self, request: object, client_address: object) -> None:
        """Log nothing: a closed client abandons its request."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # a connection serves many calls
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        assert isinstance(self.server, _Server)
        self._api = self.server

    def do_GET(self) -> None:
        with self._api.lock:
            shops = self._api.accounts.get(self._token())
            if shops is None:
                self._answer(401, {"error": "no such token"})
                return
            url = urlsplit(self.path)
            match url.path.strip("/").split("/"):
                case ["shops"]:
                    self._answer(200, [{"shop": s, "orders": len(shops[s])} for s in sorted(shops)])
                case ["shops", shop, "orders"] if shop.isdigit() and int(shop) in shops:
                    query = dict(parse_qsl(url.query))
                    first, limit = int(query["from"]), min(int(query["limit"]), _MOST_ORDERS)
                    page = shops[int(shop)][first : first + limit]
                    self._answer(200, {"orders": page, "next": first + len(page)})
                case _:
                    self._answer(404, {"error": "no such shop"})

    def do_POST(self) -> None:
        orders = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        shop = int(self.path.split("/")[2])
        with self._api.lock:
            shops = self._api.accounts.setdefault(self._token(), {})
            shops.setdefault(shop, []).extend(orders)
        self._answer(200, {})

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def _token(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")

    def _answer(self, status: int, answer: object) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve() -> None:
    """Run the server until standard input ends."""
    with _Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"127.0.0.1:{server.server_port}", flush=True)
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    serve()
