// The requests that programs answered, and the calls that each of them led to. Nobody logged which
// call belongs to which request: these links are inferred, so each is drawn with its probability.

import { hatch, valueScale, xAxis } from "./axis.ts";
import type { Call, Interval, Pattern, Trace, TraceCall, Verdict } from "./data.ts";
import { html, picture, replace, shorten, svg, textWidth } from "./dom.ts";
import { absent } from "./marks.ts";
import { compact, interval } from "./number.ts";
import type { State } from "./state.ts";

/** Find is what the reader looks for among the requests. An empty text looks for nothing. */
export interface Find { program: string; longer: string; message: string }

const middle = (x: Interval) => (x.lo_cycles + x.hi_cycles) / 2;
const share = (part: Interval, all: Interval) =>
  middle(all) > 0 ? (100 * middle(part)) / middle(all) : 0;
const percent = (x: number) => `${x.toFixed(1)} %`;
const of = (part: number, all: number) => percent(all > 0 ? (100 * part) / all : 100);

export function many(n: number, what: string): string {
  return `${compact(n)} ${what}${n === 1 ? "" : "s"}`;
}

export function requests(state: State): HTMLElement {
  const { inferred } = state.data;
  const open = inferred.patterns.slice(0, 2), more = inferred.patterns.slice(2);
  const left = inferred.without > 0
    ? html("p", {}, `${many(inferred.without, "pattern")} that took less time are not shown.`)
    : null;
  return html("div", { class: "requests" },
    state.data.spans.length > 0 ? null : svg("svg",
      { width: 0, height: 0, "aria-hidden": "true", class: "definitions" }, hatch()),
    summary(state),
    ...open.map((p, i) => pattern(state, p, i + 1)),
    more.length > 0
      ? html("details", {},
          html("summary", {}, `${many(more.length, "more pattern")}, which took less time`),
          ...more.map((p, i) => pattern(state, p, i + 1 + open.length)), left)
      : left,
    traces(state));
}

function summary(state: State): HTMLElement {
  const i = state.data.inferred;
  const doubts = [
    ...(i.lost > 0 ? [`Lost: ${many(i.lost, "message")}. Requests may lack calls, and links ` +
      "may be wrong."] : []),
    ...(i.mixed > 0 ? [`On ${many(i.mixed, "connection")}, several requests were open at once, ` +
      "and nothing tells requests and responses apart: calls on them may be wrong."] : []),
  ];
  const all = many(i.requests, "request");
  return html("div", {},
    html("p", {},
      (i.chosen < i.requests ? `${compact(i.chosen)} of ${all} were chosen. They follow ` :
        `${all} followed `) +
      `${many(i.patterns.length + i.without, "pattern")}. Of ${many(i.links, "link")}, ` +
      `${of(i.said, i.links)} are at least ${i.said_at} sure, and ${of(i.sure, i.links)} at ` +
      `least ${i.sure_at}.`),
    html("p", { class: "means" },
      html("span", { class: "key own" }), "in the program ",
      html("span", { class: "key network" }), "in the network, or waiting for a program that " +
      "was not captured"),
    ...doubts.map((d) => html("p", { class: "banner suspect" }, d)));
}

interface Bar { kind: "own" | "network"; from: number; to: number }

interface Row {
  depth: number;
  name: string;
  probability: number; // of the link to the row above
  about: string;
  label: string;
  bars: Bar[];
  verdict: Verdict; // of the times
}

const rowHeight = 26, indent = 16;

/** tree draws a row for each call. On the left is the call's name, indented by its depth in the
 * tree. On the right are bars for its times. */
function tree(
  state: State, rows: Row[], end: number, tick: (x: number) => string, label: string
): HTMLElement {
  const width = state.width, top = 6;
  const widest = Math.max(...rows.map((r) => 8 + indent * r.depth + textWidth(r.name, 13)));
  const names = Math.min(Math.ceil(widest) + 10, Math.max(130, Math.floor(width * 0.42)));
  const sureWidth = rows.some((r) => r.probability < 0.995) ? 36 : 4;
  const labels = width > 620
    ? Math.ceil(Math.max(...rows.map((r) => textWidth(r.label, 12)))) + 12 : 0;
  const px0 = names + sureWidth, px1 = Math.max(px0 + 60, width - labels - 8);
  const height = top + rows.length * rowHeight + 28;
  const x = valueScale(0, end > 0 ? end : 1, [px0, px1], false,
    Math.max(2, Math.floor((px1 - px0) / 90)), false);
  const said = state.data.inferred.said_at;
  const above: number[] = []; // the row above, by depth
  const drawn = rows.map((r, i) => {
    const y = top + i * rowHeight + rowHeight / 2, left = 4 + indent * r.depth;
    above.length = r.depth;
    const parent = above[r.depth - 1];
    above.push(i);
    const doubt = r.probability < said ? " doubt" : "";
    const room = Math.max(4, Math.floor((names - left - 4) / 7));
    return svg("g", {},
      svg("title", {}, `${r.name}: ${r.about}`),
      parent === undefined ? null : svg("path", {
        d: `M${left - indent + 5},${top + parent * rowHeight + rowHeight / 2 + 8}V${y}H${left - 2}`,
        class: `link${doubt}`, "stroke-width": (0.5 + 1.7 * r.probability).toFixed(2),
      }),
      svg("text", { x: left, y: y + 4, class: "step-name" }, shorten(r.name, room)),
      r.probability < 0.995
        ? svg("text", { x: px0 - 8, y: y + 4, "text-anchor": "end", class: `sure${doubt}` },
            r.probability.toFixed(2))
        : null,
      ...r.bars.flatMap((b) => {
        const bar = {
          x: x(b.from), width: Math.max(1, x(b.to) - x(b.from)), rx: 2,
          y: y - (b.kind === "own" ? 7 : 3), height: b.kind === "own" ? 14 : 6,
        };
        return [
          svg("rect", { ...bar, class: b.kind,
            "fill-opacity": (0.25 + 0.7 * r.probability).toFixed(2) }),
          r.verdict === "suspect" ? svg("rect", { ...bar, fill: "url(#hatch)" }) : null,
        ];
      }),
      labels > 0
        ? svg("text", { x: width, y: y + 4, "text-anchor": "end", class: "step-time" }, r.label)
        : null);
  });
  const text = rows.map((r) => `${r.name}, ${r.about}`).join("; ");
  return html("div", { class: "chart scroll" },
    picture(Math.max(width, px1 + 8), height, `${label}: ${text}`,
      xAxis(x, Math.max(width, px1), height - 24, height - 24 - top, tick), ...drawn));
}

const linkText = (p: number) => `link ${p.toFixed(2)} sure`;

function pattern(state: State, p: Pattern, number: number): HTMLElement {
  const format = state.format;
  const all = { lo_cycles: 0, hi_cycles: 0 };
  for (const other of state.data.inferred.patterns) {
    all.lo_cycles += other.total.lo_cycles;
    all.hi_cycles += other.total.hi_cycles;
  }
  const at = (percent: number) => p.whole.find((q) => q.p === percent);
  const p50 = at(50), p99 = at(99);
  const rows = p.calls.map((c): Row => {
    const own = share(c.waited_own, p.total), net = share(c.waited_network, p.total);
    const m = c.own.find((q) => q.p === 50);
    const time = m ? `, median ${format.text(interval(m), c.verdict)}` : "";
    return {
      depth: c.depth, probability: c.probability, verdict: c.verdict,
      name: c.nodes.length > 0 ? `${c.program} on ${c.nodes.join(", ")}` : c.program,
      about: `${c.depth > 0 ? `${linkText(c.probability)}; ` : ""}in the program: ` +
        `${percent(own)}${time}; in the network: ${percent(net)}`,
      label: `${percent(own + net)}`,
      bars: [{ kind: "own", from: 0, to: own }, { kind: "network", from: own, to: own + net }],
    };
  });
  return html("div", {},
    html("h3", {}, `Pattern ${number}: ${many(p.requests, "request")} from ` +
      `${p.from || "outside"}`),
    html("p", {}, `${percent(share(p.total, all))} of the time. All links of a request are right ` +
      `with probability ${p.probability.toFixed(2)}.` +
      (p50 && p99 ? ` A request took ${format.text(interval(p50), p.verdict)} (median), ` +
        `${format.text(interval(p99), p.verdict)} (99 %).` : "") + slower(state, p)),
    tree(state, rows, Math.max(1, ...rows.flatMap((r) => r.bars.map((b) => b.to))),
      (v) => `${compact(v)} %`, "Share of the time that requests waited for each call"));
}

/** slower says on what the slow requests of a pattern spent more time than the fast ones. */
function slower(state: State, p: Pattern): string {
  if (p.slow === 0) return "";
  const text = (x: Interval) => state.format.text(interval(x));
  const reasons = p.calls.flatMap((c: Call) => [
    { where: `in ${c.program}`, time: c.slower_own },
    { where: `in the network to ${c.program}`, time: c.slower_network },
  ]).filter((r) => r.time.lo_cycles > 0)
    .sort((a, b) => middle(b.time) - middle(a.time)).slice(0, 2)
    .map((r) => `${text(r.time)} of it ${r.where}`);
  return ` The slowest tenth took ${text(p.slower)} longer than the faster half, on average` +
    (reasons.length > 0 ? `: ${reasons.join(", ")}.` : ".");
}

/** cyclesOf reads a duration such as "50 ms". Without a unit, it is in milliseconds. */
export function cyclesOf(text: string, hz: number): number | null {
  const found = /^\s*([0-9]*\.?[0-9]+)\s*(ns|us|µs|ms|s|cycles|)\s*$/.exec(text);
  if (!found) return null;
  const [, number, unit] = found;
  if (unit === "cycles") return Number(number);
  const factor = { ns: 1e-9, us: 1e-6, "µs": 1e-6, ms: 1e-3, "": 1e-3, s: 1 }[unit!]!;
  return hz > 0 ? Number(number) * factor * hz : null;
}

/** matches reports whether a request is one that the reader looks for. */
export function matches(t: Trace, find: Find, hz: number): boolean {
  const program = find.program.trim().toLowerCase(), message = find.message.trim();
  const named = (name: string) => name.toLowerCase().includes(program);
  const least = find.longer.trim() === "" ? 0 : cyclesOf(find.longer, hz);
  return least !== null && t.whole.hi_cycles >= least &&
    (program === "" || t.calls.some((c) => named(c.program) || named(c.from))) &&
    (message === "" || t.calls.some((c) => c.messages.some((m) =>
      m === message || m.split(":").includes(message))));
}

function traces(state: State): HTMLElement | null {
  const i = state.data.inferred, { lo_hz, hi_hz } = state.data.reference;
  if (i.traces.length === 0) return null;
  const find = state.find;
  const shown = i.traces.filter((t) => matches(t, find, (lo_hz + hi_hz) / 2));
  const field = (key: keyof Find, name: string, hint: string) =>
    html("label", {}, html("span", {}, name), html("input", {
      type: "search", value: find[key], placeholder: hint, "data-key": `find-${key}`,
      list: key === "program" ? "programs" : null,
      change: (e: Event) =>
        state.set({ find: { ...find, [key]: (e.target as HTMLInputElement).value }, request: 0 }),
    }));
  const programs = [...new Set(i.traces.flatMap((t) => t.calls.map((c) => c.program)))].sort();
  const form = html("div", { class: "find" },
    field("program", "program", "such as nginx"), field("longer", "at least", "such as 50 ms"),
    field("message", "message", "socket:cycles"),
    html("datalist", { id: "programs" }, ...programs.map((p) => html("option", { value: p }))));
  const whole = i.traces.length === i.chosen
    ? `All ${many(i.traces.length, "request")} can be searched here.`
    : `The ${compact(i.traces.length)} slowest of ${many(i.chosen, "request")} can be searched ` +
      "here. cprof paths --program, --longer and --message search all.";
  const wrong = find.longer.trim() !== "" && cyclesOf(find.longer, 1) === null
    ? `"${find.longer}" is not a duration: write one such as 50 ms. ` : "";
  const head = html("div", {}, html("h3", {}, "Single requests"),
    html("p", { class: "means" }, whole), form);
  if (shown.length === 0)
    return html("div", {}, head, absent([`${wrong}No request of these is as you asked.`]));
  const chosen = shown[Math.min(state.request, shown.length - 1)]!;
  const list = html("div", { class: "tuple-list", role: "group", "aria-label": "Requests" },
    ...shown.map((t, n) =>
      html("button", {
        class: "tuple", "data-key": `request-${n}`,
        "aria-pressed": t === chosen ? "true" : "false", click: () => state.set({ request: n }),
      },
        html("span", { class: "tuple-row" },
          html("span", { class: "tuple-why" }, t.calls[0]!.program),
          html("b", {}, state.format.text(interval(t.whole), t.verdict))),
        html("span", { class: "tuple-row" },
          html("span", { class: "tuple-id" }, `pattern ${t.pattern}`),
          html("span", { class: "of" }, `${t.probability.toFixed(2)} sure`)))));
  const panel = html("div", { class: "tuple-panel" });
  replace(panel, timeLine(state, chosen));
  return html("div", {}, head, html("div", { class: "tuples" }, list, panel));
}

function timeLine(state: State, t: Trace): HTMLElement {
  const format = state.format;
  const narrow = Object.assign(Object.create(state) as State,
    { width: state.width >= 820 ? state.width - 324 : state.width });
  const at = (x: Interval) => format.draw(middle(x));
  const rows = t.calls.map((c: TraceCall): Row => {
    const bars: Bar[] = [];
    const until = c.got ?? c.received;
    if (c.sent && until) bars.push({ kind: "network", from: at(c.sent), to: at(until) });
    if (c.received && c.replied)
      bars.push({ kind: "own", from: at(c.received), to: at(c.replied) });
    const own = c.own ? format.text(interval(c.own), c.verdict) : "";
    return {
      depth: c.depth, probability: c.probability, bars, label: own, verdict: c.verdict,
      name: c.node ? `${c.program} on ${c.node}` : c.program,
      about: [
        c.from ? linkText(c.probability) : "",
        c.runner_up > 0 ? `another request: ${c.runner_up.toFixed(2)}` : "",
        own && `in the program itself: ${own}`,
        c.messages.length > 0 ? `message ${c.messages.join(" and ")}` : "",
      ].filter(Boolean).join("; "),
    };
  });
  const first = t.calls[0]!;
  return html("figure", {},
    html("figcaption", {}, html("b", {}, format.text(interval(t.whole), t.verdict)),
      ` in all, pattern ${t.pattern}. Its links are all right with probability ` +
      `${t.probability.toFixed(2)}. Beside each bar: the time in the program itself.`),
    tree(narrow, rows, Math.max(...rows.flatMap((r) => r.bars.map((b) => b.to)), 0),
      (v) => format.tick(v), `Time line of a request to ${first.program}`));
}
