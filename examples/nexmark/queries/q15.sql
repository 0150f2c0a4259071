-- SPDX-License-Identifier: Apache-2.0
-- Bidding statistics of a day.
-- Spark has no `count(DISTINCT ...)` on streams; the size of a set is the same.

CREATE TABLE q15 (
  day STRING,
  total_bids BIGINT, rank1_bids BIGINT, rank2_bids BIGINT, rank3_bids BIGINT,
  total_bidders BIGINT, rank1_bidders BIGINT, rank2_bidders BIGINT, rank3_bidders BIGINT,
  total_auctions BIGINT, rank1_auctions BIGINT, rank2_auctions BIGINT, rank3_auctions BIGINT,
  PRIMARY KEY (day) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka', 'properties.bootstrap.servers' = '${env:NEXMARK_SERVERS}',
  'topic' = 'q15', 'key.format' = 'json', 'value.format' = 'json',
  'sink.delivery-guarantee' = 'at-least-once',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'
);

INSERT INTO q15
SELECT
  date_format(date_time, 'yyyy-MM-dd'),
  count(*),
  count(*) FILTER (WHERE price < 10000),
  count(*) FILTER (WHERE price >= 10000 AND price < 1000000),
  count(*) FILTER (WHERE price >= 1000000),
  CAST(size(collect_set(bidder)) AS BIGINT),
  CAST(size(collect_set(bidder) FILTER (WHERE price < 10000)) AS BIGINT),
  CAST(size(collect_set(bidder) FILTER (WHERE price >= 10000 AND price < 1000000)) AS BIGINT),
  CAST(size(collect_set(bidder) FILTER (WHERE price >= 1000000)) AS BIGINT),
  CAST(size(collect_set(auction)) AS BIGINT),
  CAST(size(collect_set(auction) FILTER (WHERE price < 10000)) AS BIGINT),
  CAST(size(collect_set(auction) FILTER (WHERE price >= 10000 AND price < 1000000)) AS BIGINT),
  CAST(size(collect_set(auction) FILTER (WHERE price >= 1000000)) AS BIGINT)
FROM bid GROUP BY date_format(date_time, 'yyyy-MM-dd');
