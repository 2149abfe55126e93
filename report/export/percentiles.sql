-- Percentiles of durations, as cprof analyze gives them. Each is an interval: from the percentile
-- of the low ends to that of the high ends. If there are more than 65536 durations, the ends are
-- rounded outward to the edges of buckets. Each value below 4096 has a bucket of its own; above,
-- there are 2048 buckets from one power of two to the next. A negative value v is in the mirror
-- image of the bucket of -v - 1.
--
-- If the key "kept" in the table about has another value than "all", these are percentiles of the
-- tuples in the logs, not of all tuples.
--
-- The same text runs in every engine, after the file that opens the tables in that engine.
WITH percents AS (
    SELECT 1000 AS milli UNION ALL SELECT 5000 UNION ALL SELECT 10000 UNION ALL SELECT 25000
    UNION ALL SELECT 50000 UNION ALL SELECT 75000 UNION ALL SELECT 90000 UNION ALL SELECT 95000
    UNION ALL SELECT 99000 UNION ALL SELECT 99900 UNION ALL SELECT 99990 UNION ALL SELECT 99999
),
sizes AS (
    SELECT from_point, to_point, kind, count(*) AS n,
        min(lo_cycles) AS least, max(hi_cycles) AS largest
    FROM durations GROUP BY from_point, to_point, kind
),
-- Both ends of each duration. outward says whether rounding moves the end away from 0, and u is the
-- distance of the end from 0.
ends AS (
    SELECT from_point, to_point, kind, 'lo' AS which, lo_cycles AS v, lo_ns AS ns,
        lo_cycles < 0 AS outward
    FROM durations
    UNION ALL
    SELECT from_point, to_point, kind, 'hi' AS which, hi_cycles AS v, hi_ns AS ns,
        hi_cycles >= 0 AS outward
    FROM durations
),
distances AS (
    SELECT e.from_point AS from_point, e.to_point AS to_point, e.kind AS kind, which, v, ns,
        outward, n > 65536 AS rounded, CASE WHEN v < 0 THEN -v - 1 ELSE v END AS u
    FROM ends e
    JOIN sizes s ON s.from_point = e.from_point AND s.to_point = e.to_point AND s.kind = e.kind
),
-- The width of a bucket is a power of 2. A logarithm in floating point may miss it by one.
guesses AS (
    SELECT *, CAST(power(2, floor(log2(greatest(u, 4096))) - 11) AS BIGINT) AS guess FROM distances
),
widths AS (
    SELECT *, CASE WHEN NOT rounded OR u < 4096 THEN 1 WHEN u >= 4096 * guess THEN 2 * guess
        WHEN u < 2048 * guess THEN CAST(guess / 2 AS BIGINT) ELSE guess END AS width
    FROM guesses
),
edged AS (
    SELECT from_point, to_point, kind, which, v, ns,
        u - u % width + CASE WHEN outward THEN width - 1 ELSE 0 END AS edge
    FROM widths
),
counted AS (
    SELECT from_point, to_point, kind, which, CASE WHEN v < 0 THEN -edge - 1 ELSE edge END AS value,
        count(*) AS c, CASE WHEN which = 'lo' THEN min(ns) ELSE max(ns) END AS ns
    FROM edged
    GROUP BY from_point, to_point, kind, which, CASE WHEN v < 0 THEN -edge - 1 ELSE edge END
),
running AS (
    SELECT from_point, to_point, kind, which, value, ns,
        sum(c) OVER (PARTITION BY from_point, to_point, kind, which ORDER BY value) AS upto
    FROM counted
),
found AS (
    SELECT s.from_point AS from_point, s.to_point AS to_point, s.kind AS kind, milli, n, which,
        CASE WHEN which = 'lo' THEN greatest(min(value), min(least))
            ELSE least(min(value), min(largest)) END AS value, min(ns) AS ns
    FROM sizes s
    CROSS JOIN percents
    JOIN running r ON r.from_point = s.from_point AND r.to_point = s.to_point AND r.kind = s.kind
    WHERE upto * 100000 >= milli * n
    GROUP BY s.from_point, s.to_point, s.kind, milli, n, which
)
SELECT from_point, to_point, kind, milli / 1000 AS percent, n,
    max(CASE WHEN which = 'lo' THEN value END) AS lo_cycles,
    max(CASE WHEN which = 'hi' THEN value END) AS hi_cycles,
    max(CASE WHEN which = 'lo' THEN ns END) AS lo_ns,
    max(CASE WHEN which = 'hi' THEN ns END) AS hi_ns
FROM found
GROUP BY from_point, to_point, kind, milli, n
ORDER BY from_point, to_point, kind, percent;
