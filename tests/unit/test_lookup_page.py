# SPDX-License-Identifier: Apache-2.0
"""Runs the suite for the table of docs/write-a-connector/lookup.md."""

from __future__ import annotations

from page_modules import modules_of

TestSqliteTable = modules_of("write-a-connector/lookup.md")["test_sqlite_table"].TestSqliteTable
