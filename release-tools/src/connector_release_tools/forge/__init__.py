# SPDX-License-Identifier: Apache-2.0
"""The code forge: a client of GitHub's REST API, and the settings that protect the main branch."""
