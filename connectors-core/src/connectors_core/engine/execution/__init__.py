# SPDX-License-Identifier: Apache-2.0
"""The code that reads and writes rows on executors. Plain Python, no pyspark."""
