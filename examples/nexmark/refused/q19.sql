-- SPDX-License-Identifier: Apache-2.0
INSERT INTO nothing
SELECT auction, array(struct(price, date_time, bidder, channel, url, extra))
FROM (
  SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC) AS rank FROM bid
)
WHERE rank <= 10;
