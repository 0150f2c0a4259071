# SPDX-License-Identifier: Apache-2.0
"""One query: its epochs, what is wired for them, and how it stands. Driver, no pyspark."""
