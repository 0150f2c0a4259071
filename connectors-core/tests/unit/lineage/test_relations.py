# SPDX-License-Identifier: Apache-2.0
"""Tests which datasets relations read that need a library of their own, without a JVM."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError

from connectors_core.lineage import LineageDataset
from connectors_core.spark.internals.plans import PlanNode
from connectors_core.spark.internals.relations import Relation, relation_of

SECRET = "canary-0d1c"  # pragma: allowlist secret
SERVERS = {"kafka.bootstrap.servers": "one:9092, two:9092", "kafka.sasl.jaas.config": SECRET}


class Java:
    """An object of the JVM with the results of its methods."""

    def __init__(self, kind, **results):
        field = SimpleNamespace(setAccessible=lambda _: None, get=lambda _: self.results["private"])
        own = SimpleNamespace(
            getSimpleName=lambda: kind,
            getDeclaredField=lambda _: field,
            getSuperclass=lambda: None,
        )
        self.results = {"getClass": own, "nodeName": kind, **results}

    def __getattr__(self, name):
        if name not in self.results:
            raise Py4JError(f"method {name} does not exist")
        return lambda *_: self.results[name]


def option(value):
    return Java("Option", isDefined=value is not None, get=value)


def read(leaf):
    return relation_of(None, PlanNode(leaf))


def table(kind="ForeignTable", **properties):
    return Java("DataSourceV2Relation", table=Java(kind, properties=properties))


@pytest.mark.parametrize(
    ("chosen", "topics"),
    [
        ({"subscribe": "a, b"}, ["a", "b"]),
        ({"subscribepattern": "a.*"}, ["a.*"]),
        ({"assign": '{"a": [0, 1], "b": [2]}'}, ["a", "b"]),
    ],
)
def test_a_source_of_kafka_in_spark_reads_topics(chosen, topics):
    options = SERVERS | chosen
    stream = Java("StreamingRelationV2", sourceName="kafka", extraOptions=options)
    relation = Java(
        "KafkaRelation", private=SimpleNamespace(get=lambda key: option(options.get(key)))
    )
    for leaf in (stream, Java("LogicalRelation", relation=relation)):
        found = read(leaf)
        assert found.datasets == tuple(
            LineageDataset(namespace="kafka://one:9092", name=topic) for topic in topics
        )
        assert SECRET not in f"{found}"


def test_a_table_of_hive_is_named_by_its_location():
    leaf = Java("HiveTableRelation", tableMeta=Java("CatalogTable", location="s3a://lake/a%20t"))
    assert read(leaf).datasets == (LineageDataset(namespace="s3://lake", name="a t"),)


def test_a_table_of_another_relation_is_named_by_its_location():
    found = option(Java("CatalogTable", location="file:/t"))
    leaf = Java("LogicalRelation", relation=Java("ForeignRelation"), catalogTable=found)
    assert read(leaf).datasets == (LineageDataset(namespace="file", name="/t"),)
    leaf.results["catalogTable"] = option(None)
    assert read(leaf) == Relation()


def test_a_table_of_a_catalog_is_named_by_its_properties():
    known = {"openlineage.dataset.namespace": "bigquery", "openlineage.dataset.name": "p.d.t"}
    assert read(table(**known)).datasets == (LineageDataset(namespace="bigquery", name="p.d.t"),)
    assert read(table(location="s3://lake/t")).datasets == (
        LineageDataset(namespace="s3://lake", name="t"),
    )
    assert read(table(password=SECRET)) == Relation()


def test_a_relation_of_another_form_has_no_datasets():
    assert read(Java("DataSourceV2Relation", table=Java("JDBCTable"))) == Relation()
    assert read(Java("LogicalRDD")) == Relation()
