-- SPDX-License-Identifier: Apache-2.0
SELECT auction, bidder, price, date_time, s.value
FROM bid JOIN side_input AS s ON auction % 10000 = s.key;
