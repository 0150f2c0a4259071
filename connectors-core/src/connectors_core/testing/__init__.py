# SPDX-License-Identifier: Apache-2.0
"""Tools for testing connectors and pipelines. The runtime never imports them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors_core._lazy import lazily
from connectors_core.testing.extra import needs_extra

if TYPE_CHECKING:
    from connectors_core.engine.coordinator.connection_checks import check_connections
    from connectors_core.engine.protocol import decision_path, report_path
    from connectors_core.testing.async_sink_suite import AsyncSinkWriterTestSuite
    from connectors_core.testing.capabilities import Capabilities, Capability
    from connectors_core.testing.cases import SUITE_VERSION, ConnectorSuite, case
    from connectors_core.testing.catalog_suite import CatalogExternalContext, CatalogTestSuite
    from connectors_core.testing.changelog_suite import (
        CHANGES,
        ChangelogExternalContext,
        ChangelogTestSuite,
    )
    from connectors_core.testing.cluster import SPECULATION, Cluster, running_cluster
    from connectors_core.testing.committer_suite import CommitterTestSuite
    from connectors_core.testing.context import (
        ROWS,
        AsyncSinkExternalContext,
        RequestFault,
        SinkExternalContext,
        SourceExternalContext,
        SplitDataWriter,
    )
    from connectors_core.testing.directory_sink import DirectorySink
    from connectors_core.testing.driver import DriverJob, run_driver, wait_for_survivors
    from connectors_core.testing.enumeration import ManualEnumeratorContext
    from connectors_core.testing.enumerator_suite import SplitEnumeratorTestSuite
    from connectors_core.testing.environment import (
        InProcess,
        LocalSpark,
        StandaloneCluster,
        TestEnvironment,
    )
    from connectors_core.testing.faults import (
        COMPACTING_POINTS,
        READING_POINTS,
        WRITING_POINTS,
        Fault,
        FaultAction,
        FaultInjected,
        FaultPoint,
        crash_chain,
        faults_env,
        injected,
    )
    from connectors_core.testing.format_suite import SinkFormatTestSuite, SourceFormatTestSuite
    from connectors_core.testing.hints import HintCases
    from connectors_core.testing.local_pipeline import LocalPipeline
    from connectors_core.testing.lookup_suite import LookupTestSuite
    from connectors_core.testing.lookup_trial import LOOKUP_ROWS, LookupExternalContext
    from connectors_core.testing.nested_columns import nested_array, nested_batches
    from connectors_core.testing.on_cluster import SuitesOnCluster
    from connectors_core.testing.options_suite import OptionsTestSuite
    from connectors_core.testing.outages import Outage, passing
    from connectors_core.testing.reader_suite import SourceReaderTestSuite
    from connectors_core.testing.serializer_suite import SerializerTestSuite
    from connectors_core.testing.sink_suite import SinkTestSuite
    from connectors_core.testing.source_suite import SourceTestSuite
    from connectors_core.testing.spark_session import new_session
    from connectors_core.testing.system import TestSystem
    from connectors_core.testing.table_suite import (
        TABLE_ROWS,
        TableExternalContext,
        TableTestSuite,
        table_schema,
    )
    from connectors_core.testing.traces import assert_unseen, error_texts
    from connectors_core.testing.vector_search_suite import VectorSearchTestSuite
    from connectors_core.testing.vector_search_trial import (
        VECTOR_ROWS,
        VectorSearchExternalContext,
    )
else:
    _load, __dir__ = lazily(
        __name__,
        {
            "connectors_core.engine.coordinator.connection_checks": ("check_connections",),
            "connectors_core.engine.protocol": ("decision_path", "report_path"),
            "connectors_core.testing.async_sink_suite": ("AsyncSinkWriterTestSuite",),
            "connectors_core.testing.capabilities": (
                "Capabilities",
                "Capability",
            ),
            "connectors_core.testing.cases": (
                "SUITE_VERSION",
                "ConnectorSuite",
                "case",
            ),
            "connectors_core.testing.catalog_suite": (
                "CatalogExternalContext",
                "CatalogTestSuite",
            ),
            "connectors_core.testing.changelog_suite": (
                "CHANGES",
                "ChangelogExternalContext",
                "ChangelogTestSuite",
            ),
            "connectors_core.testing.cluster": (
                "Cluster",
                "SPECULATION",
                "running_cluster",
            ),
            "connectors_core.testing.committer_suite": ("CommitterTestSuite",),
            "connectors_core.testing.context": (
                "ROWS",
                "AsyncSinkExternalContext",
                "RequestFault",
                "SinkExternalContext",
                "SourceExternalContext",
                "SplitDataWriter",
            ),
            "connectors_core.testing.directory_sink": ("DirectorySink",),
            "connectors_core.testing.driver": (
                "DriverJob",
                "run_driver",
                "wait_for_survivors",
            ),
            "connectors_core.testing.enumeration": ("ManualEnumeratorContext",),
            "connectors_core.testing.enumerator_suite": ("SplitEnumeratorTestSuite",),
            "connectors_core.testing.environment": (
                "InProcess",
                "LocalSpark",
                "StandaloneCluster",
                "TestEnvironment",
            ),
            "connectors_core.testing.faults": (
                "COMPACTING_POINTS",
                "Fault",
                "FaultAction",
                "FaultInjected",
                "FaultPoint",
                "READING_POINTS",
                "WRITING_POINTS",
                "crash_chain",
                "faults_env",
                "injected",
            ),
            "connectors_core.testing.format_suite": (
                "SinkFormatTestSuite",
                "SourceFormatTestSuite",
            ),
            "connectors_core.testing.hints": ("HintCases",),
            "connectors_core.testing.local_pipeline": ("LocalPipeline",),
            "connectors_core.testing.lookup_suite": ("LookupTestSuite",),
            "connectors_core.testing.lookup_trial": (
                "LOOKUP_ROWS",
                "LookupExternalContext",
            ),
            "connectors_core.testing.nested_columns": (
                "nested_array",
                "nested_batches",
            ),
            "connectors_core.testing.on_cluster": ("SuitesOnCluster",),
            "connectors_core.testing.options_suite": ("OptionsTestSuite",),
            "connectors_core.testing.outages": (
                "Outage",
                "passing",
            ),
            "connectors_core.testing.reader_suite": ("SourceReaderTestSuite",),
            "connectors_core.testing.serializer_suite": ("SerializerTestSuite",),
            "connectors_core.testing.sink_suite": ("SinkTestSuite",),
            "connectors_core.testing.source_suite": ("SourceTestSuite",),
            "connectors_core.testing.spark_session": ("new_session",),
            "connectors_core.testing.system": ("TestSystem",),
            "connectors_core.testing.table_suite": (
                "TABLE_ROWS",
                "TableExternalContext",
                "TableTestSuite",
                "table_schema",
            ),
            "connectors_core.testing.traces": (
                "assert_unseen",
                "error_texts",
            ),
            "connectors_core.testing.vector_search_suite": ("VectorSearchTestSuite",),
            "connectors_core.testing.vector_search_trial": (
                "VECTOR_ROWS",
                "VectorSearchExternalContext",
            ),
        },
    )
    __getattr__ = needs_extra()(_load)

__all__ = [
    "CHANGES",
    "COMPACTING_POINTS",
    "LOOKUP_ROWS",
    "READING_POINTS",
    "ROWS",
    "SPECULATION",
    "SUITE_VERSION",
    "TABLE_ROWS",
    "VECTOR_ROWS",
    "WRITING_POINTS",
    "AsyncSinkExternalContext",
    "AsyncSinkWriterTestSuite",
    "Capabilities",
    "Capability",
    "CatalogExternalContext",
    "CatalogTestSuite",
    "ChangelogExternalContext",
    "ChangelogTestSuite",
    "Cluster",
    "CommitterTestSuite",
    "ConnectorSuite",
    "DirectorySink",
    "DriverJob",
    "Fault",
    "FaultAction",
    "FaultInjected",
    "FaultPoint",
    "HintCases",
    "InProcess",
    "LocalPipeline",
    "LocalSpark",
    "LookupExternalContext",
    "LookupTestSuite",
    "ManualEnumeratorContext",
    "OptionsTestSuite",
    "Outage",
    "RequestFault",
    "SerializerTestSuite",
    "SinkExternalContext",
    "SinkFormatTestSuite",
    "SinkTestSuite",
    "SourceExternalContext",
    "SourceFormatTestSuite",
    "SourceReaderTestSuite",
    "SourceTestSuite",
    "SplitDataWriter",
    "SplitEnumeratorTestSuite",
    "StandaloneCluster",
    "SuitesOnCluster",
    "TableExternalContext",
    "TableTestSuite",
    "TestEnvironment",
    "TestSystem",
    "VectorSearchExternalContext",
    "VectorSearchTestSuite",
    "assert_unseen",
    "case",
    "check_connections",
    "crash_chain",
    "decision_path",
    "error_texts",
    "faults_env",
    "injected",
    "nested_array",
    "nested_batches",
    "new_session",
    "passing",
    "report_path",
    "run_driver",
    "running_cluster",
    "table_schema",
    "wait_for_survivors",
]
