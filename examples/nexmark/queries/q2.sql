-- SPDX-License-Identifier: Apache-2.0
-- Selection: the bids of some auctions.

CREATE TABLE q2 (
  auction BIGINT, price BIGINT
) WITH ('connector' = 'filesystem', 'path' = '${env:NEXMARK_OUTPUT}/q2', 'format' = 'parquet');

INSERT INTO q2
SELECT auction, price FROM bid WHERE auction % 123 = 0;
