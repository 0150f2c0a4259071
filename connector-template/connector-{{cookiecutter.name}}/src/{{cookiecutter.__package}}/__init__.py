# SPDX-License-Identifier: Apache-2.0
{% if cookiecutter.source and cookiecutter.__requests %}
"""A source and an at-least-once sink; what is exported here is the connector's public API."""
{% elif cookiecutter.source and cookiecutter.sink %}
"""A source and an exactly-once sink; what is exported here is the connector's public API."""
{% elif cookiecutter.source %}
"""A source; what is exported here is the connector's public API."""
{% elif cookiecutter.__requests %}
"""An at-least-once sink; what is exported here is the connector's public API."""
{% else %}
"""An exactly-once sink; what is exported here is the connector's public API."""
{% endif %}

{% if cookiecutter.sink %}
from {{ cookiecutter.__package }}.sink import SINK_OPTIONS, {{ cookiecutter.__class }}Sink
{% endif %}
{% if cookiecutter.source %}
from {{ cookiecutter.__package }}.source import SOURCE_OPTIONS, {{ cookiecutter.__class }}Source
{% endif %}
from connectors_core.compatibility import check_spark

__all__ = [
{% if cookiecutter.sink %}
    "SINK_OPTIONS",
{% endif %}
{% if cookiecutter.source %}
    "SOURCE_OPTIONS",
{% endif %}
{% if cookiecutter.sink %}
    "{{ cookiecutter.__class }}Sink",
{% endif %}
{% if cookiecutter.source %}
    "{{ cookiecutter.__class }}Source",
{% endif %}
]

check_spark("connector-{{ cookiecutter.name }}")
