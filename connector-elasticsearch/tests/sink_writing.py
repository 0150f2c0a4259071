# SPDX-License-Identifier: Apache-2.0
"""Writes rows with a sink's writer, without a pipeline."""

from __future__ import annotations

import uuid
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa

from connector_elasticsearch import ElasticsearchSink
from connector_elasticsearch.sink.options import BULK_FLUSH
from connector_elasticsearch.sink.writer import ElasticsearchWriter
from connectors_core.metrics import MetricGroup
from connectors_core.records import RecordErrorHandler, RecordPolicy
from connectors_core.sink import WriterInitContext

QUICK = replace(
    BULK_FLUSH,
    initial_backoff=timedelta(milliseconds=1),
    max_backoff=timedelta(milliseconds=5),
    retry_timeout=timedelta(seconds=10),
)


def open_writer(
    sink: ElasticsearchSink,
    schema: pa.Schema,
    *,
    policy: RecordPolicy | None = None,
    metrics: MetricGroup | None = None,
) -> ElasticsearchWriter:
    """Open a writer of a sink in a new pipeline."""
    return sink.create_writer(
        WriterInitContext(
            pipeline_id=uuid.uuid4().hex,
            sink_uid="out",
            checkpoint_id=0,
            subtask_id=0,
            attempt_number=0,
            nonce="nonce",
            schema=schema,
            record_errors=RecordErrorHandler(policy or RecordPolicy.fail()),
            metric_group=metrics or MetricGroup(),
        )
    )


def write(sink: ElasticsearchSink, rows: pa.Table, **context: Any) -> int:
    """Write and flush the rows with a writer in this context, and return the skipped rows."""
    with closing(open_writer(sink, rows.schema, **context)) as writer:
        for batch in rows.to_batches():
            writer.write(batch)
        writer.flush()
        return writer._context.record_errors.summary()["skipped"]
