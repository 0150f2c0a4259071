# SPDX-License-Identifier: Apache-2.0
"""Translates a failure in Spark into a short connector error. Driver.

An exception in a task reaches the driver as text: the Python traceback, then the JVM stack trace,
often twice. Users need only the exception that Python code raised, or otherwise the first line of
Spark's message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.errors import AnalysisException, ParseException

from connectors_core.engine.state import Lease
from connectors_core.errors import (
    ConfigurationError,
    ConnectorError,
    FatalError,
    ForeignError,
    LeaseError,
    RetryableError,
    error_from_text,
    restated,
)
from connectors_core.options.spelling import spell
from connectors_core.secrets import mask_url
from connectors_core.spark.internals.sessions import exit_status_of_jvm, is_error_of_spark

_TRACEBACK: Final = "Traceback (most recent call last):"
_END_OF_PYTHON: Final = re.compile(
    r"\n\s*(?:at [\w$.]+\(|Driver stacktrace:|SQLSTATE: \w{5}(?:\n|$))"
)
_EXCEPTION: Final = re.compile(r"(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?", re.DOTALL)
_CHAIN: Final = (
    "The above exception was the direct cause",
    "During handling of the above exception",
)
# Text that Spark and Py4J put before the line with the actual failure.
_PREFIXES: Final = (
    re.compile(r"An error occurred while calling \S+\s*:?\s*", re.DOTALL),
    re.compile(r"(?:\[STREAM_FAILED\] )?Query .{0,300}? terminated with (?:exception|error): "),
    re.compile(r"(?:org\.apache\.spark\.)?SparkException: (?=Job aborted|Task failed)"),
    re.compile(
        r"Job aborted due to stage failure: .{0,200}?"
        r"most recent failure: Lost task .{0,200}?executor [^)]*\): ",
        re.DOTALL,
    ),
)
_SPARK_LOG_TAKEN: Final = "[CONCURRENT_STREAM_LOG_UPDATE]"
# Failures of Spark's own machinery, which a restart outlives. The frames of a stack trace do not
# count.
_TEMPORARY: Final = re.compile(
    r"^(?!\s+at ).*(?:Python worker (?:failed to connect back|exited unexpectedly)"
    r"|Timed out while waiting for the Python worker|ExecutorLostFailure|FetchFailed"
    r"|[Ee]xecutor heartbeat timed out|Futures timed out"
    r"|Lost executor|BlockNotFoundException|Failed to connect to /"
    r"|java\.net\.(?:Connect|NoRouteToHost|SocketTimeout|UnknownHost)Exception"
    r"|java\.util\.concurrent\.TimeoutException)",
    re.MULTILINE,
)
_FULL_DISK: Final = re.compile("No space left on device|Disk quota exceeded")
_CAUSED_BY: Final = re.compile(r"^Caused by: ([\w.$]+: .+)$", re.MULTILINE)
_MOST_CHARACTERS: Final = 600
_MOST_MESSAGE_LINES: Final = 12
_MOST_FRAME_LINES: Final = 10


@dataclass(frozen=True, kw_only=True)
class PythonFailure:
    """An exception of Python code in a task, parsed from Spark's text.

    Attributes:
        type_name: Qualified name of its class, as in a traceback.
        message: Its text.
        frames: The lines of its traceback between the header and the exception.
        cause: The exception from which it was raised.
    """

    type_name: str
    message: str
    frames: tuple[str, ...] = ()
    cause: PythonFailure | None = None

    @classmethod
    def of(cls, text: str) -> PythonFailure | None:
        """Parse the Python exception in a text from Spark; None if there is none.

        Args:
            text: The text of a Spark exception or of a failed task.
        """
        _, found, rest = text.partition(_TRACEBACK)
        if not found:
            return None
        python = _END_OF_PYTHON.split(rest, maxsplit=1)[0]
        failure: PythonFailure | None = None
        chained = False
        for part in python.split(_TRACEBACK):  # the last one was raised
            lines = part.strip("\n").splitlines()
            frames = []
            while lines and (not lines[0].strip() or lines[0].startswith(" ")):
                frames.append(lines.pop(0))
            shown = _EXCEPTION.fullmatch("\n".join(_until_chain(lines)).strip())
            if shown is not None:
                failure = cls(
                    type_name=shown["type"],
                    message=(shown["message"] or "").strip(),
                    frames=tuple(frames),
                    cause=failure if chained else None,
                )
            chained = _CHAIN[0] in part
        return failure

    @property
    def error(self) -> ConnectorError | None:
        """The connector error that it was, without its cause; None for any other exception."""
        return error_from_text(self.type_name, self.message)

    @property
    def first_line(self) -> str:
        """Class and first line of the message."""
        name = self.type_name.rpartition(".")[2]
        first = self.message.splitlines()[0].strip() if self.message else ""
        return _cut(f"{name}: {first}" if first else name)

    def as_cause(self) -> ConnectorError:
        """Return it as the cause of another error, in a few lines."""
        known = self.error
        if known is not None:
            return known
        lines = [*self.frames[-_MOST_FRAME_LINES:], *self.message_lines()]
        return ForeignError(
            self.first_line, type_name=self.type_name, traceback_text="\n".join(lines)
        )

    def message_lines(self) -> list[str]:
        """Return the last lines of the traceback, truncated."""
        lines = [_cut(line) for line in f"{self.type_name}: {self.message}".splitlines()]
        more = len(lines) - _MOST_MESSAGE_LINES
        return lines if more <= 0 else [*lines[:_MOST_MESSAGE_LINES], f"... ({more} more lines)"]


class TaskFailedError(Exception):
    """A task failed in a way that a retry would repeat, so the job was canceled.

    Args:
        text: Spark's text about the task.
    """


def telling_line(error: BaseException) -> str:
    """Return the most informative line of an exception's text.

    The root cause in the JVM follows, if it has a message. For example, only the cause of a state
    store's failure says that the disk is full.

    Args:
        error: An exception of Spark or any other.
    """
    text = str(error)
    python = PythonFailure.of(text)
    if python is not None:
        return python.first_line
    for _ in _PREFIXES:  # prefixes can follow each other in any order
        for prefix in _PREFIXES:
            text = prefix.sub("", text.lstrip(), count=1) if prefix.match(text.lstrip()) else text
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if not first:
        return type(error).__name__
    if not _is_spark(error):
        return _cut(f"{type(error).__name__}: {first}")
    last = "".join(_CAUSED_BY.findall(text)[-1:])
    told = last.partition(": ")[2] in first
    return _cut(first) + ("" if told else f"; caused by {_cut(last)}")


def translated(
    error: BaseException,
    what: str,
    *,
    hint: str | None = None,
    parts: Iterable[object] = (),
    location: str | None = None,
) -> ConnectorError:
    """Translate any failure of a pipeline into a connector error.

    A connector error that was raised in a task keeps its class, code, and option. The cause is the
    exception of Python code in a task, if Spark's text shows one. Spark's own exception, with the
    JVM stack trace, is the ``__context__``, which Python does not print if there is a cause.

    Args:
        error: The exception. A connector error is returned; only its hint may be added.
        what: The part that failed, as the subject of a sentence.
        hint: The hint, unless the cause has one.
        parts: The sources, sinks, and tables. The error spells option names as in their
            constructors or keys.
        location: The folder that Spark and the pipeline write to, named if the disk is full.
    """
    if isinstance(error, ConnectorError):
        error.hint = error.hint or hint
        spell(error, parts)
        return error
    cause = short_cause(error)
    found = telling_line(error)
    if (status := exit_status_of_jvm()) is not None:
        found = f"the JVM of Spark has ended with status {status}"
        hint = "find the reason in the log of the driver, then start a new driver"
    elif location is not None and _FULL_DISK.search(found):
        hint = (
            f"free space under {mask_url(location)}, or in Spark's local directories "
            "(`spark.local.dir`) if that is not full, and restart"
        )
    wrapped: ConnectorError
    if isinstance(cause, ConnectorError) and not isinstance(cause, ForeignError):
        if status is None and cause.found is not None:
            found = f"{found}: {_cut(cause.found)}"  # a log often has only this error's text
        wrapped = restated(cause, f"{what} failed", found=found, hint=hint)
    else:
        wrapped = _kind_of(error)(f"{what} failed", found=found, hint=hint)
    wrapped.__cause__ = cause
    wrapped.__context__ = error
    spell(wrapped, parts)
    return wrapped


def _kind_of(error: BaseException) -> type[ConnectorError]:
    """Return the class for a failure of Spark or of the user's code."""
    if isinstance(error, AnalysisException | ParseException):
        return ConfigurationError
    text = str(error)
    if _is_spark(error) and PythonFailure.of(text) is None and _TEMPORARY.search(text):
        return RetryableError
    return FatalError


def spark_log_taken(error: BaseException, what: str, lease: Lease) -> ConnectorError | None:
    """Return the error of a driver whose entry in Spark's log another driver has written.

    Spark's logs have no fence. A former driver that freezes right before Spark commits a
    micro-batch can resume and commit it while its successor runs that micro-batch again. Spark then
    ends the query of whichever driver is later.

    Args:
        error: The error of the query.
        what: The query, as the subject of a sentence.
        lease: The lease of this driver.

    Returns:
        The error, or None if the query failed for another reason.
    """
    if not _is_spark(error) or _SPARK_LOG_TAKEN not in str(error):
        return None
    try:
        lease.confirm()
    except LeaseError as taken_over:
        taken_over.__cause__ = short_cause(error)
        return taken_over
    except Exception:  # without the state location, it is unknown which driver this is
        return None
    found: ConnectorError = RetryableError(
        f"{what} ended because an earlier driver, which this one had replaced, resumed and wrote "
        "to Spark's log of the query again",
        found=telling_line(error),
        hint="restart: no rows are lost or duplicated, and the earlier driver stops by itself",
    )
    found.__cause__ = short_cause(error)
    return found


def short_cause(error: BaseException) -> BaseException:
    """Return a short cause: a Spark exception is condensed, any other is returned unchanged."""
    if not _is_spark(error):
        return error
    python = PythonFailure.of(str(error))
    if python is not None:
        return python.as_cause()
    return ForeignError(telling_line(error), type_name=_qualified(error))


def _is_spark(error: BaseException) -> bool:
    return isinstance(error, TaskFailedError) or is_error_of_spark(error)


def _qualified(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"


def _until_chain(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        if line.startswith(_CHAIN):
            return
        yield line


def _cut(line: str) -> str:
    return line if len(line) <= _MOST_CHARACTERS else line[: _MOST_CHARACTERS - 4] + " ..."
