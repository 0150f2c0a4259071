-- SPDX-License-Identifier: Apache-2.0
SELECT auction, list(each ORDER BY rank)
FROM (
  SELECT auction,
    {price: price, date_time: date_time, bidder: bidder, channel: channel, url: url, extra: extra}
      AS each,
    row_number() OVER (
      PARTITION BY auction ORDER BY price DESC, date_time DESC, bidder DESC, channel DESC, url DESC,
        extra DESC
    ) AS rank
  FROM bid
)
WHERE rank <= 10 GROUP BY auction;
