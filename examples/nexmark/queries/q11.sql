-- SPDX-License-Identifier: Apache-2.0
-- User sessions: the bids of a bidder without a pause of ten seconds.

CREATE TABLE q11 (
  bidder BIGINT, bids BIGINT, start TIMESTAMP, end TIMESTAMP
) WITH ('connector' = 'filesystem', 'path' = '${env:NEXMARK_OUTPUT}/q11', 'format' = 'parquet');

INSERT INTO q11
SELECT bidder, count(*), session_window.start, session_window.end
FROM bid GROUP BY bidder, session_window(date_time, '10 seconds');
