-- Opens the tables in Spark: spark-sql -i spark.sql -f join.sql
CREATE OR REPLACE TEMPORARY VIEW events USING parquet OPTIONS (path 'events');
CREATE OR REPLACE TEMPORARY VIEW durations USING parquet OPTIONS (path 'durations');
CREATE OR REPLACE TEMPORARY VIEW origins USING parquet OPTIONS (path 'origins.parquet');
CREATE OR REPLACE TEMPORARY VIEW edges USING parquet OPTIONS (path 'edges.parquet');
CREATE OR REPLACE TEMPORARY VIEW about USING parquet OPTIONS (path 'about.parquet');
