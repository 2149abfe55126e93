"""Measures what a query of an export costs in an engine.

    python measure.py duckdb|spark|clickhouse join|percentiles [MEMORY_GB [PART]]

Run it in a run's exports/. It prints one line of JSON: seconds of wall clock and of processor, the
largest memory of all processes, and what was spilled to disk. A join is counted and not kept. With
PART it is of that part alone.
"""
import json, os, sys, tempfile, threading, time

engine, query = sys.argv[1:3]
memory_gb = int(sys.argv[3]) if len(sys.argv) > 3 else 6
part = sys.argv[4] if len(sys.argv) > 4 else "*"
spill = tempfile.mkdtemp(prefix="measure-")


def statements(name):
    lines = [l for l in open(name).read().split("\n") if not l.startswith("--")]
    return [s.strip() for s in "\n".join(lines).split(";") if s.strip()]


if engine == "duckdb":
    import duckdb

    c = duckdb.connect()
    for s in ["enable_progress_bar = false", f"memory_limit = '{memory_gb}GB'",
              f"temp_directory = '{spill}'"]:
        c.execute("SET " + s)
    run = lambda s: c.execute(s).fetchall()
elif engine == "spark":
    from pyspark.sql import SparkSession

    c = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false") \
        .config("spark.driver.memory", f"{memory_gb}g").config("spark.local.dir", spill) \
        .config("spark.sql.shuffle.partitions", "64").config("spark.log.level", "ERROR") \
        .config("spark.ui.showConsoleProgress", "false").getOrCreate()
    run = lambda s: [tuple(r) for r in c.sql(s).collect()]
else:
    from chdb import session

    c = session.Session(os.path.join(spill, "db"))
    c.query(f"SET max_memory_usage = {memory_gb}000000000")
    if part == "*":  # a join of many parts does not fit into memory
        c.query("SET join_algorithm = 'grace_hash', grace_hash_join_initial_buckets = 16")
    run = lambda s: json.loads(str(c.query(s, "JSONCompact")) or '{"data": []}')["data"]


def processes():
    """This process and those below it: seconds of processor, and KiB of memory."""
    below, used = {}, {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        except OSError:
            continue  # it ended
        below.setdefault(int(fields[1]), []).append(int(pid))
        ticks = int(fields[11]) + int(fields[12])
        pages = int(fields[21])
        used[int(pid)] = ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    seconds, mb, todo = 0, 0, [os.getpid()]
    while todo:
        pid = todo.pop()
        todo += below.get(pid, [])
        seconds, mb = seconds + used[pid][0], mb + used[pid][1]
    return seconds, mb


def spilled():
    total = 0
    for path, _, names in os.walk(spill):
        for name in names:
            try:
                total += os.stat(os.path.join(path, name)).st_blocks * 512 / 1e6
            except OSError:
                pass  # it was removed
    return total


done, peak = threading.Event(), [0, 0]


def watch():
    while not done.wait(0.5):
        peak[0], peak[1] = max(peak[0], processes()[1]), max(peak[1], spilled())


for s in statements(engine + ".sql"):
    for table in "events", "durations":
        s = s.replace(f"{table}/*/", f"{table}/part={part}/")
        s = s.replace(f"'{table}'", f"'{table}/part={part}'")
    run(s)
sql = statements(query + ".sql")[0]
if query == "join":
    sql = "SELECT count(*), sum(hi_cycles - lo_cycles), min(lo_cycles) FROM (" + sql + ") j"
threading.Thread(target=watch, daemon=True).start()
began, used = time.time(), processes()[0]
rows = run(sql)
wall, cpu = time.time() - began, processes()[0] - used
done.set()
print(json.dumps({"engine": engine, "query": query, "part": part, "wall_s": round(wall, 1),
                  "processor_s": round(cpu, 1), "memory_mb": round(peak[0]),
                  "spilled_mb": round(peak[1]), "rows": len(rows), "first": rows[0],
                  "load": os.getloadavg()[0]}, default=str), flush=True)
os._exit(0)  # some engines take long to end
