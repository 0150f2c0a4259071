# SPDX-License-Identifier: Apache-2.0
"""The keywords that completion knows, by their place in a statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from connectors_core.cli.sql.help_text import COMMANDS

__all__ = ["FOLLOWING", "OF_DEFINITIONS", "OF_QUERIES", "STATEMENTS"]

STATEMENTS: Final = (
    "ALTER TABLE",
    "CREATE",
    "DELETE FROM",
    "DESCRIBE",
    "DROP",
    "EXECUTE STATEMENT SET BEGIN",
    "EXPLAIN",
    "INSERT INTO",
    "INSERT OVERWRITE",
    "RESET",
    "SELECT",
    "SET",
    "SHOW",
    "STOP JOB",
    "UPDATE",
    "USE",
    "WITH",
    *COMMANDS,
)
FOLLOWING: Final[Mapping[str, tuple[str, ...]]] = {
    "ALTER": ("TABLE", "FUNCTION"),
    "CREATE": ("TABLE", "VIEW", "DATABASE", "CATALOG", "FUNCTION", "TEMPORARY FUNCTION"),
    "DELETE": ("FROM",),
    "DESC": ("FUNCTION", "JOB"),
    "DESCRIBE": ("FUNCTION", "JOB"),
    "DROP": ("TABLE", "VIEW", "DATABASE", "CATALOG", "FUNCTION", "TEMPORARY FUNCTION"),
    "EXECUTE": ("STATEMENT SET BEGIN",),
    "INSERT": ("INTO", "OVERWRITE"),
    "SHOW": (
        "CATALOGS",
        "CREATE TABLE",
        "CURRENT CATALOG",
        "CURRENT DATABASE",
        "DATABASES",
        "FUNCTIONS",
        "JOBS",
        "TABLES",
        "VIEWS",
    ),
    "STOP": ("JOB",),
    "USE": ("CATALOG",),
}
OF_QUERIES: Final = (
    "ALL", "AND", "AS", "ASC", "BETWEEN", "BY", "CASE", "CAST", "DESC", "DISTINCT", "ELSE", "END",
    "EXISTS", "FALSE", "FOR", "FROM", "GROUP", "HAVING", "IN", "INNER", "INTERVAL", "IS", "JOIN",
    "LEFT", "LIKE", "LIMIT", "NOT", "NULL", "OF", "ON", "OR", "ORDER", "OVER", "PARTITION",
    "SELECT", "SET", "SYSTEM_TIME", "THEN", "TRUE", "UNION", "USING", "VALUES", "WHEN", "WHERE",
    "WITH",
)  # fmt: skip
OF_DEFINITIONS: Final = (
    "AS", "ARRAY", "BIGINT", "BINARY", "BOOLEAN", "BY", "COMMENT", "DATE", "DECIMAL", "DOUBLE",
    "ENFORCED", "EXISTS", "FLOAT", "FOR", "FROM", "IF", "INT", "INTERVAL", "KEY", "LIKE", "MAP",
    "METADATA", "NOT", "NULL", "PARTITIONED", "PRIMARY", "RENAME", "RESET", "SECOND", "SET",
    "STRING", "STRUCT", "TIMESTAMP", "TO", "VIRTUAL", "WATERMARK", "WITH",
)  # fmt: skip
