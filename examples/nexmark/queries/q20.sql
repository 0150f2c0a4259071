-- SPDX-License-Identifier: Apache-2.0
-- Expand bids with their auction.

CREATE TABLE q20 (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, bid_time TIMESTAMP,
  bid_extra STRING, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT,
  auction_time TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, auction_extra STRING
) WITH ('connector' = 'filesystem', 'path' = '${env:NEXMARK_OUTPUT}/q20', 'format' = 'parquet');

INSERT INTO q20
SELECT
  b.auction, b.bidder, b.price, b.channel, b.url, b.date_time, b.extra,
  a.item_name, a.description, a.initial_bid, a.reserve, a.date_time, a.expires, a.seller,
  a.category, a.extra
FROM bid AS b JOIN auction AS a ON b.auction = a.id
WHERE a.category = 10;
