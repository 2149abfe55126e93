-- Opens the tables in ClickHouse: clickhouse local --queries-file clickhouse.sql join.sql
CREATE OR REPLACE VIEW events AS SELECT * FROM file('events/*/*.parquet');
CREATE OR REPLACE VIEW durations AS SELECT * FROM file('durations/*/*.parquet');
CREATE OR REPLACE VIEW origins AS SELECT * FROM file('origins.parquet');
CREATE OR REPLACE VIEW edges AS SELECT * FROM file('edges.parquet');
CREATE OR REPLACE VIEW about AS SELECT * FROM file('about.parquet');
