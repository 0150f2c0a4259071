# SPDX-License-Identifier: Apache-2.0
"""The core's suites for this connector: its test data and its capabilities."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from connector_tickets.source import TicketsSource
from connector_tickets.testing import Account, TicketsSystem
from connectors_core.source import Boundedness
from connectors_core.testing import (
    ROWS,
    Capabilities,
    Capability,
    SourceExternalContext,
    SourceFormatTestSuite,
    SourceTestSuite,
    SplitDataWriter,
)

# The version of the suites that these tests are written for. Cases of later versions are new.
SUITES = "1.5"
# The rows of the suites are tickets.
NAMES = {"split": "project", "seq": "id", "text": "title"}
SOURCE = Capabilities(
    can=frozenset(
        {
            Capability.BOUNDED,
            Capability.UNBOUNDED,
            Capability.DISCOVERY,
            Capability.GROWING_SPLITS,
            Capability.POISON_READS,
            Capability.REPLAYABLE,
            Capability.SCHEMA_CHANGE,
            Capability.SECRETS,
            Capability.OUTAGES,
        }
    ),
    cannot={
        Capability.INPUT_VERSION: "a run ends at its start, and no two runs start at one time",
        Capability.REPLACED_SPLITS: "tickets never change",
        Capability.SKIPPED_SPLITS: "no option skips what cannot be read",
        Capability.LATE_COMMITS: "`source.settle` waits for late tickets, and the suites do not",
        Capability.ACKNOWLEDGED_READS: "tickets stay",
        Capability.REFUSALS: "the API has accounts without rights",
        Capability.CUT_SPLITS: "tickets are found by their times, and have no positions",
        Capability.DATA_TYPES: "a ticket has four columns",
        Capability.MISFITS: "a ticket has four columns, and none of them is nested",
    },
)


class ProjectWriter(SplitDataWriter):
    """Writes to one project."""

    def __init__(self, account: Account, project: str) -> None:
        self._account = account
        self._project = project
        account.add(project, [])

    def write(self, rows: pa.Table) -> None:
        tickets = [
            {"opened": row.pop("at").isoformat(), **row}
            for row in rows.rename_columns(NAMES).to_pylist()
        ]
        if tickets:  # the suites number the projects
            self._project = str(tickets[0]["project"])
        self._account.add(self._project, tickets)

    def write_poison(self) -> None:
        self._account.add(self._project, [{"id": "not a number"}])


class Tickets(SourceExternalContext):
    """An account for one case."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._secret = uuid.uuid4().hex
        self._account = Account(url, self._secret)
        self._account.add("0", [])
        self._projects = itertools.count()

    def create_split(self) -> ProjectWriter:
        return ProjectWriter(self._account, str(next(self._projects)))

    def create_source(self, boundedness: Boundedness) -> TicketsSource:
        if boundedness is Boundedness.BOUNDED:
            _wait_for_the_next_second()
        return TicketsSource.from_options(self.format_options(boundedness))

    def format_options(self, boundedness: Boundedness) -> Mapping[str, str]:
        options = {
            "url": self._url,
            "client.id": "tester",
            "client.secret": self._secret,
            "source.settle": "0 s",
        }
        endless = boundedness is Boundedness.CONTINUOUS_UNBOUNDED
        return options | ({"source.discovery-interval": "50 ms"} if endless else {})

    def to_rows(self, read: pa.Table) -> pa.Table:
        return read.rename_columns(ROWS.names).cast(ROWS)

    def secrets(self) -> Sequence[str]:
        return [self._secret]


def _wait_for_the_next_second() -> None:
    """Wait until the whole seconds of the header `Date` are after all tickets.

    A driver with a wrong clock has no other time, and it reads no tickets after that time.
    """
    second = int(time.time())
    while int(time.time()) == second:
        time.sleep(0.01)


class OfSource:
    """What the suites of the source and of its parts share."""

    system = TicketsSystem()
    written_for = SUITES
    capabilities = SOURCE

    def external_context(self, folder: Path) -> Tickets:
        return Tickets(self.address)


class SourceSuite(OfSource, SourceTestSuite):
    pass


class SourceFormatSuite(OfSource, SourceFormatTestSuite):
    format = "connector_tickets"
