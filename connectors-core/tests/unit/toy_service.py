# SPDX-License-Identifier: Apache-2.0
"""A fake service in this process, and a correct sink for it, from which broken ones derive."""

from __future__ import annotations

import asyncio
import itertools
import json
from dataclasses import dataclass

import pyarrow as pa

from connectors_core.errors import ConfigurationError, RetryableError
from connectors_core.secrets import Secret
from connectors_core.sink import (
    AsyncSink,
    AsyncSinkWriter,
    AsyncSinkWriterConfiguration,
    ElementConverter,
)
from connectors_core.testing import ROWS, AsyncSinkExternalContext, RequestFault

TOKEN = "canary-3e80"
SERVICES = {}
NUMBERS = itertools.count()


class Busy(Exception):
    pass


class Denied(Exception):
    pass


class Service:
    """Accepts lists of rows in JSON, and returns the status of each row."""

    def __init__(self):
        self.taken, self.never, self.fault, self.left = [], set(), None, None

    async def bulk(self, token, entries):
        fault = self._fault() if token == TOKEN else RequestFault.REFUSE_FOR_GOOD
        while fault is RequestFault.STALL and self.fault is fault:
            await asyncio.sleep(0.005)
        if fault is RequestFault.REFUSE:
            raise Busy
        if fault is RequestFault.REFUSE_FOR_GOOD:
            raise Denied
        said = [self._take(entry, fault, number) for number, entry in enumerate(entries)]
        if fault is RequestFault.LOSE_ANSWER:
            raise ConnectionResetError("the connection was reset")
        return said

    def _fault(self):
        if self.left == 0:
            return None
        if self.left is not None:
            self.left -= 1
        return self.fault

    def _take(self, entry, fault, number):
        row = json.loads(entry)
        if row["seq"] in self.never:
            return "bad"
        if fault is RequestFault.REFUSE_SOME and number % 2 == 0:
            return "busy"
        self.taken.append(row)
        return "taken"


class Rows(ElementConverter):
    def apply(self, batch, context):
        return [json.dumps(row, default=str).encode() for row in batch.to_pylist()]


class ServiceWriter(AsyncSinkWriter):
    """A writer with a separate method for each failure, which broken writers override."""

    def __init__(self, sink, context):
        super().__init__(sink.converter, context, sink.configuration)
        self.sink = sink

    async def submit_request_entries(self, entries):
        try:
            said = await self.send(entries)
        except Busy as error:
            return self.busy(entries, error)
        except ConnectionError as error:
            return self.cut_off(entries, error)
        except Denied as error:
            return self.denied(error)
        for entry, answer in zip(entries, said, strict=True):
            if answer == "bad":
                self.bad(entry)
        return self.again(entries, said)

    async def send(self, entries):
        return await SERVICES[self.sink.name].bulk(self.sink.token.reveal(), entries)

    def busy(self, entries, error):
        raise RetryableError("the service is busy", retry_after=0.001) from error

    def cut_off(self, entries, error):
        raise RetryableError("the service did not answer") from error

    def denied(self, error):
        raise ConfigurationError("the service does not know us", option="token") from error

    def bad(self, entry):
        self.reject(entry, "the service does not take it")

    def again(self, entries, said):
        return [entry for entry, answer in zip(entries, said, strict=True) if answer == "busy"]

    def get_size_in_bytes(self, entry):
        return len(entry)

    def get_key(self, entry):
        return json.loads(entry)["split"]


@dataclass(frozen=True)
class ServiceSink(AsyncSink):
    name: int
    configuration: AsyncSinkWriterConfiguration
    token: Secret
    writer = ServiceWriter
    converter = Rows()

    def create_writer(self, context):
        return self.writer(self, context)


class ServiceContext(AsyncSinkExternalContext):
    """A separate service for each test."""

    def __init__(self, sink=ServiceSink):
        self.sink, self.name = sink, next(NUMBERS)
        self.service = SERVICES[self.name] = Service()

    def create_async_sink(self, configuration):
        return self.sink(self.name, configuration, Secret(TOKEN))

    def treat(self, fault, requests=None):
        self.service.fault, self.service.left = fault, requests

    def reject(self, seq):
        self.service.never.add(seq)

    def read_back(self, schema=ROWS):
        columns = [pa.array([row[name] for row in self.service.taken]) for name in schema.names]
        return pa.table(columns, names=schema.names).cast(schema)

    def secrets(self):
        return [TOKEN]

    def close(self):
        del SERVICES[self.name]
