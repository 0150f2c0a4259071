# SPDX-License-Identifier: Apache-2.0
"""An unreliable network between clients and their broker."""

from __future__ import annotations

from connectors_core.testing.servers import FaultyNetwork


class KafkaProxy(FaultyNetwork):
    """A proxy of a broker on the loopback interface that delays, cuts, or refuses connections.

    ```python
    with KafkaProxy() as proxy, KafkaBroker(proxy=proxy) as broker:
        source = KafkaSource(proxy.bootstrap_servers, topics=["flights"])
        proxy.cut_after(100_000)
    ```

    Clients that connect to its address stay with it, because the broker advertises no other.
    Clients that connect to the broker's own address bypass it.
    """

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap servers for clients of the proxy."""
        return self.address
