-- SPDX-License-Identifier: Apache-2.0
-- Bounded side input join: bids with a value that is looked up.

CREATE TABLE q13 (
  auction BIGINT, bidder BIGINT, price BIGINT, date_time TIMESTAMP, value STRING
) WITH ('connector' = 'filesystem', 'path' = '${env:NEXMARK_OUTPUT}/q13', 'format' = 'parquet');

INSERT INTO q13
SELECT b.auction, b.bidder, b.price, b.date_time, s.value
FROM (SELECT *, auction % 10000 AS side FROM bid) AS b
JOIN side_input FOR SYSTEM_TIME AS OF b.now AS s ON b.side = s.key;
