# SPDX-License-Identifier: Apache-2.0
"""Example pipelines to run and to copy from."""
