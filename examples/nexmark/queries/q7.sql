-- SPDX-License-Identifier: Apache-2.0
-- Highest bid: the bids with the highest price of each ten seconds.

CREATE TABLE q7 (
  auction BIGINT, bidder BIGINT, price BIGINT, date_time TIMESTAMP, extra STRING
) WITH ('connector' = 'filesystem', 'path' = '${env:NEXMARK_OUTPUT}/q7', 'format' = 'parquet');

INSERT INTO q7
SELECT b.auction, b.bidder, b.price, b.date_time, b.extra
FROM bid AS b
JOIN (
  SELECT max(price) AS highest, window.end AS last
  FROM bid GROUP BY window(date_time, '10 seconds')
) AS w
ON b.price = w.highest AND b.date_time BETWEEN w.last - INTERVAL '10' SECOND AND w.last;
