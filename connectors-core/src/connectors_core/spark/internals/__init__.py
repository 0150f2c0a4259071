# SPDX-License-Identifier: Apache-2.0
"""All uses of Spark internals, which Spark may change without notice.

Only this package uses private attributes of pyspark, JVM objects through py4j, and the frames of
Spark's Python workers. `tests/spark/test_internals.py` lists them.
"""
