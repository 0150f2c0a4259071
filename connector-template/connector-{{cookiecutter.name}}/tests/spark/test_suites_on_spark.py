# SPDX-License-Identifier: Apache-2.0
"""Runs the core's suites on Spark."""

from __future__ import annotations

import {{ cookiecutter.__package }}_suites as suites
{% if cookiecutter.source %}


class Test{{ cookiecutter.__class }}SourceOnSpark(suites.SourceSuite):
    on_spark = True


class Test{{ cookiecutter.__class }}SourceAsFormat(suites.SourceFormatSuite):
    pass
{% endif %}
{% if cookiecutter.sink %}


class Test{{ cookiecutter.__class }}SinkOnSpark(suites.SinkSuite):
    on_spark = True
{% if not cookiecutter.__topologies %}


class Test{{ cookiecutter.__class }}SinkAsFormat(suites.SinkFormatSuite):
    pass
{% endif %}
{% endif %}
{% if cookiecutter.lookup %}


class Test{{ cookiecutter.__class }}TableOnSpark(suites.TableSuite):
    on_spark = True
{% endif %}
{% if cookiecutter.table %}


class Test{{ cookiecutter.__class }}SqlOnSpark(suites.SqlSuite):
    on_spark = True
{% endif %}
