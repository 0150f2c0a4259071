-- The job: one pipeline with one decision for all tables.

SET 'pipeline.name' = 'flights';
-- Files are a stream too, so that their watermark counts.
SET 'execution.runtime-mode' = 'streaming';
-- Servers that were killed with the driver may still be starting.
SET 'execution.connection-timeout' = '0 s';

CREATE VIEW all_flights AS
SELECT * FROM flight_files
UNION ALL
SELECT * FROM flight_messages;

-- Each flight once, with the weather of its hour if it exists.
CREATE VIEW flights_with_weather AS
SELECT f.*, temp, dewp, humid, wind_dir, wind_speed, wind_gust, precip, pressure, visib
FROM all_flights AS f
LEFT JOIN weather AS w ON f.origin = w.origin AND f.time_hour = w.time_hour;

CREATE VIEW enriched AS
SELECT
  f.*,
  a.name AS airline,
  p.manufacturer AS maker, p.model, p.seats, p.year AS built,
  d.name AS dest_name, d.lat AS dest_lat, d.lon AS dest_lon
FROM flights_with_weather AS f
LEFT JOIN airlines FOR SYSTEM_TIME AS OF PROCTIME() AS a ON f.carrier = a.carrier
LEFT JOIN planes FOR SYSTEM_TIME AS OF PROCTIME() AS p ON f.tailnum = p.tailnum
LEFT JOIN airports FOR SYSTEM_TIME AS OF PROCTIME() AS d ON f.dest = d.faa;

-- A day ends at 5:00 UTC, which is midnight in New York, and 1:00 in summer. No flight leaves in
-- between.
CREATE VIEW daily_totals AS
SELECT
  carrier, month, day,
  count(*) AS flights,
  count(*) - count(dep_time) AS cancelled,
  coalesce(sum(dep_delay), 0) AS delay_minutes
FROM all_flights
GROUP BY window(time_hour, '1 day', '1 day', '5 hours'), carrier, month, day;

EXECUTE STATEMENT SET BEGIN
  INSERT INTO archive SELECT * FROM enriched;

  INSERT INTO enriched_topic SELECT * FROM enriched;

  INSERT INTO flights_index SELECT * FROM enriched;

  INSERT INTO delays
  SELECT
    window.start, origin, count(*), count(*) - count(dep_time), avg(dep_delay), max(dep_delay)
  FROM all_flights
  GROUP BY window(time_hour, '1 hour'), origin;

  INSERT INTO totals
  SELECT a.name, t.month, t.day, t.flights, t.cancelled, t.delay_minutes
  FROM daily_totals AS t
  LEFT JOIN airlines FOR SYSTEM_TIME AS OF PROCTIME() AS a ON t.carrier = a.carrier;
END;
