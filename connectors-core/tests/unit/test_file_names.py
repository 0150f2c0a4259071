# SPDX-License-Identifier: Apache-2.0
"""Tests that names of files are short, and differ."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from connectors_core.engine.state import shortened


@given(st.text("ab-", max_size=3), st.integers(0, 400))
def test_short_names_stay_and_long_ones_differ_from_all_others(end: str, size: int) -> None:
    name = "x" * size + end
    found = shortened(name)
    assert len(found) <= 181
    if len(name) <= 180:
        assert found == name
    else:
        assert found.startswith(name[:148])
        assert shortened(found) not in {name, shortened(name + "a")}
        assert shortened(f"{name}a") != found


def test_the_names_of_many_tables_become_one_of_a_folder() -> None:
    jobs = [f"insert-{'-'.join(['default.orders'] * 20)}-{number}" for number in range(20)]
    assert len({shortened(each) for each in jobs}) == len(jobs)
