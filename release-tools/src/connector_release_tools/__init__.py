# SPDX-License-Identifier: Apache-2.0
"""The command `release-tools`: what people run around the connectors for Apache Spark.

It imports neither the core nor a connector, so it works on any state of the tree.
"""
