# SPDX-License-Identifier: Apache-2.0
"""The service of docs/write-a-connector/async-sink.md: a process that tests can kill.

A request is a line with a list of documents. The response has a status and the numbers of the
documents that were rejected temporarily or permanently. The service appends an accepted document to
its file before the response, once for each time that it is accepted. It rejects one of five
documents at its first attempt, and a document with a negative value permanently.

A line with an object sets the fault of the next requests (`DocumentService.tell`).
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32


@dataclass
class DocumentService:
    """A running service. Accepted documents survive a kill."""

    file: Path
    port: int
    process: subprocess.Popen[str]

    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.read_text().splitlines()]

    def tell(self, **orders: Any) -> None:
        """Set the fault of the next requests.

        Args:
            **orders: `fault`, a `RequestFault` or None, with `requests`, the number of requests; or
                `reject`, the `seq` of a document to reject permanently.
        """
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(json.dumps(orders).encode() + b"\n")
            assert connection.makefile().readline() == "{}\n"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def start_again(self) -> None:
        self.process, port = _start(self.port, self.file)
        assert port == self.port


@contextmanager
def running_service(file: Path) -> Iterator[DocumentService]:
    """Run a service until the end of the block or of this process.

    Args:
        file: The file for the documents.
    """
    process, port = _start(0, file)
    service = DocumentService(file, port, process)
    try:
        yield service
    finally:
        service.kill()


def _start(port: int, file: Path) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, __file__, str(port), str(file)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


# --- The process ----------------------------------------------------------------------------------


def is_refused_at_first(document: bytes) -> bool:
    return crc32(document) % 5 == 0


class Documents:
    """Accepts or rejects documents."""

    def __init__(self, output: BinaryIO) -> None:
        self.output = output
        self.seen: set[bytes] = set()
        self.never: set[int] = set()
        self.refuses_at_first = True
        self.fault: str | None = None
        self.left: int | None = None
        self.goes_on = asyncio.Event()

    def obey(self, orders: dict[str, Any]) -> None:
        self.refuses_at_first = False
        if "reject" in orders:
            self.never.add(orders["reject"])
        else:
            self.fault, self.left = orders["fault"], orders["requests"]
            if self.fault is None:
                self.goes_on.set()

    async def answer(self, documents: list[dict[str, Any]]) -> dict[str, Any] | None:
        """Return the response to a request, or None for no response."""
        fault = self._next_fault()
        if fault == "stall":
            await self.goes_on.wait()
        if fault in {"refuse", "refuse for good"}:
            return {"status": 429 if fault == "refuse" else 401}
        refused: dict[str, list[int]] = {"later": [], "never": []}
        for number, document in enumerate(documents):
            text = json.dumps(document, separators=(",", ":")).encode()
            if document.get("value", 0) < 0 or document.get("seq") in self.never:
                refused["never"].append(number)
            elif (fault == "refuse some" and number % 2 == 0) or self._is_refused_at_first(text):
                refused["later"].append(number)
            else:
                self.output.write(text + b"\n")
            self.seen.add(text)
        self.output.flush()
        return None if fault == "lose answer" else {"status": 200, **refused}

    def _next_fault(self) -> str | None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                return None
        return self.fault

    def _is_refused_at_first(self, text: bytes) -> bool:
        return self.refuses_at_first and is_refused_at_first(text) and text not in self.seen


async def main(port: int, file: Path) -> None:
    with file.open("ab") as output:
        documents = Documents(output)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while line := await reader.readline():
                said = json.loads(line)
                if isinstance(said, dict):
                    documents.obey(said)
                    answer: dict[str, Any] | None = {}
                else:
                    answer = await documents.answer(said)
                if answer is None:
                    break
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", port, limit=1 << 24)
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.to_thread(sys.stdin.read)  # ends with the process that started it


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2])))
