# SPDX-License-Identifier: Apache-2.0
"""Elastic's own Spark connector, whose newest release runs on 3.5 but not on 4.1 or later."""

from __future__ import annotations

from pathlib import Path

import pyspark

from connector_elasticsearch.testing import ElasticsearchServer, Plugin
from connectors_core.testing.servers import Artifact, PinnedArtifacts

# The peer asks the server for its version, which the test server does not report by default.
MAIN_INFO = Plugin("main-info", Path(__file__).parent / "main_info")
_SPARK = "3.5"
_JARS = PinnedArtifacts(
    "elasticsearch-hadoop",
    (
        Artifact(
            "org.elasticsearch",
            "elasticsearch-spark-30_2.12",
            "9.5.6",
            "15849ea96d98e2a01201c147e6ec89eb8d7eb22a7eea80de3b5e6261ac9e670f",
        ),
    ),
    "CONNECTORS_ELASTICSEARCH_JARS",
)


def jars() -> list[Path] | None:
    """Return its jars, or None if it does not run on the installed Spark."""
    return _JARS.paths() if pyspark.__version__.startswith(f"{_SPARK}.") else None


def options(server: ElasticsearchServer) -> dict[str, str]:
    """Return its connection options for a server."""
    return {
        "es.nodes": "127.0.0.1",
        "es.port": str(server.port),
        "es.nodes.wan.only": "true",
    }
