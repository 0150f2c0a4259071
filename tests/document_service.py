# SPDX-License-Identifier: Apache-2.0
"""The service of docs/write-a-connector/async-sink.md: a process on loopback, which tests kill.

A request is a line with a list of documents; the answer says by number which were refused for now
and which for good. A document is in the file before its request is answered, once for every time
that it was taken. One of five is refused the first time; one with a negative value for good.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32


@dataclass
class DocumentService:
    """A running service; what it took stays when it is killed."""

    file: Path
    port: int
    process: subprocess.Popen[str]

    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.read_text().splitlines()]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def start_again(self) -> None:
        self.process, port = _start(self.port, self.file)
        assert port == self.port


@contextmanager
def running_service(file: Path) -> Iterator[DocumentService]:
    """Run a service until the block ends, or this process.

    Args:
        file: Takes the documents.
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


async def main(port: int, file: Path) -> None:
    seen: set[bytes] = set()
    with file.open("ab") as output:

        def put(documents: list[dict[str, Any]]) -> dict[str, list[int]]:
            refused: dict[str, list[int]] = {"later": [], "never": []}
            for number, document in enumerate(documents):
                text = json.dumps(document, separators=(",", ":")).encode()
                if document.get("value", 0) < 0:
                    refused["never"].append(number)
                elif is_refused_at_first(text) and text not in seen:
                    refused["later"].append(number)
                else:
                    output.write(text + b"\n")
                seen.add(text)
            output.flush()
            return refused

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while line := await reader.readline():
                writer.write(json.dumps(put(json.loads(line))).encode() + b"\n")
                await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", port, limit=1 << 24)
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.to_thread(sys.stdin.read)  # ends with the process that started it


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2])))
