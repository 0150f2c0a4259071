# SPDX-License-Identifier: Apache-2.0
"""Tests that the places which Spark names become places in the text of the user."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import AnalysisException

from connectors_core.spark.tables.spark_errors import sql_errors
from connectors_core.spark.tables.text_edits import Edits
from connectors_core.table import SqlError

QUERY = "SELECT x\nFROM flights JOIN t ON flights.id = t.nope"


def edited() -> Edits:
    edits = Edits(QUERY)
    for word, by in (("flights", "`connectors_table_1` AS flights"), ("t ON", "`v` AS t ON")):
        start = QUERY.index(word)
        edits.replace(start, start + len(word), by)
    return edits


@pytest.mark.parametrize(
    ("message", "shown", "place"),
    [
        (
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `x` cannot be resolved. Did "
            "you mean one of the following? [`y`]. SQLSTATE: 42703; line 1 pos 7;\n'Project ['x]\n",
            "`x` cannot be resolved. Did you mean one of the following? [`y`]",
            (1, 8),
        ),
        (
            "[UNRESOLVED_COLUMN] `nope`; line 2 pos {nope};\n'Project",
            "[UNRESOLVED_COLUMN] `nope`",
            (2, 37),
        ),
        (
            "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'x'.(line 1, pos 7)\n\n== SQL ==\nS",
            "Syntax error at or near 'x'",
            (1, 8),
        ),
        ("[SOMETHING] It is wrong.", "[SOMETHING] It is wrong", (None, None)),
    ],
)
def test_an_error_of_spark_has_its_place_in_the_original_text(
    message: str, shown: str, place: tuple[int | None, int | None]
) -> None:
    edits = edited()
    nope = edits.result().splitlines()[1].index("t.nope")
    with pytest.raises(SqlError) as caught, sql_errors(edits):
        raise AnalysisException(message.replace("{nope}", str(nope)))
    assert caught.value.message.endswith(shown)
    assert caught.value.message.startswith("Spark rejects the statement: [")
    assert (caught.value.line, caught.value.column) == place


@given(st.text("ab", min_size=1, max_size=9), st.data())
def test_a_kept_character_has_its_place_in_the_text(text: str, data: st.DataObject) -> None:
    edits = Edits(text)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=4)))
    for start, end in zip(cuts[::2], cuts[1::2], strict=False):
        edits.replace(start, end, data.draw(st.text("xy", max_size=3)))
    kept = [at for at, each in enumerate(edits.result()) if each in "ab"]
    origins = [edits.origin(at) for at in kept]
    assert origins == sorted(set(origins))
    assert [text[at] for at in origins] == [edits.result()[at] for at in kept]
    for at in range(len(edits.result()) + 1):
        assert 0 <= edits.origin(at) <= len(text)
