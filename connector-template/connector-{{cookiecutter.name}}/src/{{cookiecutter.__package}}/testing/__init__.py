# SPDX-License-Identifier: Apache-2.0
"""What the connector is tested with, and may be by those who use it: a server of its own."""

from {{ cookiecutter.__package }}.testing.server import Topic, running_server

__all__ = ["Topic", "running_server"]
