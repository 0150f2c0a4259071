-- SPDX-License-Identifier: Apache-2.0
INSERT INTO nothing
SELECT auction, bidder, price, channel, url, date_time, extra
FROM (
  SELECT *, row_number() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC) AS rank
  FROM bid
)
WHERE rank <= 1;
