-- SPDX-License-Identifier: Apache-2.0
-- Last bid: the newest bid of a bidder for an auction.
-- Spark has no `row_number()` on streams; the greatest struct is that of the newest bid.

CREATE TABLE q18 (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP,
  extra STRING, PRIMARY KEY (bidder, auction) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka', 'properties.bootstrap.servers' = '${env:NEXMARK_SERVERS}',
  'topic' = 'q18', 'key.format' = 'json', 'value.format' = 'json',
  'sink.delivery-guarantee' = 'at-least-once',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'
);

INSERT INTO q18
SELECT auction, bidder, last.price, last.channel, last.url, last.date_time, last.extra
FROM (
  SELECT auction, bidder, max(struct(date_time, price, channel, url, extra)) AS last
  FROM bid GROUP BY bidder, auction
);
