-- SPDX-License-Identifier: Apache-2.0
WITH counts AS (
  SELECT auction, start, count(*) AS num
  FROM bid, (SELECT unnest(range(5)) AS back),
    LATERAL (SELECT time_bucket(INTERVAL '2 seconds', date_time) - back * INTERVAL '2 seconds' AS start)
  GROUP BY auction, start
)
SELECT auction, num, start FROM counts
QUALIFY num = max(num) OVER (PARTITION BY start);
