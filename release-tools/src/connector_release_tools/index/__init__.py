# SPDX-License-Identifier: Apache-2.0
"""A package index in a folder: its pages for installers, and a local server."""
