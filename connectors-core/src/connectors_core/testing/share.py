# SPDX-License-Identifier: Apache-2.0
"""The shares of several runs in the slow cases that kill or freeze drivers on Spark."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from typing import Final

import pytest

from connectors_core.testing.cases import SEPARATE_DRIVERS, SLOW_ON_SPARK

OPTION: Final = "--connector-share"
Share = tuple[int, int]
"""The number of a run, from 1, and the number of runs."""

_SHARE: Final = re.compile(r"([1-9]\d*)/([1-9]\d*)", re.ASCII)


def parse_share(text: str) -> Share:
    """Return the share that an option names, such as ``1/2``.

    Raises:
        argparse.ArgumentTypeError: The text names no share.
    """
    found = _SHARE.fullmatch(text)
    if found is None or int(found[1]) > int(found[2]):
        raise argparse.ArgumentTypeError(
            f"expected a share such as 1/2, the first of two runs, found {text!r}"
        )
    return int(found[1]), int(found[2])


def left_to_others(share: Share | None, items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Return the cases of other runs. The suites with such cases take turns, in order of name."""
    if share is None:
        return set()
    number, runs = share
    suites: dict[str, list[pytest.Item]] = {}
    for item in items:
        if _is_shared(item):
            suites.setdefault(item.nodeid.rpartition("::")[0], []).append(item)
    others = [name for place, name in enumerate(sorted(suites), 1) if (place - number) % runs]
    return {item for name in others for item in suites[name]}


def _is_shared(item: pytest.Item) -> bool:
    marks = {mark.name for mark in item.iter_markers()}
    suite = getattr(item, "cls", None)
    return (
        SEPARATE_DRIVERS in marks
        and not marks.isdisjoint({"slow", SLOW_ON_SPARK})
        and bool(getattr(suite, "on_spark", False))
    )
