-- SPDX-License-Identifier: Apache-2.0
-- Currency conversion: prices in euros.

CREATE TABLE q1 (
  auction BIGINT, bidder BIGINT, price DECIMAL(23, 3), date_time TIMESTAMP, extra STRING
) WITH ('connector' = 'filesystem', 'path' = '${env:NEXMARK_OUTPUT}/q1', 'format' = 'parquet');

INSERT INTO q1
SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)), date_time, extra FROM bid;
