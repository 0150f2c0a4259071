# SPDX-License-Identifier: Apache-2.0
"""Tests the names of files, topics, and tables in lineage."""

from __future__ import annotations

import pytest

from connectors_core.lineage import LineageDataset, file_dataset, jdbc_datasets, kafka_datasets

POSTGRES = "jdbc:postgresql://db/sales"


@pytest.mark.parametrize(
    ("url", "namespace", "name"),
    [
        ("/data/in/", "file", "/data/in"),
        ("file:/data/in", "file", "/data/in"),  # as Hadoop writes it
        ("file:///data/in", "file", "/data/in"),
        ("/data/a#b/*.csv", "file", "/data/a#b"),
        ("s3a://lake/late/*.parquet", "s3://lake", "late"),
        ("s3://lake", "s3://lake", "/"),
        ("s3a://canary:canary@lake/late", "s3://lake", "late"),  # pragma: allowlist secret
        ("hdfs://user@name:8020/late", "hdfs://name:8020", "/late"),
        ("hdfs:/late", "hdfs", "/late"),
        ("wasbs://box@account/late", "wasbs://box@account", "/late"),
        ("simplecache::s3://lake/late", "s3://lake", "late"),
        ("S3A://lake/late", "s3://lake", "late"),
        ("zip://a.csv::simplecache::s3://lake/late", "s3://lake", "late"),
        ("hdfs://[::1]:8020/late", "hdfs://[::1]:8020", "/late"),
        ("https://user:can::canary@host/late", "https://host", "/late"),
        ("hdfs:///late", "hdfs", "/late"),
        ("hdfs://name:8020/user@one/late", "hdfs://name:8020", "/user@one/late"),
        (
            "https://user:canary@host/late.csv?token=canary#canary",  # pragma: allowlist secret
            "https://host",
            "/",
        ),
        ("https://host?token=canary/canary", "https://host", "/"),
        ("https://host#canary", "https://host", "/"),
        ("https://host/late;token=canary", "https://host", "/late"),
        ("https://user:12?canary@host/late", "https", "/"),
        ("abfss://box@account?sig=canary", "abfss://box@account", "/"),
        ("wasbs://box:canary@account/late", "wasbs://account", "/late"),  # pragma: allowlist secret
        ("s3://canary:can/canary@lake/late", "s3", "/"),
        ("s3://canary:12/canary@lake/late", "s3", "/"),
        ("sftp://user:can/canary@host/late", "sftp", "/"),
        ("file://user:can/canary@host/late", "file", "/"),
    ],
)
def test_a_file_is_named_by_its_filesystem_and_its_folder(url, namespace, name):
    assert file_dataset(url) == LineageDataset(namespace=namespace, name=name)


def test_the_first_server_names_the_cluster_of_each_topic():
    assert kafka_datasets([" one:9092", "two:9092"], ["a", "b", "a"]) == (
        LineageDataset(namespace="kafka://one:9092", name="a"),
        LineageDataset(namespace="kafka://one:9092", name="b"),
    )


@pytest.mark.parametrize("server", ["SASL_SSL://one:9092", "user:canary@one:9092"])
def test_a_cluster_is_named_without_its_listener_and_its_user(server):
    (dataset,) = kafka_datasets([server], ["a"])
    assert dataset.namespace == "kafka://one:9092"


@pytest.mark.parametrize(
    ("url", "namespace", "name"),
    [
        (POSTGRES, "postgres://db:5432", "sales.t"),
        ("jdbc:postgresql://a,b:1/sales", "postgres://a:5432,b:1", "sales.t"),
        ("jdbc:postgresql://[::1]/sales", "postgres://[::1]:5432", "sales.t"),
        ("jdbc:mysql:loadbalance://db/sales", "mysql://db:3306", "sales.t"),
        ("jdbc:oracle:thin:@//DB:1521/sales", "oracle://db:1521", "sales.t"),
        ("jdbc:oracle:thin:@db:1521:sales", "oracle://db:1521", "sales.t"),
        ("jdbc:sqlserver://db:1433;databaseName=sales", "sqlserver://db:1433", "sales.t"),
        ("jdbc:sqlserver://db\\one:1433;database=sales", "sqlserver://db:1433/one", "sales.t"),
        ("jdbc:derby:memory:sales;create=true", "derby:memory:sales", "t"),
        ("jdbc:sqlite:/data/sales.db", "sqlite:/data/sales.db", "t"),
        ("jdbc:oracle:thin:@db:1521/sales:dedicated", "oracle://db:1521", "sales.t"),
        ("jdbc:sqlserver://db;user=one@db;database=sales", "sqlserver://db", "sales.t"),
        ("jdbc:sqlserver://db;database={sales}", "sqlserver://db", "t"),
        ("jdbc:db2://db:50000/sales:retrieveMessages=true;", "db2://db:50000", "sales.t"),
        ("jdbc:informix-sqli://db:1/sales:a=b", "informix-sqli://db:1", "sales.t"),
        ("jdbc:other://db/sales", "other://db", "sales.t"),
        ("jdbc:other:sales", "other", "t"),
        ("not a URL", "jdbc", "t"),
    ],
)
def test_a_table_is_named_by_its_server_and_its_database(url, namespace, name):
    assert jdbc_datasets(url, "t") == (LineageDataset(namespace=namespace, name=name),)


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:postgresql://canary:canary@db/sales?password=canary",  # pragma: allowlist secret
        "jdbc:postgresql://canary:ca;nary@db/sales",
        "jdbc:oracle:thin:canary/canary@db:1521:sales",
        "jdbc:sqlserver://db;user=canary;password=canary;databaseName=sales",
        "jdbc:derby:memory:sales;user=canary;password=canary",
        "jdbc:oracle:thin:@(DESCRIPTION=(SECURITY=(PASSWORD=canary)))",
        "jdbc:oracle:thin:canary/can?canary@db:1521:sales",
        "jdbc:oracle:thin:canary/can;canary@db:1521:sales",
        "jdbc:oracle:thin:canary/can(canary@db:1521:sales",
        "jdbc:oracle:thin:canary/canary",
        "jdbc:oracle:thin:canary//canary",
        "jdbc:db2://db:50000/SAMPLE:password=canary;user=canary;",
        "jdbc:db2:SAMPLE:password=canary;",
        "jdbc:teradata://db/DATABASE=sales,USER=canary,PASSWORD=canary",
        "jdbc:informix-sqli://db:1/sales:password=canary;user=canary",
        "jdbc:mysql://canary:12?34@db/sales",
        "jdbc:mysql://db/sales?password=a;database=canary",
        "jdbc:sqlserver://db\\one;password={a;database=canary}",
        "jdbc:sqlserver://db;password={a}};database=canary}",
        "jdbc:sqlserver://db;password={a;database=canary",
    ],
)
def test_a_table_is_named_without_credentials(url):
    (dataset,) = jdbc_datasets(url, "t")
    assert "canary" not in f"{dataset}"


@pytest.mark.parametrize(
    ("relation", "names"),
    [
        ("public.t", ["sales.public.t"]),
        ('"public"."a table"', ["sales.public.a table"]),
        ("other.public.t", ["other.public.t"]),
        ("a JOIN b USING (id)", ["sales.a", "sales.b"]),
        ("(SELECT id FROM t WHERE token = 'canary') AS q", ["sales.t"]),
        ("(WITH t AS (SELECT * FROM a) SELECT * FROM t) AS q", ["sales.a"]),
        ("(WITH t AS (SELECT * FROM t) SELECT * FROM t) AS q", ["sales.t"]),
        (
            "(WITH t AS (SELECT * FROM a) SELECT * FROM public.t) AS q",
            ["sales.a", "sales.public.t"],
        ),
        (
            "(SELECT (SELECT max(n) FROM a) AS n FROM b WHERE n IN (SELECT n FROM c)) AS q",
            ["sales.a", "sales.c", "sales.b"],
        ),
        ("(a JOIN b USING (id))", ["sales.a", "sales.b"]),
        ("(SELECT id FROM a UNION ALL SELECT id FROM b) AS q", ["sales.a", "sales.b"]),
        ("a AS x JOIN a AS y USING (id)", ["sales.a"]),
        ("(SELECT * FROM generate_series(1, 9)) AS q", []),
        ("(SELECT canary", []),
    ],
)
def test_a_query_reads_the_datasets_of_its_tables(relation, names):
    assert [each.name for each in jdbc_datasets(POSTGRES, relation)] == names


@pytest.mark.parametrize("system", ["mysql", "clickhouse"])
def test_a_database_of_some_systems_is_a_schema(system):
    datasets = jdbc_datasets(f"jdbc:{system}://db/sales", "other.t")
    assert [each.name for each in datasets] == ["other.t"]
