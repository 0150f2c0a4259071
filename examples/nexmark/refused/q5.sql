-- SPDX-License-Identifier: Apache-2.0
INSERT INTO q5
SELECT auctions.auction, auctions.num, auctions.w.start
FROM (
  SELECT auction, count(*) AS num, window AS w FROM bid
  GROUP BY auction, window(date_time, '10 seconds', '2 seconds')
) AS auctions
JOIN (
  SELECT max(num) AS highest, w
  FROM (
    SELECT count(*) AS num, window AS w FROM bid
    GROUP BY auction, window(date_time, '10 seconds', '2 seconds')
  )
  GROUP BY w
) AS highest
ON auctions.w = highest.w AND auctions.num >= highest.highest;
