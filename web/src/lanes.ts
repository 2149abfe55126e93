// Draws the lanes: one for each instance of an operator on each node. The stay of a tuple in an
// instance is the time from the tuple's first event there to its last. If few stays are in view, a
// lane shows each of them. Otherwise it shows how many there were at each time.

import { html } from "./dom.ts";
import type { Lane, LaneRows, Path, Pauses, Point, Row, Sum } from "./explore-data.ts";
import { absent } from "./marks.ts";
import { compact, interval, whole } from "./number.ts";
import { band, paintPause, pauseLegend, pauseName } from "./pauses.ts";
import { moment, stripes, timeFrame, type Pen } from "./timeframe.ts";
import type { Run, View } from "./view.ts";

export const lanesShown = 24;
const tall = 34, top = 8;

export function laneName(l: Lane): string { return `${l.instance} on ${l.node}`; }

/** ends returns the points of a lane at which tuples ended. */
function ends(run: Run, lane: number): Point[] {
  return run.meta.channels
    .flatMap((c) => (c.lane === lane && c.ended > 0 ? [run.meta.points[c.point]!] : []));
}

/**
 * perhapsEnded returns a sentence that says how many further tuples may have ended at the points of
 * some lanes. These numbers are known only for a point as a whole, which may be in several lanes.
 * The sentence is empty if there are no such tuples.
 */
export function perhapsEnded(run: Run, lanes: number[]): string {
  const points = new Set(run.meta.channels.flatMap((c) =>
    (lanes.includes(c.lane) ? [run.meta.points[c.point]!] : [])));
  const said = [...points].filter((p) => p.perhaps_ended > 0)
    .map((p) => `${whole(p.perhaps_ended)} at ${p.name}`);
  return said.length === 0 ? ""
    : `Further tuples may have ended, in all lanes of a point together: up to ${
      said.join(", ")}. Others have the same ids, so it is not known which of them ended.`;
}

/** someLost says whether some tuples that ended in a lane were lost. Filtered tuples were not. */
function someLost(run: Run, lane: number): boolean {
  return ends(run, lane).some((p) => p.lost > 0);
}

/**
 * fate returns what became of the tuples that ended in a lane: they were filtered, lost or in
 * flight. A point may be in several lanes, and the numbers of these tuples are known only for the
 * whole point. So if the tuples of a point had several fates, fate names all of them.
 */
export function fate(run: Run, lane: number): string {
  const points = ends(run, lane);
  const known = [
    points.some((p) => p.filtered > 0) ? "filtered" : "",
    points.some((p) => p.lost > 0) ? "lost" : "",
    points.some((p) => p.in_flight > 0) ? "in flight" : "",
  ].filter(Boolean);
  return known.length === 0 || points.some((p) => p.undecided) ? "ended" : known.join(" or ");
}

/** shownLanes returns the numbers of the lanes that are in view. */
export function shownLanes(view: View, run: Run): number[] {
  const order = run.order();
  const first = Math.min(view.lanes, Math.max(0, order.length - 1));
  return order.slice(first, first + lanesShown);
}

/** actorColour returns the colour of a lane's operator. Operators get the colours in the order in
 * which tuples pass them. */
function actorColour(run: Run, lane: Lane): string {
  const actors = [...new Set(run.order().map((i) => run.meta.lanes[i]!.actor))];
  return `s${Math.max(0, actors.indexOf(lane.actor)) % 6}`;
}

interface Drawn { row: Row; lane: number; x0: number; x1: number; y0: number; y1: number }

export function lanes(
  view: View,
  run: Run,
  data: LaneRows[],
  path: Path | undefined,
  pauses: Pauses[],
  width: number
): HTMLElement {
  if (data.length === 0) return absent(["The run has no events in its logs."]);
  const names = width > 640 ? 190 : 112;
  const height = top + data.length * tall + 26, format = run.format(view.unit);
  const drawn: Drawn[] = [];
  const span = (view.to - view.from) * run.scale;
  const chosen = (row: Row) => row.id === view.id;
  const endColour = (lane: number) => (someLost(run, lane) ? "wrong" : "faint");
  const paintRows = (pen: Pen, lane: number, rows: Row[], y: number, colour: string,
    x: (c: number) => number) => {
    // Tuples that are in an instance at the same time are drawn in different rows, one below the
    // other.
    const free: number[] = [];
    const placed = rows.map((row) => {
      const from = x(row.at.lo_cycles), to = x(row.at.hi_cycles + row.duration.hi_cycles);
      let level = free.findIndex((f) => f <= from);
      if (level < 0) level = free.length;
      free[level] = Math.max(to, from + 4) + 1;
      return level;
    });
    const levels = Math.min(8, Math.max(1, free.length));
    const size = (tall - 6) / levels;
    rows.forEach((row, i) => {
      const y0 = y + 3 + (placed[i]! % levels) * size, h = Math.max(2, size - 1);
      const begin = x((row.at.lo_cycles + row.at.hi_cycles) / 2);
      const end = begin + x((row.duration.lo_cycles + row.duration.hi_cycles) / 2) - x(0);
      const x1 = Math.max(begin + 2, end);
      pen.fillStyle = pen.colour(row.ended ? endColour(lane) : colour);
      pen.globalAlpha = 0.22;
      const a = x(row.at.lo_cycles), b = x(row.at.hi_cycles + row.duration.hi_cycles);
      pen.fillRect(a, y0, Math.max(2, b - a), h); // while the tuple may have been here
      pen.globalAlpha = 0.85;
      pen.fillRect(begin, y0, x1 - begin, h);
      pen.globalAlpha = 1;
      if (row.suspect) stripes(pen, begin, y0, x1 - begin, h);
      if (chosen(row)) {
        pen.strokeStyle = pen.colour("ink");
        pen.lineWidth = 2;
        pen.strokeRect(begin - 1, y0 - 1, x1 - begin + 2, h + 2);
      }
      drawn.push({ row, lane, x0: Math.min(a, begin), x1: Math.max(b, x1), y0, y1: y0 + h });
    });
  };
  const paintSums = (pen: Pen, lane: number, sums: Sum[], y: number, colour: string,
    x: (c: number) => number) => {
    const wide = (s: Sum) => Math.max(1, x(s.to_cycles) - x(s.from_cycles));
    const most = Math.max(...sums.map((s) => s.count / wide(s)));
    for (const s of sums) {
      const x0 = x(s.from_cycles), w = wide(s);
      const h = Math.max(1.5, (tall - 8) * (s.count / w / most));
      pen.fillStyle = pen.colour(colour);
      pen.globalAlpha = 0.55;
      pen.fillRect(x0, y + tall - 3 - h, w, h);
      pen.globalAlpha = 1;
      if (s.suspect) stripes(pen, x0, y + tall - 3 - h, w, h);
      if (s.ended) {
        pen.fillStyle = pen.colour(endColour(lane));
        pen.globalAlpha = 0.25 + 0.75 * Math.sqrt(s.ended / s.count);
        pen.fillRect(x0, y + 2, w, 3);
        pen.globalAlpha = 1;
      }
    }
  };
  const laneAt = (y: number) => data[Math.floor((y - top) / tall)];
  const hit = (at: number, y: number) => {
    let best: Drawn | undefined, distance = 9;
    for (const d of drawn) {
      const dx = Math.max(0, d.x0 - at, at - d.x1), dy = Math.max(0, d.y0 - y, y - d.y1);
      if (Math.hypot(dx, dy) < distance) [best, distance] = [d, Math.hypot(dx, dy)];
    }
    return best;
  };
  const pausesOf = (lane: number) =>
    pauses.flatMap((p) => (run.meta.lanes[lane]!.jvms.includes(p.jvm) ? p.rows : []));
  const left = 1;
  let toPixel: (cycles: number) => number = () => 0;
  const frame = timeFrame({
    view, run, width: width - names, height, left, key: `lanes-${run.number}`,
    label: `Lanes of ${run.meta.run}: ${data.length} instances over time`,
    paint: (pen, box, x) => {
      toPixel = x;
      drawn.length = 0;
      data.forEach((shown, i) => {
        const y = top + i * tall, colour = actorColour(run, run.meta.lanes[shown.lane]!);
        for (const p of pausesOf(shown.lane)) paintPause(pen, p.begin, p.end, x, y, tall);
        pen.strokeStyle = pen.colour("line");
        pen.lineWidth = 1;
        pen.beginPath();
        pen.moveTo(box.left, y + tall - 0.5);
        pen.lineTo(box.right, y + tall - 0.5);
        pen.stroke();
        if (shown.rows) paintRows(pen, shown.lane, shown.rows, y, colour, x);
        else if (shown.sums) paintSums(pen, shown.lane, shown.sums, y, colour, x);
      });
      if (path) paintPath(pen, path, x);
    },
    read: (cycles, y) => {
      const shown = laneAt(y), near = hit(toPixel(cycles), y);
      if (!shown) return [html("b", {}, moment(format, cycles, span))];
      const lane = run.meta.lanes[shown.lane]!;
      const here = pausesOf(shown.lane).filter((p) => {
        const { from, to } = band(p.begin, p.end, toPixel), at = toPixel(cycles);
        return from - 1 <= at && at <= to + 1;
      });
      const head = [html("b", {}, moment(format, cycles, span)), html("span", {}, laneName(lane)),
        ...here.slice(0, 2).map((p) => html("span", {}, pauseName(format, p)))];
      if (near) {
        const { row } = near;
        return [...head, html("span", {}, "tuple ", html("code", {}, row.id)),
          html("span", { class: "number" }, row.instant ? "one event"
            : format.text(interval(row.duration), row.suspect ? "suspect" : "consistent")),
          html("span", { class: "hint" }, row.ended ? `ended at ${row.ended}` : "click to open")];
      }
      const s = shown.sums?.find((s) => cycles >= s.from_cycles && cycles <= s.to_cycles);
      if (!s) return head;
      return [...head, html("span", {}, `${whole(s.count)} stays in ` +
        `${format.tick(format.draw(s.to_cycles - s.from_cycles))}, each known to ` +
        format.bound(s.unsure_cycles)),
        s.ended ? html("span", {}, `${whole(s.ended)} ${fate(run, shown.lane)} here`) : ""];
    },
    choose: (at, _, to, y) => {
      const near = hit(toPixel(at), y), shown = laneAt(y);
      if (near) return view.set({ id: near.row.id });
      const s = shown?.sums?.find((s) => at >= s.from_cycles && at <= s.to_cycles);
      if (s) view.zoom(s.from_cycles / run.scale, Math.max(s.to_cycles, to) / run.scale);
    },
  });
  /** paintPath draws a tuple's path from lane to lane. */
  function paintPath(pen: Pen, path: Path, x: (c: number) => number): void {
    const at = path.events
      .map((e) => ({ e, i: data.findIndex((d) => d.lane === e.lane) }))
      .filter(({ i }) => i >= 0)
      .sort((a, b) => a.e.at.lo_cycles + a.e.at.hi_cycles - b.e.at.lo_cycles - b.e.at.hi_cycles);
    pen.strokeStyle = pen.fillStyle = pen.colour("ink");
    pen.lineWidth = 1.2;
    pen.globalAlpha = 0.8;
    pen.beginPath();
    at.forEach(({ e, i }, n) => {
      const px = x((e.at.lo_cycles + e.at.hi_cycles) / 2), py = top + i * tall + tall / 2;
      if (n === 0) pen.moveTo(px, py);
      else pen.lineTo(px, py);
    });
    pen.stroke();
    for (const { e, i } of at) {
      const py = top + i * tall + tall / 2, [a, b] = [x(e.at.lo_cycles), x(e.at.hi_cycles)];
      pen.globalAlpha = 0.25;
      pen.fillRect(a, py - 6, Math.max(1, b - a), 12);
      pen.globalAlpha = 1;
      pen.beginPath();
      pen.arc((a + b) / 2, py, 3, 0, 7);
      pen.fill();
    }
  }
  const label = (shown: LaneRows) => {
    const lane = run.meta.lanes[shown.lane]!;
    return html("div", { class: "lane-name" },
      html("b", { title: laneName(lane) }, lane.instance),
      html("small", {}, lane.node,
        lane.ended > 0
          ? html("button", {
              class: `ended-here ${endColour(shown.lane)}`,
              "data-key": `ended-${run.number}-${shown.lane}`,
              title: `List the tuples that ended in ${laneName(lane)}, in the time that is shown`,
              click: () => view.set({
                id: "", list: { from: view.from, to: view.to, lane: laneName(lane) },
              }),
            }, `${compact(lane.ended)} ${fate(run, shown.lane)}`)
          : null));
  };
  const perhaps = perhapsEnded(run, data.map((shown) => shown.lane));
  const count = run.meta.lanes.length, first = Math.min(view.lanes, count - 1);
  return html("div", {},
    html("div", { class: names < 190 ? "lanes slim" : "lanes" },
      html("div", { class: "lane-names", style: null }, ...data.map(label)), frame),
    pausesInView(run, pauses),
    perhaps ? html("p", { class: "means note" }, perhaps) : null,
    count > lanesShown
      ? html("div", { class: "row" },
          html("button", { class: "button", disabled: first === 0, "data-key": "lanes-before",
            click: () => view.set({ lanes: Math.max(0, first - lanesShown) }) }, "Lanes before"),
          html("span", { class: "means" },
            `${first + 1} to ${Math.min(count, first + lanesShown)} of ${count}`),
          html("button", { class: "button", disabled: first + lanesShown >= count,
            "data-key": "lanes-after",
            click: () => view.set({ lanes: first + lanesShown }) }, "Lanes after"))
      : null
  );
}

/** pausesInView returns the legend that explains the pauses in the lanes, or null if no pause is in
 * view. */
function pausesInView(run: Run, pauses: Pauses[]): HTMLElement | null {
  const shown = pauses.filter((p) => p.rows.length > 0);
  if (shown.length === 0) return null;
  const most = 4;
  const of = shown.slice(0, most).map((p) => {
    const jvm = run.meta.jvms[p.jvm]!;
    const kinds = new Map<string, number>();
    for (const { kind } of p.rows) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
    const said = [...kinds].sort((a, b) => b[1] - a[1]).slice(0, 3)
      .map(([kind, n]) => `${whole(n)} × ${kind}`).join(", ");
    return `${jvm.name} on ${jvm.node}: ` +
      (p.whole ? "" : `the ${whole(p.rows.length)} longest in view, `) + said +
      (kinds.size > 3 ? " and others" : "") +
      (jvm.absent > 0 ? `; ${whole(jvm.absent)} more of the run are not known` : "");
  });
  if (shown.length > most) of.push(`${shown.length - most} more JVMs`);
  return pauseLegend(of.join(". "), ".");
}
