-- SPDX-License-Identifier: Apache-2.0
SELECT DISTINCT p.id, p.name, time_bucket(INTERVAL '10 seconds', p.date_time)
FROM person AS p JOIN auction AS a
  ON p.id = a.seller
  AND time_bucket(INTERVAL '10 seconds', p.date_time)
    = time_bucket(INTERVAL '10 seconds', a.date_time);
