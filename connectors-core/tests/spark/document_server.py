# SPDX-License-Identifier: Apache-2.0
"""A service that takes documents in requests: a process on loopback, which tests kill.

A request is a line with a list of documents; the answer says by number which were refused for now
and which for good. A document is in the file before its request is answered, once for every time
that it was sent. One whose value divides by 5 is refused the first time, a negative one for good.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any


async def main(port: int, file: Path) -> None:
    seen: set[int] = set()
    with file.open("a", encoding="utf-8") as output:

        def put(documents: list[dict[str, Any]]) -> dict[str, list[int]]:
            values = [document["value"] for document in documents]
            later = [at for at, value in enumerate(values) if value % 5 == 0 and value not in seen]
            never = [at for at, value in enumerate(values) if value < 0]
            seen.update(values)
            for at, value in enumerate(values):
                if at not in {*later, *never}:
                    output.write(f"{value}\n")
            output.flush()
            return {"later": later, "never": never}

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
