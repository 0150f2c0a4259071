# SPDX-License-Identifier: Apache-2.0
"""The datasets that leaves of a plan read, named as OpenLineage's integration for Spark names them.

Of the options of a relation, only those that name a dataset are read, because others may be
credentials.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from connectors_core.lineage import LineageDataset, file_dataset, jdbc_datasets, kafka_datasets
from connectors_core.spark.internals.plans import PlanNode, elements
from connectors_core.spark.internals.sessions import java_class, java_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_PATHS: Final = 50


@dataclass(frozen=True)
class Relation:
    """What a leaf of a plan reads.

    Attributes:
        datasets: The datasets; empty if Spark does not tell them.
        has_columns: Whether its columns are those of the datasets.
    """

    datasets: tuple[LineageDataset, ...] = ()
    has_columns: bool = True


def relation_of(spark: SparkSession, leaf: PlanNode) -> Relation:
    """Return what a leaf of an analyzed plan reads.

    Args:
        spark: The session.
        leaf: The leaf.
    """
    reader = _READERS.get(leaf.name)
    try:
        return Relation() if reader is None else reader(spark, leaf.java)
    except (Py4JError, PySparkException):  # a library has a relation of another form
        return Relation()


# --- Batches ------------------------------------------------------------------------------------


def _logical_relation(_spark: SparkSession, leaf: Any) -> Relation:
    relation = leaf.relation()
    kinds = _kinds(relation)
    if "HadoopFsRelation" in kinds:
        return _files(_folders(relation.location()))
    if "JDBCRelation" in kinds:
        return _jdbc(relation.jdbcOptions())
    if "KafkaRelation" in kinds:
        return _kafka(_private(relation, "sourceOptions").get)
    return _table_if_known(leaf.catalogTable())


def _folders(location: Any) -> Iterable[str]:
    """Return the folders of an index of files."""
    roots, separator = location.rootPaths(), f"\0{uuid.uuid4()}\0"
    paths = str(roots.mkString(separator)).split(separator)  # one call for all paths
    if len(paths) > _MOST_PATHS:  # a pattern, which Spark has replaced by its files
        return [path.rpartition("/")[0] for path in paths]
    return [
        path.rpartition("/")[0] if _is_file(location, root) else path
        for path, root in zip(paths, elements(roots), strict=True)
    ]


def _is_file(location: Any, path: Any) -> bool:
    try:
        return bool(location.leafFiles().contains(path))
    except Py4JError:  # an index of a table, whose paths are folders
        return False


def _hive_table(_spark: SparkSession, leaf: Any) -> Relation:
    return _table(leaf.tableMeta())


def _table_if_known(option: Any) -> Relation:
    return _table(option.get()) if option.isDefined() else Relation()


def _table(table: Any) -> Relation:
    return _files([unquote(str(table.location()))])  # a URI


def _table_of_catalog(_spark: SparkSession, leaf: Any) -> Relation:
    table = leaf.table()
    if "JDBCTable" in _kinds(table):
        return _jdbc(table.jdbcOptions())
    properties = table.properties()
    namespace, name, location = (
        properties.get(key)
        for key in ("openlineage.dataset.namespace", "openlineage.dataset.name", "location")
    )
    if namespace and name:  # a table that knows OpenLineage
        return Relation((LineageDataset(namespace=str(namespace), name=str(name)),))
    return _files([str(location)]) if location else Relation()


# --- Streams ------------------------------------------------------------------------------------


def _stream(spark: SparkSession, leaf: Any) -> Relation:
    source = leaf.dataSource()
    given = _text(source.options().get("path"))
    if not given:
        return _table_if_known(source.catalogTable())
    path = java_class(spark, "org.apache.hadoop.fs.Path")(given)
    files = path.getFileSystem(java_session(spark).sessionState().newHadoopConf())
    return _files([str(files.makeQualified(path).toString())])


def _stream_of_table(spark: SparkSession, leaf: Any) -> Relation:
    if str(leaf.sourceName()) == "kafka":
        return _kafka(leaf.extraOptions().get)
    return _table_of_catalog(spark, leaf)


# --- Names --------------------------------------------------------------------------------------


def _files(paths: Iterable[str]) -> Relation:
    return Relation(tuple(dict.fromkeys(map(file_dataset, paths))))


def _jdbc(options: Any) -> Relation:
    table = str(options.tableOrQuery())
    is_table = len(table.split()) == 1
    return Relation(jdbc_datasets(str(options.url()), table), has_columns=is_table)


def _kafka(option: Callable[[str], Any]) -> Relation:
    """Return the topics in the options of Spark's own source."""
    servers, topics, pattern, partitions = (
        _text(option(key))
        for key in ("kafka.bootstrap.servers", "subscribe", "subscribepattern", "assign")
    )
    if partitions:
        names = list(json.loads(partitions))
    else:
        names = [pattern] if pattern else [each.strip() for each in topics.split(",")]
    return Relation(kafka_datasets(servers.split(","), names))


def _text(option: Any) -> str:
    """Return the text of an option, which is an `Option` in maps of Scala."""
    if option is None or isinstance(option, str):
        return option or ""
    return str(option.get()) if option.isDefined() else ""


def _private(owner: Any, field: str) -> Any:
    found = owner.getClass().getDeclaredField(field)
    found.setAccessible(True)
    return found.get(owner)


def _kinds(owner: Any) -> set[str]:
    """Return the names of an object's class and of its superclasses."""
    found, names = owner.getClass(), set()
    while found is not None:
        names.add(str(found.getSimpleName()))
        found = found.getSuperclass()
    return names


_READERS: Final[Mapping[str, Callable[[SparkSession, Any], Relation]]] = {
    "DataSourceV2Relation": _table_of_catalog,
    "HiveTableRelation": _hive_table,
    "LogicalRelation": _logical_relation,
    "StreamingRelation": _stream,
    "StreamingRelationV2": _stream_of_table,
}
