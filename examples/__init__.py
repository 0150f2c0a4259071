# SPDX-License-Identifier: Apache-2.0
"""Pipelines to run and to copy from."""
