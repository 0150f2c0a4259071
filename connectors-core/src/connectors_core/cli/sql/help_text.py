# SPDX-License-Identifier: Apache-2.0
"""The commands of the shell, and its help."""

from __future__ import annotations

from typing import Final

__all__ = ["COMMANDS", "HELP"]

COMMANDS: Final = ("CLEAR", "EXIT", "HELP", "QUIT")
"""Commands of the shell itself. They need no semicolon."""

HELP: Final = """\
Statements end with a semicolon, and can have several lines.

  CREATE TABLE name (column TYPE, ...) WITH ('connector' = '...', ...)
  CREATE VIEW | DATABASE | CATALOG, ALTER TABLE, DROP TABLE | VIEW | DATABASE | CATALOG
  CREATE [TEMPORARY] FUNCTION name AS 'module.function' LANGUAGE PYTHON
  SHOW TABLES | VIEWS | DATABASES | CATALOGS | FUNCTIONS, SHOW CURRENT DATABASE | CATALOG
  SHOW CREATE TABLE name, DESCRIBE name
  USE database, USE CATALOG catalog
  SELECT ...                     rows of tables that have an end
  INSERT INTO name SELECT ...    a job: ends with its tables, or runs in the background
  INSERT OVERWRITE name SELECT ..., DELETE FROM name WHERE ..., UPDATE name SET ... WHERE ...
  EXECUTE STATEMENT SET BEGIN INSERT ...; INSERT ...; END
  EXPLAIN query | INSERT         what is read of each table
  SHOW JOBS, DESCRIBE JOB 'name', STOP JOB 'name'
  SET 'key' = 'value', RESET 'key', SET (shows all)

  HELP, CLEAR, QUIT or EXIT

Tab completes. Ctrl-R searches the history. Ctrl-C cancels a statement. Ctrl-D leaves the shell.
All other statements are Spark's own SQL.
"""
