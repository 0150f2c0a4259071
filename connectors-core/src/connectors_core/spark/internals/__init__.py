# SPDX-License-Identifier: Apache-2.0
"""All that this library uses of Spark and that Spark does not promise to keep.

Private attributes of pyspark, objects of the JVM through py4j, and the frames of Spark's Python
workers are used here only. `tests/spark/test_internals.py` lists each of them.
"""
