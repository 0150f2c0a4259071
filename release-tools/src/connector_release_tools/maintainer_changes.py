# SPDX-License-Identifier: Apache-2.0
"""Checks that `MAINTAINERS.yaml` only grows, and never changes what a past day allowed."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

from connector_release_tools.maintainers import BindingTerm, Maintainers, Term

__all__ = ["rewritten"]


def rewritten(before: Maintainers, after: Maintainers, today: datetime.date) -> Iterator[str]:
    """Return the forbidden differences between the target branch and a change, one each.

    Args:
        before: The people in the target branch.
        after: The people in the change.
        today: The day of the check.
    """
    for folder, terms in before.folders.items():
        yield from _terms(f"folders: {folder}", terms, after.folders.get(folder, ()), today, today)
    for folder in after.folders.keys() - before.folders.keys():
        yield from _terms(f"folders: {folder}", (), after.folders[folder], today, today)
    # A vote of today must not become binding because its voter is added later today.
    tomorrow = today + datetime.timedelta(days=1)
    yield from _terms("binding", before.binding, after.binding, today, tomorrow)
    for handle, addresses in before.addresses.items():
        for address in addresses:
            if address not in after.addresses.get(handle, ()):
                yield f"addresses: {address} of {handle} was removed; keep it"


def _terms(
    place: str,
    before: Sequence[Term | BindingTerm],
    after: Sequence[Term | BindingTerm],
    today: datetime.date,
    first_day: datetime.date,
) -> Iterator[str]:
    for old, new in zip(before, after, strict=False):
        if (old.handle, old.since) != (new.handle, new.since):
            yield (
                f"{place}: the term of {old.handle} since {old.since} was changed or removed; "
                "restore it, and set `until` to end it"
            )
        elif old.until != new.until:
            if old.until is not None:
                yield (
                    f"{place}: the term of {old.handle} ends on {old.until}; restore that, and add "
                    "a new term"
                )
            elif new.until is not None and new.until < today:
                yield (
                    f"{place}: the term of {old.handle} ends on {new.until}, which is past; it "
                    f"can end on {today} or later"
                )
    for old in before[len(after) :]:
        yield (
            f"{place}: the term of {old.handle} since {old.since} was removed; restore it, and set "
            "`until` to end it"
        )
    for new in after[len(before) :]:
        if new.since < first_day:
            yield (
                f"{place}: the term of {new.handle} begins on {new.since}; a new term can begin on "
                f"{first_day} or later"
            )
