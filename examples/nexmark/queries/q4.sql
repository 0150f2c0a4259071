-- SPDX-License-Identifier: Apache-2.0
-- Average price for a category: the mean of the highest bids of its auctions.
-- Spark joins two streams only in append mode, and it does not aggregate an updated maximum. So one
-- statement writes the valid bids, and one aggregate over these has the bids of each auction.

CREATE TABLE valid_bids (
  id BIGINT, category BIGINT, price BIGINT
) WITH ('connector' = 'filesystem', 'path' = '${env:NEXMARK_OUTPUT}/valid_bids', 'format' = 'parquet');

INSERT INTO valid_bids
SELECT a.id, a.category, b.price
FROM auction AS a JOIN bid AS b
  ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires;

CREATE TABLE q4 (
  category BIGINT, final BIGINT, PRIMARY KEY (category) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka', 'properties.bootstrap.servers' = '${env:NEXMARK_SERVERS}',
  'topic' = 'q4', 'key.format' = 'json', 'value.format' = 'json',
  'sink.delivery-guarantee' = 'at-least-once',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'
);

INSERT INTO q4
SELECT category,
  CAST(aggregate(highest, 0D, (total, price) -> total + price) / size(highest) AS BIGINT)
FROM (
  SELECT category,
    transform(array_distinct(bids.id), i -> array_max(filter(bids, bid -> bid.id = i).price))
      AS highest
  FROM (SELECT category, collect_list(struct(id, price)) AS bids FROM valid_bids GROUP BY category)
);
