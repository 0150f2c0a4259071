# SPDX-License-Identifier: Apache-2.0
"""The part of the core that runs pipelines and needs no Spark."""
