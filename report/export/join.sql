-- The spans of tuples' paths, joined again from events.parquet alone. They are the same pairs as in
-- durations.parquet. Each interval contains the one there. It is wider, because each event is
-- translated to the reference node on its own.
--
-- Run it in the directory of the exports: duckdb -c ".read join.sql"
CREATE OR REPLACE VIEW events AS SELECT * FROM 'events.parquet';
CREATE OR REPLACE VIEW durations AS SELECT * FROM 'durations.parquet';

CREATE OR REPLACE VIEW joined AS
WITH legs AS (
    SELECT DISTINCT from_point, to_point, kind FROM durations WHERE kind NOT LIKE 'end-to-end, %'
)
SELECT a.tuple_id, a.way, a.point AS from_point, b.point AS to_point, legs.kind,
    a.node AS from_node, b.node AS to_node,
    b.lo_cycles::HUGEINT - a.hi_cycles::HUGEINT AS lo_cycles,
    b.hi_cycles::HUGEINT - a.lo_cycles::HUGEINT AS hi_cycles,
    CASE WHEN a.verdict = 'suspect' OR b.verdict = 'suspect' THEN 'suspect' ELSE 'consistent' END
        AS verdict
FROM legs
JOIN events a ON a.point = legs.from_point
JOIN events b ON b.point = legs.to_point AND b.tuple_id = a.tuple_id AND b.way = a.way;

SELECT from_point, to_point, count(*) AS tuples FROM joined GROUP BY ALL ORDER BY ALL;
