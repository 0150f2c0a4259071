-- SPDX-License-Identifier: Apache-2.0
INSERT INTO q7
SELECT b.auction, b.bidder, b.price, b.date_time, b.extra
FROM bid AS b
JOIN (
  SELECT max(price) AS highest, window.end AS last
  FROM bid GROUP BY window(date_time, '10 seconds')
) AS w
ON b.price = w.highest AND b.date_time BETWEEN w.last - INTERVAL '10' SECOND AND w.last;
