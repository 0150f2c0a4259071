# SPDX-License-Identifier: Apache-2.0
"""What the connector is tested with, and what its users may test with: a server of its own."""

from {{ cookiecutter.__package }}.testing.server import Topic, running_server
from {{ cookiecutter.__package }}.testing.system import (
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

__all__ = [
{% if cookiecutter.sink %}
    "SINK_CAPABILITIES",
{% endif %}
{% if cookiecutter.source %}
    "SOURCE_CAPABILITIES",
{% endif %}
    "LogSystem",
{% if cookiecutter.sink %}
    "SinkTopic",
{% endif %}
{% if cookiecutter.source %}
    "SourceTopic",
{% endif %}
    "Topic",
    "running_server",
]
