-- SPDX-License-Identifier: Apache-2.0
-- Processing time windows: the bids of a bidder in ten seconds of the clock.
-- The time of a row is that of its micro-batch, which Spark keeps for a replay.

CREATE TABLE q12 (
  bidder BIGINT, start TIMESTAMP, bids BIGINT, PRIMARY KEY (bidder, start) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka', 'properties.bootstrap.servers' = '${env:NEXMARK_SERVERS}',
  'topic' = 'q12', 'key.format' = 'json', 'value.format' = 'json',
  'sink.delivery-guarantee' = 'at-least-once',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'
);

INSERT INTO q12
SELECT bidder, window.start, count(*) FROM bid GROUP BY bidder, window(now, '10 seconds');
