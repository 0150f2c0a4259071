# SPDX-License-Identifier: Apache-2.0
"""A bad network between clients and their broker."""

from __future__ import annotations

from connectors_core.testing.servers import FaultyNetwork


class KafkaProxy(FaultyNetwork):
    """Stands in front of a broker on loopback, and slows, cuts or refuses its connections.

    ```python
    with KafkaProxy() as proxy, KafkaBroker(proxy=proxy) as broker:
        source = KafkaSource(proxy.bootstrap_servers, topics=["flights"])
        proxy.cut_after(100_000)
    ```

    Clients that begin at its address stay with it, as the broker tells them no other. Those that
    begin at the broker's own go past it.
    """

    @property
    def bootstrap_servers(self) -> str:
        """Where clients begin that are to go through it."""
        return self.address
