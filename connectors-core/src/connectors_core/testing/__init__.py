# SPDX-License-Identifier: Apache-2.0
"""What connectors test themselves with; never imported by the runtime."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from connectors_core.testing.faults import (
    Fault,
    FaultAction,
    FaultInjected,
    FaultPoint,
    faults_env,
    injected,
)

if TYPE_CHECKING:
    from connectors_core.testing.async_sink_suite import AsyncSinkWriterTestSuite
    from connectors_core.testing.capabilities import Capabilities, Capability
    from connectors_core.testing.cases import SUITE_VERSION, ConnectorSuite, case
    from connectors_core.testing.committer_suite import CommitterTestSuite
    from connectors_core.testing.context import (
        ROWS,
        AsyncSinkExternalContext,
        RequestFault,
        SinkExternalContext,
        SourceExternalContext,
        SplitDataWriter,
    )
    from connectors_core.testing.enumeration import ManualEnumeratorContext
    from connectors_core.testing.enumerator_suite import SplitEnumeratorTestSuite
    from connectors_core.testing.environment import (
        InProcess,
        LocalSpark,
        StandaloneCluster,
        TestEnvironment,
    )
    from connectors_core.testing.lookup_suite import LookupTestSuite
    from connectors_core.testing.lookup_trial import LOOKUP_ROWS, LookupExternalContext
    from connectors_core.testing.nested_columns import nested_array, nested_batches
    from connectors_core.testing.options_suite import OptionsTestSuite
    from connectors_core.testing.outages import Outage
    from connectors_core.testing.reader_suite import SourceReaderTestSuite
    from connectors_core.testing.serializer_suite import SerializerTestSuite
    from connectors_core.testing.sink_suite import SinkTestSuite
    from connectors_core.testing.source_suite import SourceTestSuite
    from connectors_core.testing.system import TestSystem

__all__ = [
    "LOOKUP_ROWS",
    "ROWS",
    "SUITE_VERSION",
    "AsyncSinkExternalContext",
    "AsyncSinkWriterTestSuite",
    "Capabilities",
    "Capability",
    "CommitterTestSuite",
    "ConnectorSuite",
    "Fault",
    "FaultAction",
    "FaultInjected",
    "FaultPoint",
    "InProcess",
    "LocalSpark",
    "LookupExternalContext",
    "LookupTestSuite",
    "ManualEnumeratorContext",
    "OptionsTestSuite",
    "Outage",
    "RequestFault",
    "SerializerTestSuite",
    "SinkExternalContext",
    "SinkTestSuite",
    "SourceExternalContext",
    "SourceReaderTestSuite",
    "SourceTestSuite",
    "SplitDataWriter",
    "SplitEnumeratorTestSuite",
    "StandaloneCluster",
    "TestEnvironment",
    "TestSystem",
    "case",
    "faults_env",
    "injected",
    "nested_array",
    "nested_batches",
]

_MODULES = {
    "async_sink_suite": ("AsyncSinkWriterTestSuite",),
    "capabilities": ("Capabilities", "Capability"),
    "cases": ("SUITE_VERSION", "ConnectorSuite", "case"),
    "committer_suite": ("CommitterTestSuite",),
    "context": (
        "ROWS",
        "AsyncSinkExternalContext",
        "RequestFault",
        "SinkExternalContext",
        "SourceExternalContext",
        "SplitDataWriter",
    ),
    "enumeration": ("ManualEnumeratorContext",),
    "enumerator_suite": ("SplitEnumeratorTestSuite",),
    "environment": ("InProcess", "LocalSpark", "StandaloneCluster", "TestEnvironment"),
    "lookup_suite": ("LookupTestSuite",),
    "lookup_trial": ("LOOKUP_ROWS", "LookupExternalContext"),
    "nested_columns": ("nested_array", "nested_batches"),
    "options_suite": ("OptionsTestSuite",),
    "outages": ("Outage",),
    "reader_suite": ("SourceReaderTestSuite",),
    "serializer_suite": ("SerializerTestSuite",),
    "sink_suite": ("SinkTestSuite",),
    "source_suite": ("SourceTestSuite",),
    "system": ("TestSystem",),
}


def __getattr__(name: str) -> Any:
    # Late: faults are injected where pytest is not installed.
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
