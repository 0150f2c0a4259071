# SPDX-License-Identifier: Apache-2.0
"""The public API of the connector."""

{% if cookiecutter.sink %}
from {{ cookiecutter.__package }}.sink import {{ cookiecutter.__class }}Sink
{% endif %}
{% if cookiecutter.source %}
from {{ cookiecutter.__package }}.source import {{ cookiecutter.__class }}Source
{% endif %}
{% if cookiecutter.lookup %}
from {{ cookiecutter.__package }}.table import {{ cookiecutter.__class }}Table
{% endif %}
from connectors_core.compatibility import check_spark

__all__ = [
{% if cookiecutter.sink %}
    "{{ cookiecutter.__class }}Sink",
{% endif %}
{% if cookiecutter.source %}
    "{{ cookiecutter.__class }}Source",
{% endif %}
{% if cookiecutter.lookup %}
    "{{ cookiecutter.__class }}Table",
{% endif %}
]

check_spark("connector-{{ cookiecutter.name }}")
