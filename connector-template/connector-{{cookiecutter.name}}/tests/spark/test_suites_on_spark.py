# SPDX-License-Identifier: Apache-2.0
"""Runs the core's suites on Spark."""

from __future__ import annotations

from log_suites import (
{% if cookiecutter.sink %}
    LogSinkSuite,
{% endif %}
{% if cookiecutter.source %}
    LogSourceSuite,
{% endif %}
{% if cookiecutter.lookup %}
    LogTableSuite,
{% endif %}
)
{% if cookiecutter.source %}


class Test{{ cookiecutter.__class }}SourceOnSpark(LogSourceSuite):
    on_spark = True
{% endif %}
{% if cookiecutter.sink %}


class Test{{ cookiecutter.__class }}SinkOnSpark(LogSinkSuite):
    on_spark = True
{% endif %}
{% if cookiecutter.lookup %}


class Test{{ cookiecutter.__class }}TableOnSpark(LogTableSuite):
    on_spark = True
{% endif %}
