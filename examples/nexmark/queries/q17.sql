-- SPDX-License-Identifier: Apache-2.0
-- Auction statistics of a day.

CREATE TABLE q17 (
  auction BIGINT, day STRING,
  total_bids BIGINT, rank1_bids BIGINT, rank2_bids BIGINT, rank3_bids BIGINT,
  min_price BIGINT, max_price BIGINT, avg_price BIGINT, sum_price BIGINT,
  PRIMARY KEY (auction, day) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka', 'properties.bootstrap.servers' = '${env:NEXMARK_SERVERS}',
  'topic' = 'q17', 'key.format' = 'json', 'value.format' = 'json',
  'sink.delivery-guarantee' = 'at-least-once',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'
);

INSERT INTO q17
SELECT
  auction, date_format(date_time, 'yyyy-MM-dd'),
  count(*),
  count(*) FILTER (WHERE price < 10000),
  count(*) FILTER (WHERE price >= 10000 AND price < 1000000),
  count(*) FILTER (WHERE price >= 1000000),
  min(price), max(price), CAST(avg(price) AS BIGINT), sum(price)
FROM bid GROUP BY auction, date_format(date_time, 'yyyy-MM-dd');
