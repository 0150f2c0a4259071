-- The tables of the job. Their addresses are environment variables.

-- The backlog: files of all formats, one for each day of New York.
CREATE TABLE flight_files (
  year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT,
  sched_arr_time INT, arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING,
  dest STRING, air_time INT, distance INT, hour INT, minute INT, time_hour TIMESTAMP,
  WATERMARK FOR time_hour AS time_hour - INTERVAL '1' DAY
) WITH (
  'connector' = 'filesystem',
  'path' = '${env:FLIGHTS_FOLDER}/arrived/flights',
  'csv.null-literal' = 'NA',
  'source.order' = 'name',
  'event-time.path-regex' = '[0-9]{4}-[0-9]{2}-[0-9]{2}',
  'event-time.format' = '%Y-%m-%d',
  'event-time.time-zone' = 'America/New_York',
  'scan.watermark.alignment.group' = 'calendar',
  'scan.watermark.alignment.max-drift' = '21 d'
);

-- The flights after the backlog. The topic also has older ones, so reading starts at the first
-- hour after the files.
CREATE TABLE flight_messages WITH (
  'connector' = 'kafka',
  'properties.bootstrap.servers' = '${env:FLIGHTS_KAFKA}',
  'properties.group.id' = 'flights',
  'topic' = 'flights',
  'value.format' = 'json',
  'scan.startup.mode' = 'timestamp',
  'scan.startup.timestamp-millis' = '${env:FLIGHTS_AFTER_FILES}',
  'scan.watermark.alignment.group' = 'calendar',
  'scan.watermark.alignment.max-drift' = '21 d'
) LIKE flight_files (EXCLUDING OPTIONS);

-- One file for each airport.
CREATE TABLE weather (
  origin STRING, year INT, month INT, day INT, hour INT, temp DOUBLE, dewp DOUBLE, humid DOUBLE,
  wind_dir INT, wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE, pressure DOUBLE,
  visib DOUBLE, time_hour TIMESTAMP,
  WATERMARK FOR time_hour AS time_hour
) WITH (
  'connector' = 'filesystem',
  'path' = '${env:FLIGHTS_FOLDER}/arrived/weather',
  'csv.null-literal' = 'NA',
  'scan.watermark.alignment.group' = 'calendar',
  'scan.watermark.alignment.max-drift' = '21 d'
);

CREATE TABLE airlines (carrier STRING, name STRING) WITH (
  'connector' = 'filesystem',
  'path' = '${env:FLIGHTS_FOLDER}/arrived/airlines'
);

CREATE TABLE planes (
  tailnum STRING, year INT, type STRING, manufacturer STRING, model STRING, engines INT,
  seats INT, speed INT, engine STRING
) WITH (
  'connector' = 'elasticsearch',
  'hosts' = '${env:FLIGHTS_ELASTICSEARCH}',
  'index' = 'planes',
  'id-column' = 'tailnum',
  'lookup.cache' = 'partial',
  'lookup.max-retries' = '20'
);

CREATE TABLE airports (
  faa STRING, name STRING, lat DOUBLE, lon DOUBLE, alt INT, tz INT, dst STRING, tzone STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${env:FLIGHTS_FOLDER}/arrived/airports',
  'csv.null-literal' = 'NA'
);

-- Without columns, a table takes those of the query.
CREATE TABLE archive PARTITIONED BY (month, origin) WITH (
  'connector' = 'filesystem',
  'path' = '${env:FLIGHTS_FOLDER}/archive',
  'format' = 'parquet'
);

CREATE TABLE enriched_topic WITH (
  'connector' = 'kafka',
  'properties.bootstrap.servers' = '${env:FLIGHTS_KAFKA}',
  'topic' = 'enriched',
  'key.fields' = 'carrier',
  'value.format' = 'json',
  'sink.delivery-guarantee' = 'exactly-once'
);

-- A unique ID for each flight, so that a second write replaces the first one.
CREATE TABLE flights_index WITH (
  'connector' = 'elasticsearch',
  'hosts' = '${env:FLIGHTS_ELASTICSEARCH}',
  'index' = 'flights',
  'document-id.columns' = 'time_hour, carrier, flight'
);

CREATE TABLE delays (
  time_hour TIMESTAMP, origin STRING, flights BIGINT, cancelled BIGINT, mean_delay DOUBLE,
  longest_delay INT
) WITH (
  'connector' = 'filesystem',
  'path' = '${env:FLIGHTS_FOLDER}/delays',
  'format' = 'json'
);

CREATE TABLE totals (
  airline STRING, month INT, day INT, flights BIGINT, cancelled BIGINT, delay_minutes BIGINT,
  PRIMARY KEY (airline, month, day) NOT ENFORCED
) WITH (
  'connector' = 'elasticsearch',
  'hosts' = '${env:FLIGHTS_ELASTICSEARCH}',
  'index' = 'totals'
);
