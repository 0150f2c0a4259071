-- SPDX-License-Identifier: Apache-2.0
INSERT INTO nothing
SELECT category, CAST(avg(final) AS BIGINT)
FROM (
  SELECT max(b.price) AS final, a.category
  FROM auction AS a JOIN bid AS b
    ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
  GROUP BY a.id, a.category
)
GROUP BY category;
