# SPDX-License-Identifier: Apache-2.0
"""Spark's SQL with what the definitions of Flink's tables add to it."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

__all__ = ["MetadataColumnConstraint", "TableSql"]


class MetadataColumnConstraint(exp.Expression, exp.ColumnConstraintKind):
    """`METADATA [FROM 'key'] [VIRTUAL]` after the type of a column (Flink's FLIP-107)."""

    arg_types: ClassVar[dict[str, bool]] = {"this": False, "virtual": False}


def _metadata(parser: Any) -> MetadataColumnConstraint:
    key = parser._parse_string() if parser._match_text_seq("FROM") else None
    virtual = bool(parser._match_text_seq("VIRTUAL"))
    return MetadataColumnConstraint(this=key, virtual=virtual)


def _watermark(parser: Any) -> exp.Expr:
    parser._match_text_seq("FOR")
    column = parser._parse_column()
    parser._match_text_seq("AS")
    return exp.WatermarkColumnConstraint(this=column, expression=parser._parse_disjunction())


class TableSql(Spark):
    """Spark's dialect with metadata columns and watermarks."""

    class Tokenizer(Spark.Tokenizer):
        """Also splits the statements that Spark's dialect does not parse, such as `EXPLAIN`."""

        COMMANDS: ClassVar = set()

    class Parser(SparkParser):
        """Parses the constraints that Spark lacks."""

        CONSTRAINT_PARSERS: ClassVar = {
            **SparkParser.CONSTRAINT_PARSERS,
            "METADATA": _metadata,
            "WATERMARK": _watermark,
        }
        SCHEMA_UNNAMED_CONSTRAINTS: ClassVar = {
            *SparkParser.SCHEMA_UNNAMED_CONSTRAINTS,
            "WATERMARK",
        }
