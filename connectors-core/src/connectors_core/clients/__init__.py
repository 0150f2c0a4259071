# SPDX-License-Identifier: Apache-2.0
"""What connectors build the clients of other systems with."""
