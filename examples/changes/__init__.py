# SPDX-License-Identifier: Apache-2.0
"""A table of a database, copied to Elasticsearch by its changes.

`recorder` turns the changes of an SQLite table into Debezium's JSON, as a stand-in for Debezium.
`pipeline` applies those in a Kafka topic to an index.
"""
