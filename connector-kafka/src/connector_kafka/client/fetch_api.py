# SPDX-License-Identifier: Apache-2.0
"""Which way of reading is used."""

from __future__ import annotations

import enum
import logging

from connector_kafka.client.config import ClientConfig
from connector_kafka.client.fetcher import Fetcher, FetchSettings
from connector_kafka.client.polling_fetcher import PollingFetcher
from connector_kafka.client.wire import Wire, check_contract
from connectors_core.errors import UnsupportedError

__all__ = ["FetchApi", "open_fetcher"]

_logger = logging.getLogger(__name__)


class FetchApi(enum.Enum):
    """How records are asked for."""

    AUTO = "auto"
    """Below the client's public API where that is as expected, else by it."""
    PUBLIC = "public"
    """By the client's public API: slower by far."""


def open_fetcher(
    config: ClientConfig, settings: FetchSettings, api: FetchApi
) -> Fetcher | PollingFetcher:
    """Make what reads; does no I/O. Executor."""
    if api is FetchApi.AUTO:
        try:
            check_contract()
        except UnsupportedError as error:
            _logger.warning("reading records with the slow public API: %s", error)
        else:
            return Fetcher(Wire(config), settings)
    return PollingFetcher(config, settings)
