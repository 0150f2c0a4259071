-- SPDX-License-Identifier: Apache-2.0
SELECT
  auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)),
  CASE
    WHEN hour(date_time) BETWEEN 8 AND 18 THEN 'dayTime'
    WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'nightTime'
    ELSE 'otherTime'
  END,
  date_time, extra, len(extra) - len(replace(extra, 'c', ''))
FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000;
