# SPDX-License-Identifier: Apache-2.0
"""Tests the options that the connectors declare: what they share does not differ in form."""

from __future__ import annotations

import importlib
import pkgutil
import re
from importlib import metadata

import pytest
from packaging.version import Version

import connector_elasticsearch
import connector_filesystem
import connector_kafka
import connectors_core
from connectors_core.formats import FORMAT_OPTIONS
from connectors_core.lookup import LOOKUP_TABLE_OPTIONS
from connectors_core.options import Configured


@pytest.mark.parametrize(
    ("configured", "scope"),
    [
        (connector_kafka.KafkaSource, "Kafka source"),
        (connector_kafka.KafkaSink, "Kafka sink"),
        (connector_elasticsearch.ElasticsearchSource, "Elasticsearch source"),
        (connector_elasticsearch.ElasticsearchSink, "Elasticsearch sink"),
        (connector_elasticsearch.ElasticsearchTable, "Elasticsearch table"),
        (connector_filesystem.FileSource, "file source"),
        (connector_filesystem.FileSink, "file sink"),
        (connector_filesystem.FileTable, "file table"),
    ],
    ids=str,
)
def test_errors_name_a_system_by_its_proper_name(configured, scope):
    assert configured.OPTIONS.scope == scope


PACKAGES = (connectors_core, connector_elasticsearch, connector_filesystem, connector_kafka)


def configured_classes():
    names = {each.__name__ for each in PACKAGES}
    for package in PACKAGES:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if ".testing" not in module.name and not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    waiting = [Configured]
    while waiting:
        found = waiting.pop().__subclasses__()
        waiting += found
        yield from (each for each in found if each.__module__.partition(".")[0] in names)


def test_every_option_has_the_version_that_introduced_it():
    silent = {
        f"{each.__name__}: {option.key}"
        for each in configured_classes()
        for option in each.OPTIONS
        if not re.fullmatch(r"\d+\.\d+\.\d+", option.since or "")
    }
    assert not silent


@pytest.mark.parametrize("options", [FORMAT_OPTIONS, LOOKUP_TABLE_OPTIONS])
def test_every_option_that_connectors_share_has_a_version_of_the_core(options):
    core = Version(metadata.version("connectors-core"))
    assert all(Version(each.since) <= core for each in options)


@pytest.mark.parametrize(
    "configured",
    [
        connector_kafka.KafkaSource,
        connector_kafka.KafkaSink,
        connector_elasticsearch.ElasticsearchSource,
        connector_elasticsearch.ElasticsearchSink,
        connector_elasticsearch.ElasticsearchTable,
        connector_filesystem.FileSource,
        connector_filesystem.FileSink,
    ],
)
def test_an_option_of_a_connector_has_a_version_of_the_connector(configured):
    assert {each.since for each in configured.OPTIONS} <= {"2.0.0", "3.0.0", "3.1.0"}
