# SPDX-License-Identifier: Apache-2.0
"""Keeps connectors up to date with their template: `release-tools template`.

A file of a connector has one of three owners. The *author's* files are created once and never
updated; `[tool.cruft] skip` in the connector's pyproject.toml lists them. The *merged* file is
pyproject.toml, which both edit. All other files belong to the *template* and equal its rendering.
"""
