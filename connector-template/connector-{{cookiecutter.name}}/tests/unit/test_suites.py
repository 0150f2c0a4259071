# SPDX-License-Identifier: Apache-2.0
"""The suites of the core, in this process: what every connector keeps to."""

from __future__ import annotations

from pathlib import Path

{% if cookiecutter.source and cookiecutter.sink %}
from {{ cookiecutter.__package }}.testing import SinkTopic, SourceTopic, System
from connectors_core.testing import Capabilities, Capability, SinkTestSuite, SourceTestSuite
{% elif cookiecutter.source %}
from {{ cookiecutter.__package }}.testing import SourceTopic, System
from connectors_core.testing import Capabilities, Capability, SourceTestSuite
{% else %}
from {{ cookiecutter.__package }}.testing import SinkTopic, System
from connectors_core.testing import Capabilities, Capability, SinkTestSuite
{% endif %}
