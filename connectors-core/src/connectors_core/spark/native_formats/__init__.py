# SPDX-License-Identifier: Apache-2.0
"""Connectors as formats of Spark: `spark.read.format("connector_kafka")`, without a pipeline.

Thin adapters from Spark's Python Data Source API to the enumerators, readers, writers, and
committers of a connector. Spark runs them in processes of its own on the driver host and in tasks.
"""
