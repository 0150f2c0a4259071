# SPDX-License-Identifier: Apache-2.0
"""Installs releases by name without changing the environment's Spark."""
