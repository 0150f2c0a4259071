-- SPDX-License-Identifier: Apache-2.0
SELECT
  b.auction, b.bidder, b.price, b.channel, b.url, b.date_time, b.extra,
  a.item_name, a.description, a.initial_bid, a.reserve, a.date_time, a.expires, a.seller,
  a.category, a.extra
FROM bid AS b JOIN auction AS a ON b.auction = a.id
WHERE a.category = 10;
