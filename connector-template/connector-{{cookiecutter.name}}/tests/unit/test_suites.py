# SPDX-License-Identifier: Apache-2.0
"""The suites of the core, in this process: what every connector keeps to."""

from __future__ import annotations

from pathlib import Path

from {{ cookiecutter.__package }}.testing import (
{% if cookiecutter.sink %}
    SINK_CAPABILITIES,
{% endif %}
{% if cookiecutter.source %}
    SOURCE_CAPABILITIES,
{% endif %}
    LogSystem,
{% if cookiecutter.sink %}
    SinkTopic,
{% endif %}
{% if cookiecutter.source %}
    SourceTopic,
{% endif %}
)
from connectors_core.testing import (
{% if cookiecutter.sink %}
    SinkTestSuite,
{% endif %}
{% if cookiecutter.source %}
    SourceTestSuite,
{% endif %}
)
{% if cookiecutter.source %}


class Test{{ cookiecutter.__class }}Source(SourceTestSuite):
    system = LogSystem()
    capabilities = SOURCE_CAPABILITIES

    def external_context(self, folder: Path) -> SourceTopic:
        return SourceTopic(self.address)
{% endif %}
{% if cookiecutter.sink %}


class Test{{ cookiecutter.__class }}Sink(SinkTestSuite):
    system = LogSystem()
    capabilities = SINK_CAPABILITIES

    def external_context(self, folder: Path) -> SinkTopic:
        return SinkTopic(self.address)
{% endif %}
