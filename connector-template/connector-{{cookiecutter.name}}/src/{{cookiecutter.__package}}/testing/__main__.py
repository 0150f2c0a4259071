# SPDX-License-Identifier: Apache-2.0
"""The process of the embedded server."""

from {{ cookiecutter.__package }}.testing.server import serve

serve()
