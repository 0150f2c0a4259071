-- SPDX-License-Identifier: Apache-2.0
-- Local item suggestion: who sells in some states.

CREATE TABLE q3 (
  name STRING, city STRING, state STRING, id BIGINT
) WITH ('connector' = 'filesystem', 'path' = '${env:NEXMARK_OUTPUT}/q3', 'format' = 'parquet');

INSERT INTO q3
SELECT p.name, p.city, p.state, a.id
FROM auction AS a JOIN person AS p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA');
