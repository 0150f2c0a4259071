-- SPDX-License-Identifier: Apache-2.0
-- Pass-through: every bid.

CREATE TABLE q0 (
  auction BIGINT, bidder BIGINT, price BIGINT, date_time TIMESTAMP, extra STRING
) WITH ('connector' = 'filesystem', 'path' = '${env:NEXMARK_OUTPUT}/q0', 'format' = 'parquet');

INSERT INTO q0
SELECT auction, bidder, price, date_time, extra FROM bid;
