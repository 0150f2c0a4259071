# SPDX-License-Identifier: Apache-2.0
"""Schemas: as text in the DDL of Spark, and casts of nested columns."""
