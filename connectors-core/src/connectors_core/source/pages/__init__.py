# SPDX-License-Identifier: Apache-2.0
"""A base for sources that read the pages of an HTTP API."""

from __future__ import annotations

from connectors_core.source.pages.enumerator import PageEnumeratorState
from connectors_core.source.pages.http_source import HttpSource
from connectors_core.source.pages.reader import Page
from connectors_core.source.pages.split import PageSplit

__all__ = [
    "HttpSource",
    "Page",
    "PageEnumeratorState",
    "PageSplit",
]
