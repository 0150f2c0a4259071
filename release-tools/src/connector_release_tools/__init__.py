# SPDX-License-Identifier: Apache-2.0
"""The command `release-tools`, for developing and releasing connectors for Apache Spark.

It imports neither the core nor a connector, so it works on any state of the tree.
"""
