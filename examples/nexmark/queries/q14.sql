-- SPDX-License-Identifier: Apache-2.0
-- Calculation: the time of day and the letters `c` of expensive bids.

CREATE TABLE q14 (
  auction BIGINT, bidder BIGINT, price DECIMAL(23, 3), time_of_day STRING, date_time TIMESTAMP,
  extra STRING, letters BIGINT
) WITH ('connector' = 'filesystem', 'path' = '${env:NEXMARK_OUTPUT}/q14', 'format' = 'parquet');

INSERT INTO q14
SELECT
  auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)),
  CASE
    WHEN hour(date_time) BETWEEN 8 AND 18 THEN 'dayTime'
    WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'nightTime'
    ELSE 'otherTime'
  END,
  date_time, extra, CAST(length(extra) - length(replace(extra, 'c', '')) AS BIGINT)
FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000;
