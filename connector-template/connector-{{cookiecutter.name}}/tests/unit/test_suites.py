# SPDX-License-Identifier: Apache-2.0
"""Runs the core's suites in this process."""

from __future__ import annotations

{% if cookiecutter.source %}
from typing import Any

import pytest

{% endif %}
import {{ cookiecutter.__package }}_suites as suites
{% if cookiecutter.source %}
from connectors_core.source import Boundedness, ReadLimits
from connectors_core.testing import Capability, case


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
