# SPDX-License-Identifier: Apache-2.0
"""The queries of Nexmark, a benchmark of an online auction, as statements on tables.

`generator` makes its persons, auctions, and bids. `tables.sql` declares them as a table of the
generator and as a topic. The folder `queries` has the statements, `refused` has those of Flink that
Spark refuses, and `expected` has the same queries for a database in batch.
"""
