# SPDX-License-Identifier: Apache-2.0
"""The only module that uses the private parts of kafka-python.

kafka-python 3.0 has an event loop (`NetworkSelector`) and a connection manager below its consumer,
producer, and admin client. They log in, encrypt, negotiate protocol versions, and frame requests,
but have no public name. :func:`check_contract` reports what has changed.
"""

from __future__ import annotations

import inspect
import itertools
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final

from kafka import errors as kafka_errors
from kafka.cluster import ClusterMetadata
from kafka.future import Future as KafkaFuture
from kafka.net.connection import KafkaConnection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaTCPTransport
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest, MetadataRequest

from connector_kafka.client import config as properties
from connector_kafka.client.config import ClientConfig
from connector_kafka.client.errors import NO_ERROR, error_of_code, error_of_exception, says_why
from connector_kafka.client.listener import check_protocol
from connector_kafka.client.logins import prepare_logins
from connector_kafka.errors import KafkaFatalError, KafkaRetryableError
from connectors_core.clients import RetryPolicy
from connectors_core.errors import FatalError, UnsupportedError

__all__ = ["CoordinatorType", "Node", "Wire", "check_contract"]

#: A broker: its number, or a name for a separate connection to a coordinator.
Node = int | str

_logger = logging.getLogger(__name__)

_MAX_FRAME: Final = 2**31 - 1
# The callers limit the requests in flight, not the connection.
_UNBOUNDED: Final = 1 << 30
_CLOSE_SECONDS: Final = 10.0
# The first of several brokers can use this part of the time that is left.
_SHARES: Final = 3
_numbers = itertools.count()

#: The used parts of private classes: the attribute, and its keyword arguments.
_CONTRACT: Final[tuple[tuple[type, str, tuple[str, ...]], ...]] = (
    (NetworkSelector, "start", ()),
    (NetworkSelector, "stop", ("timeout_ms",)),
    (NetworkSelector, "close", ()),
    (NetworkSelector, "sleep", ("delay",)),
    (NetworkSelector, "call_soon_with_future", ("coro",)),
    (KafkaConnectionManager, "get_connection", ("node_id", "refresh_metadata_on_err")),
    (KafkaConnectionManager, "connection_delay", ("node_id",)),
    (KafkaConnectionManager, "least_loaded_node", ()),
    (KafkaConnectionManager, "close", ("node_id",)),
    (KafkaConnectionManager, "wait_for", ("future", "timeout_ms")),
    (KafkaConnectionManager, "_build_transport", ("node",)),
    (KafkaTCPTransport, "_sock_recv", ()),
    (ClusterMetadata, "bootstrap_brokers", ()),
    (ClusterMetadata, "brokers", ()),
    (ClusterMetadata, "update_metadata", ("metadata",)),
    (ClusterMetadata, "add_coordinator", ("response", "key_type", "key")),
    (KafkaConnection, "__await__", ()),
    (KafkaConnection, "send_request", ("request", "request_timeout_ms")),
    (KafkaConnection, "_send_request", ("request", "timeout_at")),
    (KafkaFuture, "add_callback", ("f",)),
    (KafkaFuture, "add_errback", ("f",)),
)


def check_contract() -> None:
    """Check that the private parts are as this module expects them.

    Raises:
        UnsupportedError: They differ. The message names every difference.
    """
    differences = []
    for owner, name, arguments in _CONTRACT:
        member = getattr(owner, name, None)
        if member is None:
            differences.append(f"{owner.__name__}.{name} is missing")
            continue
        known = inspect.signature(member).parameters
        differences += [
            f"{owner.__name__}.{name} does not accept {argument!r}"
            for argument in arguments
            if argument not in known
        ]
    if differences:
        raise UnsupportedError(
            "the private API of this kafka-python is not supported",
            expected="kafka-python>=3.0.12,<3.1",
            found="; ".join(differences),
            hint="install a supported kafka-python",
        )


class Wire:
    """Sends any request of the protocol to any broker, several at a time.

    It connects with the first request, so creating it is cheap. One daemon thread does all I/O.
    Every method can be called from any thread. It belongs to the process that opened it: create it
    in the task that uses it. Driver and executor.

    Args:
        config: Properties of the client.
    """

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._pid: int | None = None
        self._closed = False
        self._net: Any = None
        self._manager: Any = None
        self._bootstrap: Any = None
        self._pending: set[Future[Any]] = set()
        self._leaders: dict[tuple[str, int], int] = {}
        self._coordinators: dict[tuple[int, str], Node] = {}
        self._asked_for_protocol: set[tuple[str, int]] = set()

    @property
    def config(self) -> ClientConfig:
        """Properties of the client."""
        return self._config

    def send(
        self, request: Any, *, node: Node | None = None, timeout: float | None = None
    ) -> Future[Any]:
        """Send a request. Requests to one broker arrive in the order in which they are sent.

        Args:
            request: One of kafka-python's `...Request` classes. The newest version that both sides
                support is used, up to `max_version`.
            node: The broker, or None for any.
            timeout: Seconds to wait for the response. The default is `request.timeout.ms`. After
                it, the connection is closed.

        Returns:
            A future with the response. It fails with a connector error. The error is retryable if
            there was no response, in which case the request may or may not have been executed. If
            the wire was closed meanwhile, it is not.

        Raises:
            ConfigurationError: A certificate or key cannot be read.
        """
        net = self._opened()
        seconds = self._request_timeout if timeout is None else timeout
        doing = type(request).__name__.removesuffix("Request")
        return self._begin(net, doing, self._exchange, request, node, time.monotonic() + seconds)

    def request(
        self, request: Any, *, node: Node | None = None, timeout: float | None = None
    ) -> Any:
        """Send a request and wait for its response; see :meth:`send`."""
        return self._wait(self.send(request, node=node, timeout=timeout), timeout)

    def refresh_metadata(self, topics: Sequence[str] | None = ()) -> Any:
        """Request the brokers, topics, and leaders, and wait; see :meth:`ask_metadata`."""
        return self._wait(self.ask_metadata(topics), None)

    def ask_metadata(self, topics: Sequence[str] | None = ()) -> Future[Any]:
        """Request the brokers, topics, and leaders.

        Args:
            topics: The topics of interest, or None for all.

        Returns:
            A future with the `MetadataResponse`. When it is done, the leaders are known. The
            response contains the errors of single topics, which are not raised.
        """
        net = self._opened()
        request = MetadataRequest(
            topics=None
            if topics is None
            else [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        deadline = time.monotonic() + self._request_timeout
        return self._begin(net, "Metadata", self._refresh, request, deadline)

    def known_leader(self, topic: str, partition: int) -> int | None:
        """Return the cached leader of a partition, without a request."""
        return self._leaders.get((topic, partition))

    def leader_of(self, topic: str, partition: int) -> int:
        """Return the leader of a partition, from the cache if it is known.

        Raises:
            KafkaRetryableError: There is no leader at present, or the topic is not known (yet).
        """
        leader = self._leaders.get((topic, partition))
        if leader is not None:
            return leader
        response = self.refresh_metadata([topic])
        leader = self._leaders.get((topic, partition))
        if leader is not None:
            return leader
        doing = f"finding the leader of {topic}-{partition}"
        for found in response.topics:
            if found.name == topic and found.error_code != NO_ERROR:
                raise error_of_code(found.error_code, doing)
            for each in found.partitions:
                if each.partition_index == partition and each.error_code != NO_ERROR:
                    raise error_of_code(each.error_code, doing)
        raise error_of_code(kafka_errors.UnknownTopicOrPartitionError.errno, doing)

    def forget_leader(self, topic: str, partition: int) -> None:
        """Forget the leader of a partition after the broker reported that it is not the leader."""
        self._leaders.pop((topic, partition), None)

    def coordinator(self, kind: CoordinatorType, key: str) -> Node:
        """Return the coordinator of a group or a transactional ID, from the cache if it is known.

        Raises:
            KafkaRetryableError: There is no coordinator at present.
            KafkaAuthorizationError: The user lacks the permission to ask.
        """
        known = self._coordinators.get((kind, key))
        if known is not None:
            return known
        request = FindCoordinatorRequest(key=key, key_type=int(kind), max_version=3)
        response = self.request(request)
        if response.error_code != NO_ERROR:
            raise error_of_code(
                response.error_code,
                f"finding the coordinator of {key!r}",
                said=response.error_message,
            )
        future = self._begin(
            self._opened(), "FindCoordinator", self._know_coordinator, kind, key, response
        )
        node: Node = self._wait(future, None)
        self._coordinators[kind, key] = node
        return node

    def forget_coordinator(self, kind: CoordinatorType, key: str) -> None:
        """Forget a coordinator after the broker reported that it is not the coordinator."""
        self._coordinators.pop((kind, key), None)

    def close(self) -> None:
        """Close all connections and end the thread. Pending requests fail."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._pid != os.getpid():
                return  # never opened, or forked: the sockets belong to the parent process
        net = self._net
        closing = net.call_soon_with_future(self._manager.close)
        done = threading.Event()
        closing.add_callback(lambda _: done.set()).add_errback(lambda _: done.set())
        done.wait(_CLOSE_SECONDS)
        net.stop(timeout_ms=_CLOSE_SECONDS * 1000)
        net.close()
        for future in list(self._pending):
            self._fail(future, "closing", kafka_errors.Cancelled())

    # --- The caller's thread ---------------------------------------------------------------------

    @property
    def _request_timeout(self) -> float:
        return self._config[properties.REQUEST_TIMEOUT_MS] / 1000

    def _opened(self) -> Any:
        with self._lock:
            if self._closed:
                raise _closed()
            if self._pid is None:
                self._open()
                self._pid = os.getpid()
            if self._pid != os.getpid():
                raise FatalError(
                    "a Kafka connection was passed to another process",
                    hint="create it in the process that uses it",
                )
            return self._net

    def _open(self) -> None:
        prepare_logins()
        config = self._config
        arguments = config.client_arguments()
        arguments |= {
            "client_id": f"{config[properties.CLIENT_ID]}-{os.getpid()}-{next(_numbers)}",
            "receive_message_max_bytes": _MAX_FRAME,
            "max_in_flight_requests_per_connection": _UNBOUNDED,
            "socket_connection_setup_timeout_ms": config[properties.CONNECTION_SETUP_TIMEOUT_MS],
            "socket_connection_setup_timeout_max_ms": config[
                properties.CONNECTION_SETUP_TIMEOUT_MAX_MS
            ],
            "socket_options": _socket_options(config),
            # It warns about coroutines that block the loop, as a large response can.
            "slow_task_threshold_secs": 0,
        }
        self._net = NetworkSelector(**arguments)
        self._manager = _ConnectionManager(self._net, **arguments)
        self._net.start()

    def _begin(
        self, net: Any, doing: str, call: Callable[..., Any], *arguments: Any
    ) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()  # cannot be canceled: the request is in flight
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        running = net.call_soon_with_future(call, *arguments)
        running.add_callback(lambda value: self._succeed(future, value))
        running.add_errback(lambda error: self._fail(future, doing, error))
        return future

    @staticmethod
    def _succeed(future: Future[Any], value: Any) -> None:
        if not future.done():
            future.set_result(value)

    def _fail(self, future: Future[Any], doing: str, error: BaseException) -> None:
        if not future.done():
            # A retryable error would be logged as a failure of Kafka, and retried.
            future.set_exception(_closed() if self._closed else error_of_exception(error, doing))

    def _wait(self, future: Future[Any], timeout: float | None) -> Any:
        seconds = self._request_timeout if timeout is None else timeout
        try:
            # The thread has its own timeout, which this one exceeds only if the thread has ended.
            return future.result(seconds + _CLOSE_SECONDS)
        except FutureTimeoutError as exc:
            raise KafkaRetryableError(
                "the Kafka client does not respond", found=f"no response within {seconds:g} seconds"
            ) from exc

    # --- The thread of the connections -----------------------------------------------------------

    async def _exchange(self, request: Any, node: Node | None, deadline: float) -> Any:
        await self._brokers_found(deadline)
        if node is not None:
            return await self._ask(request, node, deadline)
        untried = [broker.node_id for broker in self._manager.cluster.brokers()]
        while True:
            node = self._manager.least_loaded_node()
            if node not in untried:
                node = untried[0]
            try:
                return await self._ask_within_share(request, node, deadline, len(untried))
            except Exception as exc:
                untried.remove(node)
                is_passing = isinstance(error_of_exception(exc, ""), KafkaRetryableError)
                if not untried or not is_passing or self._closed:
                    raise
                _logger.debug("no response from broker %s: %s; asking another", node, exc)

    async def _ask_within_share(
        self, request: Any, node: Node, deadline: float, untried: int
    ) -> Any:
        """Ask one of several brokers. A broker that hangs leaves the others most of the time."""
        left = max(0.0, deadline - time.monotonic()) / min(untried, _SHARES)
        asking = self._net.call_soon_with_future(
            self._ask, request, node, min(deadline, time.monotonic() + left)
        )
        return await self._manager.wait_for(asking, left * 1000)

    async def _ask(self, request: Any, node: Node, deadline: float) -> Any:
        connection = await self._connect(node, deadline)
        if connection.paused:
            # Throttled: the public method would fail, but this one sends as soon as it is allowed.
            return await connection._send_request(request, timeout_at=deadline)
        left = max(1.0, (deadline - time.monotonic()) * 1000)
        return await connection.send_request(request, request_timeout_ms=left)

    async def _refresh(self, request: Any, deadline: float) -> Any:
        try:
            response = await self._exchange(request, None, deadline)
        except kafka_errors.KafkaConnectionError:
            # All known brokers can be gone: start again from the bootstrap brokers.
            self._bootstrap = None
            raise
        self._know(response)
        return response

    def _know(self, response: Any) -> None:
        self._manager.cluster.update_metadata(response)
        for topic in response.topics:
            for partition in topic.partitions:
                key = (topic.name, partition.partition_index)
                if partition.error_code == NO_ERROR and partition.leader_id >= 0:
                    self._leaders[key] = partition.leader_id
                else:
                    self._leaders.pop(key, None)

    def _know_coordinator(self, kind: CoordinatorType, key: str, response: Any) -> Node:
        # A separate name gives it a separate connection, which a waiting fetch does not delay.
        node: Node = self._manager.cluster.add_coordinator(response, kind, key)
        return node

    async def _brokers_found(self, deadline: float) -> None:
        if self._bootstrap is None or self._bootstrap.failed():
            self._bootstrap = self._net.call_soon_with_future(self._find_brokers, deadline)
        if not self._bootstrap.is_done:
            await self._bootstrap
        elif self._bootstrap.exception is not None:
            raise self._bootstrap.exception

    async def _connect(self, node: Node, deadline: float) -> Any:
        delay = self._manager.connection_delay(node)
        if delay > 0:
            left = deadline - time.monotonic()
            if left <= delay:
                raise kafka_errors.NodeNotReadyError(f"broker {node} failed before")
            await self._net.sleep(delay)
        connection = self._manager.get_connection(node, refresh_metadata_on_err=False)
        await connection
        return connection

    async def _find_brokers(self, deadline: float) -> None:
        """Query the bootstrap brokers one after another for all brokers, until one responds."""
        last: Exception = kafka_errors.KafkaTimeoutError("the timeout has expired")
        policy = RetryPolicy(
            initial_backoff=self._config[properties.RECONNECT_BACKOFF_MS] / 1000,
            max_backoff=self._config[properties.RECONNECT_BACKOFF_MAX_MS] / 1000,
        )
        tries = 0
        while time.monotonic() < deadline:
            tries += 1
            brokers = self._manager.cluster.bootstrap_brokers()
            for tried, broker in enumerate(brokers):
                try:
                    response = await self._ask_within_share(
                        MetadataRequest(topics=[]), broker.node_id, deadline, len(brokers) - tried
                    )
                    if not response.brokers:
                        raise kafka_errors.MetadataEmptyBrokerList(broker.host)
                    self._know(response)
                    # The node numbers are known now, but this connection only has a name.
                    self._manager.close(node_id=broker.node_id)
                except Exception as exc:
                    self._check_protocol(broker.host, broker.port, exc)
                    if not isinstance(error_of_exception(exc, ""), KafkaRetryableError):
                        raise
                    if not isinstance(exc, kafka_errors.NodeNotReadyError):  # find out why
                        last = exc
                    _logger.debug("no response from %s:%s: %s", broker.host, broker.port, exc)
                else:
                    return
            await self._net.sleep(policy.pause(tries))
        servers = ", ".join(self._config.servers)
        raise kafka_errors.KafkaTimeoutError(
            f"none of bootstrap.servers ({servers}) responded; last: {type(last).__name__}: {last}"
        ) from last

    def _check_protocol(self, host: str, port: int, error: Exception) -> None:
        """Once per broker, check whether it does not respond because it uses another protocol."""
        if (host, port) in self._asked_for_protocol or says_why(error):
            return
        self._asked_for_protocol.add((host, port))
        # This thread has no other requests while no broker is known.
        check_protocol(host, port, self._config[properties.SECURITY_PROTOCOL])


class _ConnectionManager(KafkaConnectionManager):  # type: ignore[misc]  # it has no types
    """Delivers the last response of a connection before its end.

    The client drops data that arrives together with the end of a connection. Brokers send the
    reason for rejecting a login and close the connection. Without this class, the reason would
    arrive only by chance.
    """

    async def _build_transport(self, *arguments: Any, **named: Any) -> Any:
        transport = await super()._build_transport(*arguments, **named)
        receive = transport._sock_recv

        def received() -> tuple[bytes, Exception | None]:
            data, error = receive()
            return data, None if data else error  # the next read sees the end again

        transport._sock_recv = received
        return transport


def _closed() -> KafkaFatalError:
    return KafkaFatalError("the connection to Kafka was closed")


def _socket_options(config: ClientConfig) -> list[tuple[int, int, int]]:
    options = [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    ]
    for name, declared in (
        (socket.SO_RCVBUF, properties.RECEIVE_BUFFER_BYTES),
        (socket.SO_SNDBUF, properties.SEND_BUFFER_BYTES),
    ):
        if config[declared] >= 0:
            options.append((socket.SOL_SOCKET, name, config[declared]))
    return options
