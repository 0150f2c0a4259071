# SPDX-License-Identifier: Apache-2.0
"""What runs on executors: reading an entry, writing a task's rows. Plain Python, no pyspark."""
