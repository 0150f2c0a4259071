-- SPDX-License-Identifier: Apache-2.0
WITH starts AS (
  SELECT bidder, date_time,
    coalesce(date_time - lag(date_time) OVER earlier >= INTERVAL '10 seconds', true) AS first
  FROM bid WINDOW earlier AS (PARTITION BY bidder ORDER BY date_time)
), numbered AS (
  SELECT bidder, date_time, count(*) FILTER (WHERE first) OVER (
    PARTITION BY bidder ORDER BY date_time
  ) AS session
  FROM starts
)
SELECT bidder, count(*), min(date_time), max(date_time) + INTERVAL '10 seconds'
FROM numbered GROUP BY bidder, session;
