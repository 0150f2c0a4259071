# SPDX-License-Identifier: Apache-2.0
"""Runs the core's suites on Spark."""

from __future__ import annotations

import log_suites
{% if cookiecutter.source %}


class Test{{ cookiecutter.__class }}SourceOnSpark(log_suites.LogSourceSuite):
    on_spark = True


class Test{{ cookiecutter.__class }}SourceAsFormat(log_suites.LogSourceFormatSuite):
    pass
{% endif %}
{% if cookiecutter.sink %}


class Test{{ cookiecutter.__class }}SinkOnSpark(log_suites.LogSinkSuite):
    on_spark = True
{% if not cookiecutter.__topologies %}


class Test{{ cookiecutter.__class }}SinkAsFormat(log_suites.LogSinkFormatSuite):
    pass
{% endif %}
{% endif %}
{% if cookiecutter.lookup %}


class Test{{ cookiecutter.__class }}TableOnSpark(log_suites.LogTableSuite):
    on_spark = True
{% endif %}
{% if cookiecutter.table %}


class Test{{ cookiecutter.__class }}SqlOnSpark(log_suites.LogSqlSuite):
    on_spark = True
{% endif %}
