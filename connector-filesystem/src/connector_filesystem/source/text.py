# SPDX-License-Identifier: Apache-2.0
"""Reads text files as blocks of whole records, each with its byte offset."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa

from connector_filesystem.filesystem import FileLocation
from connector_filesystem.formats import Compression, CsvOptions
from connector_filesystem.source.split import Damaged
from connectors_core.errors import FatalError

__all__ = [
    "Block",
    "ByteStream",
    "Parsed",
    "blocks_of",
    "csv_header",
    "distinct_names",
    "isolating",
]

_TOO_LONG_HINT: Final = (
    "increase source.max-record-size, or set source.on-unreadable to skip, and write the file "
    "under another name"
)
BOM: Final = b"\xef\xbb\xbf"
_SKIP_BYTES: Final = 4 << 20
_HEAD_BYTES: Final = 64 << 10
_UTF_32: Final = (b"\xff\xfe\0\0", b"\0\0\xfe\xff")
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")


class ByteStream:
    """The decompressed bytes of a file, read forward. Fetcher thread.

    If the first lines end in CR, the stream replaces CR with LF.

    Args:
        location: A location on the file's filesystem.
        path: The file.
        compression: The compression of the file.
        size: The maximum number of bytes to read. Bytes appended later are ignored.

    Raises:
        FatalError: The text is in UTF-16 or UTF-32.
    """

    def __init__(
        self, location: FileLocation, path: str, compression: Compression, size: int
    ) -> None:
        self._size = size
        self._compression = compression
        if location.is_local:
            self._raw: Any = pa.OSFile(path, "rb")
        else:
            self._raw = location.fs.open(path, "rb")
        self._stream: Any = self._raw
        if compression is not Compression.NONE:
            file = self._raw if location.is_local else pa.PythonFile(self._raw, mode="r")
            self._stream = pa.CompressedInputStream(file, compression.value)
        self._at = self._pulled = 0
        self._padded: Any = None  # Arrow's stream, once Python's has taken its place
        self._ends_in_cr = False
        self._head = b""
        try:
            self._head = self._pull(_HEAD_BYTES)
            check_encoding(self._head, lambda: location.url_of(path))
        except BaseException:
            self.close()
            raise
        # The last byte can be half of a CRLF.
        if b"\r" in self._head[:-1] and b"\n" not in self._head:
            self._ends_in_cr = True
            self._head = self._head.replace(b"\r", b"\n")

    @property
    def ends_in_cr(self) -> bool:
        """Whether the lines of the file end in CR."""
        return self._ends_in_cr

    def seek(self, offset: int) -> None:
        """Advance to a byte, never backward. A compressed file is decompressed up to it."""
        if self._compression is Compression.NONE:
            if offset != self._at:
                self._raw.seek(offset)
                self._at, self._head = offset, b""
            return
        while self._at < offset:
            if not self.read(min(_SKIP_BYTES, offset - self._at)):
                raise EOFError(f"the stream ends at {self._at}, before {offset}")

    def read(self, count: int) -> bytes:
        """Read up to `count` bytes. The result is empty at the end."""
        if self._head:
            data, self._head = self._head[:count], self._head[count:]
        else:
            data = self._pull(count)
            if self._ends_in_cr:
                data = data.replace(b"\r", b"\n")
        self._at += len(data)
        return data

    def _pull(self, count: int) -> bytes:
        if self._compression is Compression.NONE:
            count = min(count, self._size - self._at)
            if count <= 0:
                return b""
        try:
            data = bytes(self._stream.read(count))
        except OSError as error:
            data = self._read_padded(count, error)
        self._pulled += len(data)
        if not data and self._compression is Compression.NONE:
            raise EOFError(f"the file ends at byte {self._at} instead of {self._size}")
        return data

    def _read_padded(self, count: int, error: OSError) -> bytes:
        """Read on with Python's reader, which accepts zeros after a member of gzip."""
        if self._compression is not Compression.GZIP or self._padded is not None:
            raise error
        try:
            self._raw.seek(0)
            stream = gzip.GzipFile(fileobj=self._raw)
            stream.seek(self._pulled)
            data = stream.read(count)
        except (OSError, EOFError, zlib.error):
            raise error from None
        self._padded, self._stream = self._stream, stream
        return data

    @property
    def consumed(self) -> int:
        """The bytes of the file read so far, before decompression."""
        return int(self._raw.tell())

    def close(self) -> None:
        """Close the file."""
        try:
            if self._stream is not self._raw:
                self._stream.close()
        finally:
            self._raw.close()


def check_encoding(head: bytes, url: Callable[[], str]) -> None:
    """Refuse text in which every second byte is NUL.

    Args:
        head: The first bytes.
        url: Returns the URL of the file, for the message.

    Raises:
        FatalError: The text is in UTF-16 or UTF-32.
    """
    sparse = head.count(0) * 3 > len(head)
    if head.startswith(_UTF_32) or (sparse and head.count(0) * 2 > len(head) + 1):
        found = "UTF-32"
    elif head.startswith(_UTF_16) or sparse:
        found = "UTF-16"
    else:
        return
    raise FatalError(
        f"the text of {url()} is not in UTF-8",
        expected="UTF-8",
        found=found,
        option="path",
        hint="set source.on-unreadable to skip, and write the text under another name, for example "
        f"with iconv -f {found} -t UTF-8",
        code="FILE_ENCODING",
    )


@dataclass(frozen=True)
class Block:
    """Whole records.

    Attributes:
        offset: The byte at which the first record starts.
        data: The bytes.
    """

    offset: int
    data: bytes

    @property
    def end(self) -> int:
        """The byte after the last record."""
        return self.offset + len(self.data)


def blocks_of(
    stream: ByteStream,
    *,
    start: int,
    offset: int,
    end: int | None,
    first_record: int = 0,
    block_size: int,
    max_record_size: int,
    quote: bytes | None = None,
) -> Iterator[Block]:
    """Yield the records that start in a range of bytes.

    Args:
        stream: The file, at its start.
        start: The first byte of the range.
        offset: The position to read from: `start`, or a byte at which a record starts.
        end: The byte after the range, or None for the end of the stream.
        first_record: The byte at which the first record of the file starts, after the header.
        block_size: The number of bytes to read at a time.
        max_record_size: The maximum size of a record in bytes.
        quote: The quote, if quoted values can contain line breaks.

    Raises:
        FatalError: A record is too long.
        EOFError: The file is shorter than expected.
    """
    if offset == start and start > 0:
        # The byte before shows whether a record starts here.
        at, data = _behind_line_break(stream, start - 1)
    else:
        at, data = offset, b""
        stream.seek(at)
    if at < first_record:
        at, data = first_record, b""
        stream.seek(at)
    ended = False
    while end is None or at < end:
        if not ended:
            more = stream.read(block_size)
            ended = not more
            data = data + more if data else more
        if end is not None and at + len(data) >= end:
            # The last record of the range ends at the first line break at or after its last byte.
            cut = data.find(b"\n", max(0, end - 1 - at)) + 1 if quote is None else 0
            if cut:
                yield Block(at, data[:cut])
                return
        cut = len(data) if ended else _last_record_end(data, quote)
        if cut:
            yield Block(at, data[:cut])
            at += cut
            data = data[cut:]
        elif len(data) > max_record_size:
            raise FatalError(
                f"a record that starts at byte {at} does not end within {max_record_size} bytes",
                expected="records that end in a line break",
                option="source.max-record-size",
                hint=_TOO_LONG_HINT,
            )
        if ended:
            return


def _behind_line_break(stream: ByteStream, at: int) -> tuple[int, bytes]:
    stream.seek(at)
    while True:
        data = stream.read(64 << 10)
        if not data:
            return at, b""
        found = data.find(b"\n")
        if found >= 0:
            return at + found + 1, data[found + 1 :]
        at += len(data)


def _last_record_end(data: bytes, quote: bytes | None) -> int:
    cut = data.rfind(b"\n") + 1
    if quote is None or not cut:
        return cut
    # A line break after an odd number of quotes is part of a value.
    quotes = data.count(quote, 0, cut)
    while cut and quotes % 2:
        before = data.rfind(b"\n", 0, cut - 1) + 1
        quotes -= data.count(quote, before, cut)
        cut = before
    return cut


def lines_of(data: bytes, quote: bytes | None = None) -> list[bytes]:
    """Cut a block into records, each with its line break."""
    lines = data.split(b"\n")
    last = lines.pop()
    records = [line + b"\n" for line in lines] + ([last] if last else [])
    if quote is None:
        return records
    joined: list[bytes] = []
    is_open = False
    for record in records:
        if is_open:
            joined[-1] += record
        else:
            joined.append(record)
        is_open ^= bool(record.count(quote) % 2)
    return joined


# --- Parsing that isolates bad records -----------------------------------------------------------

#: Rows, or a damaged record.
Parsed: TypeAlias = "pa.RecordBatch | Damaged"


def isolating(
    block: Block,
    parse: Callable[[bytes], pa.RecordBatch],
    explain: Callable[[bytes, Exception], str],
    quote: bytes | None = None,
) -> Iterator[Parsed]:
    """Parse a block as a whole.

    If that fails, parse its halves until the bad records are isolated.

    Args:
        block: The records.
        parse: Parses any number of records. It raises `pa.ArrowInvalid` if a record is bad.
        explain: Returns why a record is bad, without its values.
        quote: The quote, if quoted values can contain line breaks.

    Yields:
        Batches and bad records in the order of the file.
    """
    try:
        whole = parse(block.data)
    except pa.ArrowInvalid:
        pass
    else:
        yield whole
        return
    records = lines_of(block.data, quote)
    ends = [0]
    for record in records:
        ends.append(ends[-1] + len(record))
    yield from _halves(block, parse, explain, ends, 0, len(records))


def _halves(
    block: Block,
    parse: Callable[[bytes], pa.RecordBatch],
    explain: Callable[[bytes, Exception], str],
    ends: Sequence[int],
    first: int,
    last: int,
) -> Iterator[Parsed]:
    data = block.data[ends[first] : ends[last]]
    try:
        rows = parse(data)
    except pa.ArrowInvalid as exc:
        if last - first == 1:
            yield Damaged(
                reason=explain(data, exc),
                position=f"byte {block.offset + ends[first]}",
                raw=data.rstrip(b"\r\n"),
                cause=exc,
            )
            return
        middle = (first + last) // 2
        yield from _halves(block, parse, explain, ends, first, middle)
        yield from _halves(block, parse, explain, ends, middle, last)
    else:
        yield rows


# --- The header of CSV ---------------------------------------------------------------------------


def csv_header(
    read: Callable[[int], bytes], options: CsvOptions, max_record_size: int
) -> tuple[tuple[str, ...], int]:
    """Read the header of a CSV file from its start.

    Args:
        read: Reads the next bytes of the file.
        options: The dialect.
        max_record_size: The maximum size of the header in bytes.

    Returns:
        The names of the columns, empty if the file has no line, and the byte after the header.
    """
    quote = options.quote_char.encode() if options.newlines_in_values else None
    data = b""
    ended = False
    while True:
        for at, line in _positions(lines_of(data, quote)):
            complete = ended or (
                line.endswith(b"\n") and (quote is None or line.count(quote) % 2 == 0)
            )
            if complete and line.removeprefix(BOM).strip(b"\r\n"):
                text = line.removeprefix(BOM).decode("utf-8", "replace").rstrip("\r\n")
                return tuple(_fields(text, options)), at + len(line)
        if ended:
            return (), len(data)
        if len(data) > max_record_size:
            raise FatalError(
                f"the header does not end within {max_record_size} bytes",
                option="source.max-record-size",
                hint=_TOO_LONG_HINT,
            )
        more = read(64 << 10)
        ended = not more
        data += more


def distinct_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of columns; as in Spark, those that occur twice get their number."""
    found = tuple(names)
    while len(set(found)) < len(found):
        found = tuple(
            f"{name}{at}" if found.count(name) > 1 else name for at, name in enumerate(found)
        )
    return found


def _positions(lines: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    at = 0
    for line in lines:
        yield at, line
        at += len(line)


def _fields(text: str, options: CsvOptions) -> list[str]:
    return next(
        csv.reader(
            [text] if "\n" not in text else text.splitlines(keepends=True),
            delimiter=options.delimiter,
            quotechar=options.quote_char,
            doublequote=options.double_quote,
            escapechar=options.escape_char,
        )
    )
