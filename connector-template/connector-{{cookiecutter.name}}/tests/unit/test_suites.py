# SPDX-License-Identifier: Apache-2.0
"""Runs the core's suites in this process."""

from __future__ import annotations

{% if cookiecutter.source or cookiecutter.__applies %}
from typing import Any

{% endif %}
{% if cookiecutter.source %}
import pytest

{% endif %}
import {{ cookiecutter.__package }}_suites as suites
{% if cookiecutter.source %}
from connectors_core.source import Boundedness, ReadLimits
{% endif %}
{% if cookiecutter.source or cookiecutter.__applies %}
from connectors_core.testing import Capability, case
{% endif %}
{% if cookiecutter.source %}


class Test{{ cookiecutter.__class }}Source(suites.SourceSuite):
    """The core's cases, and one more, which runs if the connector has its capabilities."""

    @case(Capability.UNBOUNDED, Capability.GROWING_SPLITS)
    @pytest.mark.parametrize("limits", [ReadLimits(), ReadLimits(splits=2)])
    def test_it_resumes_after_the_available_rows(self, trial: Any, limits: ReadLimits) -> None:
        def pipeline() -> Any:
            return trial.pipeline(Boundedness.CONTINUOUS_UNBOUNDED, limits=limits)

        trial.write_split(4)
        for _ in range(2):
            with pipeline() as endless:
                endless.start()
                trial.wait_for_all(endless)
            trial.grow_splits()
            with pipeline() as ending:
                assert ending.run(available_now=True, drain=False, timeout=120)
            trial.assert_complete()
            trial.grow_splits()

    @case(Capability.UNBOUNDED, Capability.GROWING_SPLITS, Capability.CUT_SPLITS)
    def test_available_rows_that_were_read_and_are_gone_are_a_loss(self, trial: Any) -> None:
        trial.write_split(2)
        with trial.pipeline(Boundedness.CONTINUOUS_UNBOUNDED) as pipeline:
            trial.run_to_end(pipeline, available_now=True)
        trial.cut_split(1, 10)
        trial.run_to_loss(Boundedness.CONTINUOUS_UNBOUNDED)
        trial.assert_complete()
{% endif %}
{% if cookiecutter.sink %}


class Test{{ cookiecutter.__class }}Sink(suites.SinkSuite):
    pass
{% if cookiecutter.__applies %}


class Test{{ cookiecutter.__class }}Changes(suites.ChangesSuite):
    """The core's cases, and one more."""

    @case(Capability.CHANGELOG_SINK)
    def test_a_key_of_two_columns_is_compared_as_a_whole(self, trial: Any) -> None:
        trial.context.key = ("id", "text")
        trial.apply([("+I", 1, "a", 1), ("+I", 1, "b", 1), ("-D", 1, "a", 1)])
        assert trial.context.read_back().to_pylist() == [{"id": 1, "text": "b", "version": 1}]
{% endif %}
{% endif %}
{% if cookiecutter.lookup %}


class Test{{ cookiecutter.__class }}Table(suites.TableSuite):
    pass
{% endif %}
{% if cookiecutter.table %}


class Test{{ cookiecutter.__class }}Sql(suites.SqlSuite):
    pass
{% endif %}
{% if cookiecutter.catalog %}


class Test{{ cookiecutter.__class }}Catalog(suites.CatalogSuite):
    pass
{% endif %}
