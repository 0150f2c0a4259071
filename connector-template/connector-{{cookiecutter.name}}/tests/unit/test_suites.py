# SPDX-License-Identifier: Apache-2.0
"""The suites of the core, in this process: what every connector keeps to."""

from __future__ import annotations

from log_suites import (
{% if cookiecutter.sink %}
    LogSinkSuite,
{% endif %}
{% if cookiecutter.source %}
    LogSourceSuite,
{% endif %}
)
{% if cookiecutter.source %}


class Test{{ cookiecutter.__class }}Source(LogSourceSuite):
    pass
{% endif %}
{% if cookiecutter.sink %}


class Test{{ cookiecutter.__class }}Sink(LogSinkSuite):
    pass
{% endif %}
