# SPDX-License-Identifier: Apache-2.0
"""The compatibility matrix: which majors of which connectors are supported on which Spark lines."""
