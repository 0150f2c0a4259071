-- SPDX-License-Identifier: Apache-2.0
INSERT INTO nothing
SELECT b.auction, b.bidder, b.price, b.date_time, s.value
FROM bid AS b
JOIN side_input FOR SYSTEM_TIME AS OF b.now AS s ON b.auction % 10000 = s.key;
