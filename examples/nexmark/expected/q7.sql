-- SPDX-License-Identifier: Apache-2.0
SELECT b.auction, b.bidder, b.price, b.date_time, b.extra
FROM bid AS b
JOIN (
  SELECT max(price) AS highest, time_bucket(INTERVAL '10 seconds', date_time) AS start
  FROM bid GROUP BY start
) AS w
ON b.price = w.highest AND b.date_time BETWEEN w.start AND w.start + INTERVAL '10 seconds';
