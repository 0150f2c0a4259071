# SPDX-License-Identifier: Apache-2.0
"""Random events in the life of a driver, for stateful tests of its coordinator."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule


class DriverModel(RuleBasedStateMachine):
    """A model whose subclasses create and start `driver` in an initialize rule."""

    driver = None
    purged_below = 0

    @rule()
    def the_coordinator_runs(self):
        self.driver.mailbox.run()

    @rule()
    def calls_are_answered(self):
        self.driver.mailbox.run_calls()

    @rule()
    def time_passes(self):
        self.driver.mailbox.to_next_timer()

    @precondition(lambda self: self.driver.newest is not None)
    @rule(which=st.integers(0, 100))
    def an_entry_is_read(self, which):
        entries = self.driver.entries(self.driver.newest)
        self.driver.read(entries[which % len(entries)])

    @precondition(lambda self: self.driver.newest is not None)
    @rule(committed=st.integers(0, 2))
    def the_batch_is_read_and_an_earlier_one_committed(self, committed):
        number = self.driver.newest.number
        self.driver.consume(self.driver.newest)
        if committed <= number:
            self.driver.coordinator.notify_complete(number - committed)
        self.driver.mailbox.run()

    @rule(steps=st.integers(1, 30))
    def all_goes_well_for_a_while(self, steps):
        self.driver.run_steps(steps)

    @rule(parallelism=st.integers(1, 4))
    def the_driver_crashes(self, parallelism):
        self.driver.crash()
        self.driver.start(parallelism)

    @precondition(lambda self: self.driver.newest is not None)
    @rule()
    def old_files_are_removed(self):
        self.purged_below = max(self.purged_below, self.driver.purge())

    @invariant()
    def no_row_came_twice_or_out_of_order(self):
        if self.driver.errors:
            raise self.driver.errors[0]
        for uid in self.driver.settings:
            for numbers in self.driver.emitted(uid).values():
                assert numbers == list(range(len(numbers)))

    def teardown(self):
        if self.driver is not None:  # otherwise, nothing was initialized
            self.read_to_the_end()

    def read_to_the_end(self):
        """Read to the end and check the invariants of the whole run."""
        raise NotImplementedError
