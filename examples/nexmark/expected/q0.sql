-- SPDX-License-Identifier: Apache-2.0
SELECT auction, bidder, price, date_time, extra FROM bid;
