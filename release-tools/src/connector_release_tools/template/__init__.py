# SPDX-License-Identifier: Apache-2.0
"""Connectors beside the template they were made from: `release-tools template`.

A file of a connector has one of three owners. *Author's* files are made once and left alone
afterwards; the connector's pyproject.toml lists them as `[tool.cruft] skip`. *Merged* is
pyproject.toml, which both edit. All others are the *template's* and equal its rendering.
"""
