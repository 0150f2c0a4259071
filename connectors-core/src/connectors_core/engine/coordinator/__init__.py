# SPDX-License-Identifier: Apache-2.0
"""The driver side of the protocol: enumerators, plans, recovery. Plain Python, no pyspark."""
