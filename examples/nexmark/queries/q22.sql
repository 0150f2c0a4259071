-- SPDX-License-Identifier: Apache-2.0
-- Folders of the addresses.

CREATE TABLE q22 (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, dir1 STRING, dir2 STRING, dir3 STRING
) WITH ('connector' = 'filesystem', 'path' = '${env:NEXMARK_OUTPUT}/q22', 'format' = 'parquet');

INSERT INTO q22
SELECT
  auction, bidder, price, channel,
  split_part(url, '/', 4), split_part(url, '/', 5), split_part(url, '/', 6)
FROM bid;
