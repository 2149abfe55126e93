-- Percentiles of durations.parquet, as cprof analyze gives them: [that of the los, that of the
-- his]. If there are many durations, they are rounded outward.
--
-- Run it in the directory of the exports: duckdb -c ".read percentiles.sql"
CREATE OR REPLACE VIEW durations AS SELECT * FROM 'durations.parquet';

-- Each value below 4096 is a bucket. Above, each power of two has 2048 buckets. The buckets of
-- negative values v are those of -v - 1, mirrored.
CREATE OR REPLACE MACRO magnitude(v) AS CASE WHEN v < 0 THEN -v - 1 ELSE v END;
CREATE OR REPLACE MACRO step(u) AS
    CASE WHEN u < 4096 THEN 1::HUGEINT ELSE (2::HUGEINT ** (length(bin(u)) - 12))::HUGEINT END;
CREATE OR REPLACE MACRO inner_edge(u) AS u - u % step(u);
CREATE OR REPLACE MACRO outer_edge(u) AS u - u % step(u) + step(u) - 1;
CREATE OR REPLACE MACRO low_edge(v) AS
    CASE WHEN v < 0 THEN -outer_edge(magnitude(v)) - 1 ELSE inner_edge(v) END;
CREATE OR REPLACE MACRO high_edge(v) AS
    CASE WHEN v < 0 THEN -inner_edge(magnitude(v)) - 1 ELSE outer_edge(v) END;

CREATE OR REPLACE VIEW percentiles AS
WITH percents(milli) AS (VALUES
    (1000), (5000), (10000), (25000), (50000), (75000),
    (90000), (95000), (99000), (99900), (99990), (99999)
),
ranked AS (
    SELECT from_point, to_point, kind, lo_cycles, hi_cycles,
        row_number() OVER (PARTITION BY from_point, to_point, kind ORDER BY lo_cycles) AS lo_rank,
        row_number() OVER (PARTITION BY from_point, to_point, kind ORDER BY hi_cycles) AS hi_rank
    FROM durations
),
sizes AS (
    SELECT from_point, to_point, kind, count(*) AS n,
        min(lo_cycles) AS least, max(hi_cycles) AS largest
    FROM durations GROUP BY ALL
),
wanted AS (SELECT *, greatest((milli * n + 99999) // 100000, 1) AS rank FROM sizes, percents)
SELECT w.from_point, w.to_point, w.kind, w.milli / 1000 AS percent, w.n,
    CASE WHEN w.n <= 65536 THEN a.lo_cycles ELSE greatest(low_edge(a.lo_cycles), w.least) END
        AS lo_cycles,
    CASE WHEN w.n <= 65536 THEN b.hi_cycles ELSE least(high_edge(b.hi_cycles), w.largest) END
        AS hi_cycles
FROM wanted w
JOIN ranked a ON a.from_point = w.from_point AND a.to_point = w.to_point
    AND a.kind = w.kind AND a.lo_rank = w.rank
JOIN ranked b ON b.from_point = w.from_point AND b.to_point = w.to_point
    AND b.kind = w.kind AND b.hi_rank = w.rank;

SELECT * FROM percentiles ORDER BY ALL;
