# SPDX-License-Identifier: Apache-2.0
"""Statements of a table environment. sqlglot splits them into words and parses their queries."""

from connectors_core.table.sql.dialect import parse_query
from connectors_core.table.sql.errors import SqlError
from connectors_core.table.sql.parsing import parse_script, parse_statement

__all__ = ["SqlError", "parse_query", "parse_script", "parse_statement"]
