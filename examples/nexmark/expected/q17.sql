-- SPDX-License-Identifier: Apache-2.0
SELECT
  auction, strftime(date_time, '%Y-%m-%d') AS day,
  count(*),
  count(*) FILTER (WHERE price < 10000),
  count(*) FILTER (WHERE price >= 10000 AND price < 1000000),
  count(*) FILTER (WHERE price >= 1000000),
  min(price), max(price), CAST(trunc(avg(price)) AS BIGINT), CAST(sum(price) AS BIGINT)
FROM bid GROUP BY auction, day;
