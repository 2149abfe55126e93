-- Opens the tables in DuckDB: duckdb -c '.read duckdb.sql' -c '.read join.sql'
CREATE OR REPLACE VIEW events AS FROM read_parquet('events/*/*.parquet', hive_partitioning = true);
CREATE OR REPLACE VIEW durations AS
    FROM read_parquet('durations/*/*.parquet', hive_partitioning = true);
CREATE OR REPLACE VIEW origins AS FROM 'origins.parquet';
CREATE OR REPLACE VIEW edges AS FROM 'edges.parquet';
CREATE OR REPLACE VIEW about AS FROM 'about.parquet';
