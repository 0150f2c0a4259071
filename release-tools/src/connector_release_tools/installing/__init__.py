# SPDX-License-Identifier: Apache-2.0
"""Installs releases by their names, as users mean it: the Spark of the environment stays."""
