-- SPDX-License-Identifier: Apache-2.0
-- The events as a table of the generator and as a topic. NEXMARK_SERVERS are brokers of Kafka, and
-- NEXMARK_OUTPUT is a folder for results. A view `events` selects one of the two tables.

CREATE TABLE generated (
  event_type INT,
  person STRUCT<
    id: BIGINT, name: STRING, email_address: STRING, credit_card: STRING, city: STRING,
    state: STRING, extra: STRING>,
  auction STRUCT<
    id: BIGINT, item_name: STRING, description: STRING, initial_bid: BIGINT, reserve: BIGINT,
    expires: TIMESTAMP, seller: BIGINT, category: BIGINT, extra: STRING>,
  bid STRUCT<
    auction: BIGINT, bidder: BIGINT, price: BIGINT, channel: STRING, url: STRING, extra: STRING>,
  date_time TIMESTAMP,
  now AS PROCTIME(),
  WATERMARK FOR date_time AS date_time - INTERVAL '4' SECOND
) WITH ('connector' = 'nexmark');

CREATE TABLE recorded WITH (
  'connector' = 'kafka',
  'properties.bootstrap.servers' = '${env:NEXMARK_SERVERS}',
  'topic' = 'nexmark',
  'value.format' = 'json',
  'sink.delivery-guarantee' = 'at-least-once',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset'
) LIKE generated;

CREATE TABLE side_input (key BIGINT, value STRING)
WITH ('connector' = 'filesystem', 'path' = '${env:NEXMARK_OUTPUT}/side_input', 'format' = 'csv');

CREATE TABLE nothing WITH ('connector' = 'blackhole');
