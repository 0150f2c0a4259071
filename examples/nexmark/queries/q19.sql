-- SPDX-License-Identifier: Apache-2.0
-- Auction Top-10 of prices.
-- Spark has no `row_number()` on streams; a sorted list has the same order.

CREATE TABLE q19 (
  auction BIGINT,
  top ARRAY<STRUCT<
    price: BIGINT, date_time: TIMESTAMP, bidder: BIGINT, channel: STRING, url: STRING,
    extra: STRING>>,
  PRIMARY KEY (auction) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka', 'properties.bootstrap.servers' = '${env:NEXMARK_SERVERS}',
  'topic' = 'q19', 'key.format' = 'json', 'value.format' = 'json',
  'sink.delivery-guarantee' = 'at-least-once',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'
);

INSERT INTO q19
SELECT auction,
  slice(sort_array(
    collect_list(struct(price, date_time, bidder, channel, url, extra)), false
  ), 1, 10)
FROM bid GROUP BY auction;
