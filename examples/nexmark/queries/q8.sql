-- SPDX-License-Identifier: Apache-2.0
-- Monitor new users: persons who sell in the ten seconds of their registration.

CREATE TABLE q8 (
  id BIGINT, name STRING, start TIMESTAMP
) WITH ('connector' = 'filesystem', 'path' = '${env:NEXMARK_OUTPUT}/q8', 'format' = 'parquet');

INSERT INTO q8
SELECT p.id, p.name, p.window.start
FROM (
  SELECT id, name, window FROM person GROUP BY id, name, window(date_time, '10 seconds')
) AS p
JOIN (
  SELECT seller, window FROM auction GROUP BY seller, window(date_time, '10 seconds')
) AS a
ON p.id = a.seller AND p.window = a.window;
