# SPDX-License-Identifier: Apache-2.0
"""The common part of the suites for lookups and vector searches."""

from __future__ import annotations

import functools
import logging
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import Case, case
from connectors_core.testing.environment import TestEnvironment
from connectors_core.testing.join_trial import JoinExternalContext, JoinTrial
from connectors_core.testing.lineage_names import assert_named_for_lineage
from connectors_core.testing.traces import assert_unseen, error_texts
from connectors_core.testing.trial import PipelineSuite

Ways = Mapping[str, tuple[Mapping[str, str], Capability]]
"""The options of a way to join, and the capability that the way needs, by its name."""


class JoinTestSuite(PipelineSuite):
    """Cases for a table that a pipeline joins with its rows.

    Attributes:
        ways: The ways to join.
        rows: The schema of the table.
        trials: The class of the trials in this process, and that of the trials on Spark.
    """

    ways: ClassVar[Ways]
    rows: ClassVar[pa.Schema]
    trials: ClassVar[tuple[type[JoinTrial[Any]], type[JoinTrial[Any]]]]

    @abstractmethod
    def external_context(self, folder: Path) -> JoinExternalContext[Any]:
        """Return a new external system for one case. ``folder`` belongs to the case."""

    @classmethod
    def reason_against(cls, found: Case, parameters: Mapping[str, object]) -> str | None:
        """Return why a case does not apply. A table may not support its way to join."""
        way = parameters.get("way")
        if isinstance(way, str):
            reason = cls.possible().reason_against(frozenset({cls.ways[way][1]}))
            if reason is not None:
                return reason
        return super().reason_against(found, parameters)

    @pytest.fixture
    def context(self, tmp_path: Path) -> Iterator[JoinExternalContext[Any]]:
        """Return the external system of the case."""
        folder = tmp_path / "system"
        folder.mkdir()
        with closing(self.external_context(folder)) as context:
            context.write(self.rows.empty_table())
            yield context

    @pytest.fixture
    def trial(
        self,
        request: pytest.FixtureRequest,
        environment: TestEnvironment,
        context: JoinExternalContext[Any],
        tmp_path: Path,
    ) -> Iterator[JoinTrial[Any]]:
        """Return the joins of the case, with the options of its ``way``."""
        way = getattr(getattr(request.node, "callspec", None), "params", {}).get("way")
        options = self.ways[way][0] if way is not None else {}
        folder = tmp_path / "state"
        folder.mkdir()
        here, on_spark = self.trials
        trial = on_spark if self.on_spark else here
        with closing(trial(context, folder, options, environment)) as created:
            yield created

    def _assert_secrets_unseen(
        self,
        objects: Sequence[object],
        use: Callable[[], None],
        trial: JoinTrial[Any],
        folder: Path,
        caplog: pytest.LogCaptureFixture,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        """Check that some objects and a use of theirs show no secret, not even in an outage."""
        caplog.set_level(logging.DEBUG)
        seen = [text for each in objects for text in (repr(each), str(each))]
        use()
        if Capability.OUTAGES in self.possible().can:
            try:
                with trial.context.away():
                    use()
            except Exception as error:  # other cases show that it is one
                seen += error_texts(error)
        seen += [caplog.text, *capfd.readouterr()]
        assert_unseen(trial.context.secrets(), seen, folder)

    @case(since="1.4")
    def test_datasets_are_named_for_lineage(self, trial: JoinTrial[Any]) -> None:
        """The names follow OpenLineage's naming spec, and all instances give the same names."""
        create = functools.partial(trial.context.create_table, trial.options)
        assert_named_for_lineage(create, trial.context.secrets())
