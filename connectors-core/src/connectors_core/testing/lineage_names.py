# SPDX-License-Identifier: Apache-2.0
"""Checks the names of the datasets of a source, a sink, or a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from connectors_core.lineage import LineageVertexProvider
from connectors_core.secrets import mask_text

# A scheme, or a URL with an authority, or a path behind a scheme; no second URL in it.
_NAMESPACE: Final = re.compile(r"[a-z][a-z0-9+.-]*(:(?!//$|///|.+://)[^\s?#]+)?")
_SETTING: Final = re.compile(r"(?<![A-Za-z])(password|pwd|token|sig)\s*=", re.IGNORECASE)


def assert_named_for_lineage(create: Callable[[], object], secrets: Sequence[str]) -> None:
    """Check that datasets are named as in OpenLineage's naming spec.

    Args:
        create: Returns a new instance, always with the same settings.
        secrets: The secrets in its settings.

    Raises:
        AssertionError: It names no datasets, or a name is empty, has another form, contains
            credentials, or differs between two instances.
    """
    part = create()
    kind = type(part).__name__
    assert isinstance(part, LineageVertexProvider), (
        f"{kind} is no LineageVertexProvider, so its datasets are missing from lineage"
    )
    datasets = part.lineage_datasets()
    assert datasets, f"{kind} names no datasets"
    for each in datasets:
        text = f"{each.namespace} {each.name}"
        shows_setting = mask_text(text) != text or _SETTING.search(text)
        shows = shows_setting or any(secret in text for secret in secrets if secret)
        assert not shows, f"a dataset of {kind} is named with credentials"
        assert _NAMESPACE.fullmatch(each.namespace), (
            f"the namespace {each.namespace!r} is neither a scheme nor a URL without a query"
        )
        assert each.name, f"a dataset in {each.namespace} has an empty name"
        assert each.name == each.name.strip(), f"the name {each.name!r} has spaces around it"
    again = create()
    assert isinstance(again, LineageVertexProvider)
    assert again.lineage_datasets() == datasets, (
        f"two instances of {kind} with the same settings name different datasets"
    )
