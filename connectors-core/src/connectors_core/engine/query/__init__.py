# SPDX-License-Identifier: Apache-2.0
"""One query: its epochs, their wiring, and its status. Driver, no pyspark."""
