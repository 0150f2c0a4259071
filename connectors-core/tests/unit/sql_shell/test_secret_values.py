# SPDX-License-Identifier: Apache-2.0
"""Tests that statements with secrets are found, and shown without them."""

from __future__ import annotations

import pytest

from connectors_core.cli.sql.secret_values import has_secrets, without_secrets

CANARY = "canary-77"  # pragma: allowlist secret
FILES = "CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'path' = '/x'"


@pytest.mark.parametrize(
    "statement",
    [
        f"CREATE TABLE t WITH ('connector' = 'elasticsearch', 'password' = '{CANARY}')",
        f"CREATE TABLE t WITH ('connector' = 'kafka', 'properties.ssl.keystore.key' = '{CANARY}')",
        f"CREATE TABLE t WITH ('connector' = 'x', 'hosts' = 'http://me:{CANARY}@host')",
        f"CREATE TABLE t USING connector_kafka OPTIONS (`value.password` '{CANARY}')",
        f"CREATE TABLE t USING x OPTIONS (api.token '{CANARY}', a 'b')",
        f"CREATE TABLE t USING x OPTIONS ('secret' '{CANARY}')",
        f"CREATE CATALOG c WITH ('type' = 'elasticsearch', 'api-key' = '{CANARY}')",
        f"ALTER TABLE t SET ('bearer-token' = '{CANARY}')",
        f"SET spark.hadoop.fs.s3a.secret.key = {CANARY}",
        f"SET 'spark.hadoop.fs.s3a.secret.key' = '{CANARY}'",
        f"CRAETE TABLE t WITH ('password' = '{CANARY}')",
        f"CREATE TABLE t (a INT) WITH (connector = 'elasticsearch', password = '{CANARY}')",
        f"CREATE TABLE t (a INT) WITH (connector='elasticsearch',password='{CANARY}') AS SELECT 1",
        f"CREATE CATALOG c WITH (`type` = 'elasticsearch', `password` = '{CANARY}')",
        f"CREATE CATALOG c WITH (type = 'kafka', properties.sasl.jaas.config = '{CANARY}')",
        f"CREATE TABLE t (a INT) TBLPROPERTIES (password = '{CANARY}')",
        f"CREATE TABLE t USING jdbc OPTIONS (fs.api-key '{CANARY}')",
        f"CREATE TABLE t WITH ('connector' = 'kafka' 'password' = '{CANARY}')",
        f"CREATE TABLE t WITH ('password' = '{CANARY}' 'connector' = 'kafka')",
        f"CREATE TABLE t WITH ('properties.ssl.keystore.key' '{CANARY}' 'a' 'b')",
        f"ALTER TABLE t SET (password = '{CANARY}')",
        f"CREATE TABLE t WITH (api-key = '{CANARY}')",
        f"CREATE TABLE t WITH ('password' : '{CANARY}')",
        f"CREATE TABLE t WITH ('password' => '{CANARY}')",
        f"CREATE TABLE t WITH 'password' = '{CANARY}'",
        f"SET 'x.password' '{CANARY}'",
        f"SET password {CANARY}",
        f"SET password {CANARY}=1",
        f"SET my.password := '{CANARY}'",
        f"SET spark . password = {CANARY}",
        f"SELECT 1; CREATE TABLE t WITH ('password' = '{CANARY}'); SELECT 2",
    ],
)
def test_secrets_are_found_and_masked(statement: str) -> None:
    assert has_secrets(statement)
    assert CANARY not in "".join(part for part, _, _ in without_secrets(statement))


@pytest.mark.parametrize(
    "statement",
    [
        f"{FILES}, 'format' = 'csv')",
        "CREATE CATALOG c WITH ('password' = '${env:PASSWORD}')",
        "SELECT * FROM t WHERE token = 'abc' AND key = 5",
        "SELECT a, token FROM t WHERE name = 'x'",
        "SELECT n FROM (SELECT name AS n, token FROM t WHERE name = 'x') WHERE n = 'y'",
        "CREATE VIEW v AS SELECT a, b FROM t WHERE token = 'abc'",
        "CREATE TABLE t (token STRING COMMENT 'of a user', amount DECIMAL(10, 2))",
        "CREATE TABLE t (id INT PRIMARY KEY) WITH (partition.key = 'id', key.format = 'json')",
        "INSERT INTO tokens VALUES ('a', 1), ('b', 2)",
        "STOP JOB 'insert-tokens'",
        "SET 'pipeline.name' = 'mine'",
        "SET spark.sql.shuffle.partitions = 5",
        "DESCRIBE t",
        "",
    ],
)
def test_other_statements_are_shown_as_they_are(statement: str) -> None:
    assert not has_secrets(statement)
    assert "".join(part for part, _, _ in without_secrets(statement)) == statement


def test_a_text_that_cannot_be_read_counts_as_one_with_secrets() -> None:
    assert has_secrets(f"CREATE TABLE t WITH ('password' = '{CANARY}")
