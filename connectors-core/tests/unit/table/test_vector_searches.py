# SPDX-License-Identifier: Apache-2.0
"""Tests how VECTOR_SEARCH is read in queries."""

from __future__ import annotations

import pytest
from sqlglot import exp

from connectors_core.spark.tables.text_edits import name_of, span, tables_of
from connectors_core.table.sql import SqlError
from connectors_core.table.sql.dialect import parse_query
from connectors_core.table.sql.vector_searches import vector_search_of

CALL = "VECTOR_SEARCH(TABLE c.books, DESCRIPTOR(embedding), a.vector, 3)"


@pytest.mark.parametrize(
    ("written", "side", "alias"),
    [
        (f"FROM a, LATERAL TABLE({CALL}) AS s WHERE a.id > 0", "", "s"),
        (f"FROM a, LATERAL TABLE({CALL}) s", "", "s"),
        (f"FROM a, LATERAL {CALL}", "", "books"),
        (f"FROM a, lateral table({CALL.lower()}) as `S`", "", "S"),
        (f"FROM (SELECT * FROM a) AS a JOIN LATERAL TABLE({CALL}) AS s ON TRUE", "", "s"),
        (f"FROM a CROSS JOIN LATERAL TABLE({CALL}) AS s LIMIT 3", "", "s"),
        (f"FROM a LEFT JOIN LATERAL TABLE({CALL}) AS s ON true GROUP BY 1", "LEFT", "s"),
    ],
)
def test_a_search_is_a_join_with_its_table(written, side, alias):
    text = f"SELECT a.id, score {written}"
    query = parse_query(text)
    *_, table = tables_of(query)
    search = vector_search_of(table)
    assert (search.search_column, search.query.sql(), search.top_k) == ("embedding", "a.vector", 3)
    assert name_of(table) == ("c", "books")
    start, end = span(table)
    assert text[start:end] == "c.books"
    assert table.alias_or_name == alias
    assert isinstance(table.parent, exp.Join)
    assert table.parent.side == side


def test_several_searches_follow_each_other():
    other = CALL.replace("c.books", "d.films").replace("3", "4")
    text = f"SELECT * FROM a, LATERAL TABLE({CALL}) AS s, LATERAL TABLE({other}) AS t"
    found = [vector_search_of(each) for each in tables_of(parse_query(text))]
    assert [each and each.top_k for each in found] == [None, 3, 4]


def test_an_expression_can_be_the_vector():
    text = f"SELECT * FROM a, LATERAL {CALL.replace('a.vector', 'f(a.x, ARRAY(1.0))')}"
    *_, table = tables_of(parse_query(text))
    assert vector_search_of(table).query.sql("spark") == "F(a.x, ARRAY(1.0))"


@pytest.mark.parametrize(
    ("query", "place"),
    [
        (f"SELECT {CALL} FROM a", "VECTOR_SEARCH"),
        (f"SELECT * FROM LATERAL TABLE({CALL})", "FROM"),
        ("SELECT * FROM a, LATERAL VECTOR_SEARCH(TABLE t, DESCRIPTOR(e), a.v)", ")"),
        ("SELECT * FROM a, LATERAL VECTOR_SEARCH(TABLE t, e, a.v, 3)", "e"),
        ("SELECT * FROM a, LATERAL VECTOR_SEARCH(TABLE t, DESCRIPTOR(e), a.v, k)", "k"),
        ("SELECT * FROM a, LATERAL VECTOR_SEARCH(TABLE t, DESCRIPTOR(e), a.v, 3, CONFIG)", ","),
        ("SELECT * FROM a, LATERAL VECTOR_SEARCH(SEARCH_TABLE => TABLE t)", "SEARCH_TABLE"),
        (f"SELECT * FROM a, LATERAL {CALL} AS s(x, y)", "("),
        ("SELECT * FROM a, LATERAL VECTOR_SEARCH(TABLE t, DESCRIPTOR(e), a.v", None),
    ],
)
def test_another_form_is_refused_with_its_place(query, place):
    with pytest.raises(SqlError, match="VECTOR_SEARCH is not supported") as error:
        parse_query(query)
    found = query[error.value.position :]
    assert found == "" if place is None else found.startswith(place)
    assert "Pipeline.vector_search" in error.value.hint


def test_a_function_can_have_the_name():
    (call,) = parse_query("SELECT my.vector_search(x) FROM a").expressions
    assert call.sql("spark") == "my.vector_search(x)"
