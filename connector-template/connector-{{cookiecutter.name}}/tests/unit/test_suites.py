# SPDX-License-Identifier: Apache-2.0
"""The suites of the core, in this process: what every connector keeps to."""

from __future__ import annotations

from pathlib import Path

from {{ cookiecutter.__package }}.testing import (
    LogSystem,
{% if cookiecutter.sink %}
    SinkTopic,
{% endif %}
{% if cookiecutter.source %}
    SourceTopic,
{% endif %}
)
from connectors_core.testing import (
    Capabilities,
    Capability,
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
    # What the system cannot do at all goes into `cannot={...: "the reason"}`.
    capabilities = Capabilities(
        can=frozenset(
            {
                Capability.BOUNDED,
                Capability.UNBOUNDED,
                Capability.DISCOVERY,
                Capability.GROWING_SPLITS,
                Capability.POISON_READS,
            }
        )
    )

    def external_context(self, folder: Path) -> SourceTopic:
        return SourceTopic(self.address)
{% endif %}
{% if cookiecutter.sink %}


class Test{{ cookiecutter.__class }}Sink(SinkTestSuite):
    system = LogSystem()
    capabilities = Capabilities(can=frozenset({Capability.EXACTLY_ONCE}))

    def external_context(self, folder: Path) -> SinkTopic:
        return SinkTopic(self.address)
{% endif %}
