-- SPDX-License-Identifier: Apache-2.0
-- Hot items: the auctions with the most bids in the last ten seconds, every two seconds.
-- One row collects the auctions of a window, because Spark 3.5 joins no aggregates of two depths.

CREATE TABLE q5 (
  auction BIGINT, num BIGINT, start TIMESTAMP
) WITH ('connector' = 'filesystem', 'path' = '${env:NEXMARK_OUTPUT}/q5', 'format' = 'parquet');

INSERT INTO q5
SELECT hot.auction, hot.num, w.start
FROM (
  SELECT w, max(num) AS highest, collect_list(struct(auction, num)) AS auctions
  FROM (
    SELECT auction, window AS w, count(*) AS num FROM bid
    GROUP BY auction, window(date_time, '10 seconds', '2 seconds')
  )
  GROUP BY w
) LATERAL VIEW explode(filter(auctions, each -> each.num = highest)) AS hot;
