-- Finds the rows of the table durations again, by joining events. The table edges says which points
-- follow each other on the path of a tuple. The table origins says where tuples that were made of
-- others begin. Each interval contains the one in durations, and is usually wider, because each
-- event is translated to the reference node's counter separately.
--
-- The same text runs in every engine, after the file that opens the tables in that engine.
WITH begun AS (
    SELECT e.from_point AS from_point, e.to_point AS to_point, e.kind AS kind,
        a.way AS from_way, a.way AS way, a.node AS node, a.lo_cycles AS lo_cycles,
        a.hi_cycles AS hi_cycles, a.verdict AS verdict
    FROM edges e JOIN events a ON a.path = e.path AND a.point = e.from_point
    UNION ALL
    SELECT o.from_point, o.to_point, o.kind, o.from_way, o.way, a.node,
        a.lo_cycles - o.earlier_cycles, a.hi_cycles + o.later_cycles, a.verdict
    FROM origins o JOIN events a ON a.way = o.from_way AND a.point = o.from_point
)
SELECT b.tuple_id AS tuple_id, a.way AS way, a.from_way AS from_way, a.from_point AS from_point,
    a.to_point AS to_point, a.node AS from_node, b.node AS to_node, a.kind AS kind,
    b.lo_cycles - a.hi_cycles AS lo_cycles, b.hi_cycles - a.lo_cycles AS hi_cycles,
    CASE WHEN a.verdict = 'unknown' OR b.verdict = 'unknown' THEN 'unknown'
        WHEN a.verdict = 'suspect' OR b.verdict = 'suspect' THEN 'suspect'
        ELSE 'consistent' END AS verdict
FROM begun a JOIN events b ON b.way = a.way AND b.point = a.to_point;
