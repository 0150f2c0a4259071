# SPDX-License-Identifier: Apache-2.0
"""How the client reads records."""

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
    """The API for reading records."""

    AUTO = "auto"
    """The client's internals if they are as expected, otherwise its public API."""
    PUBLIC = "public"
    """The client's public API, which is far slower."""


def open_fetcher(
    config: ClientConfig, settings: FetchSettings, api: FetchApi
) -> Fetcher | PollingFetcher:
    """Create the fetcher, without I/O. Executor."""
    if api is FetchApi.AUTO:
        try:
            check_contract()
        except UnsupportedError as error:
            _logger.warning("reading records with the slow public API: %s", error)
        else:
            return Fetcher(Wire(config), settings)
    return PollingFetcher(config, settings)
