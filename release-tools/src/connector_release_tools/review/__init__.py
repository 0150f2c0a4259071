# SPDX-License-Identifier: Apache-2.0
"""Checks approvals of pull requests, and generates CODEOWNERS and choices in issue forms."""
