# SPDX-License-Identifier: Apache-2.0
"""The shares of several runs in slow cases that kill or freeze drivers, and in marked tests."""

from __future__ import annotations

import argparse
import re
from hashlib import blake2b
from typing import Final

import pytest

from connectors_core.testing.cases import SEPARATE_DRIVERS, SLOW_ON_SPARK

OPTION: Final = "--connector-share"
SHARED: Final = "connector_share"
"""The marker of a test that several runs share although it is no slow case."""
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


def is_left_to_others(share: Share | None, item: pytest.Item) -> bool:
    """Return whether another run has a test. The name of its class or file determines its run."""
    if share is None or not _is_shared(item):
        return False
    number, runs = share
    suite = getattr(item, "cls", None)
    name = item.path.stem if suite is None else suite.__name__
    return int.from_bytes(blake2b(name.encode()).digest()) % runs != number - 1


def _is_shared(item: pytest.Item) -> bool:
    suite = getattr(item, "cls", None)
    slow = {"slow", SLOW_ON_SPARK} if getattr(suite, "on_spark", False) else {"slow"}
    marks = {mark.name for mark in item.iter_markers()}
    return SHARED in marks or (SEPARATE_DRIVERS in marks and not marks.isdisjoint(slow))
