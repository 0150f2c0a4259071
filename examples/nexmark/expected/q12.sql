-- SPDX-License-Identifier: Apache-2.0
SELECT bidder, count(*) FROM bid GROUP BY bidder;
