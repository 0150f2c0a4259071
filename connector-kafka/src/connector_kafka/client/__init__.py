# SPDX-License-Identifier: Apache-2.0
"""The only folder, besides `testing`, that imports the client library, kafka-python."""
