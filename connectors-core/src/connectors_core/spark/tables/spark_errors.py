# SPDX-License-Identifier: Apache-2.0
"""Errors that Spark finds in statements, with their place in the text of the user."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.errors import AnalysisException, ParseException

from connectors_core.spark.tables.text_edits import Edits
from connectors_core.table.sql import SqlError

__all__ = ["sql_errors"]

# `; line 1 pos 7` after an analysis, `(line 1, pos 7)` of a parser.
_PLACE: Final = re.compile(r"[;\s]*\(?\bline (?P<line>\d+),? pos (?P<column>\d+)\)?")
_STATE: Final = re.compile(r"\.?\s*SQLSTATE: \w+")


@contextmanager
def sql_errors(edits: Edits | None) -> Iterator[None]:
    """Raise what Spark finds wrong in a statement as an error with its place.

    Args:
        edits: The text of the user, with the replacements that Spark received. None if its places
            mean nothing to the user.

    Raises:
        SqlError: Spark rejects the statement.
    """
    try:
        yield
    except (AnalysisException, ParseException) as error:
        raise _placed(str(error), edits) from error


def _placed(shown: str, edits: Edits | None) -> SqlError:
    place = _PLACE.search(shown)
    first = (shown if place is None else shown[: place.start()]).strip().partition("\n")[0]
    message = f"Spark rejects the statement: {_STATE.sub('', first).rstrip('.; ')}"
    if place is None or edits is None:
        return SqlError(message)
    lines = edits.result().split("\n")
    at = sum(len(each) + 1 for each in lines[: int(place["line"]) - 1]) + int(place["column"])
    return SqlError.at(edits.text, edits.origin(at), message)
