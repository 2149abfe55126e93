// The report's page. It reads the data in the page, draws the parts of the page, and redraws the
// parts that a choice of the reader changes.

import { choice, themeChoice, unitChoice } from "./controls.ts";
import { version, type Data } from "./data.ts";
import { html, replace } from "./dom.ts";
import { graph } from "./graph.ts";
import { absent } from "./marks.ts";
import { machines, matrix } from "./nodes.ts";
import { bounds, latency, throughput } from "./overtime.ts";
import { requests } from "./requests.ts";
import { State } from "./state.ts";
import { truth } from "./truth.ts";
import { spans } from "./spans.ts";
import { talks } from "./talks.ts";
import { assumptions, findings, heading, pauses, slowest, tiles, undecided } from "./summary.ts";
import { waterfalls } from "./waterfall.ts";

interface Part {
  id: string;
  title: string;
  lead: string; // a sentence that says how to read the part
  draw: (state: State) => HTMLElement;
  depends: (keyof State)[]; // changes of these redraw it, as do unit, scale and width
  name?: string; // the name in the bar at the top; absent: the part is not in the bar
}

const parts: Part[] = [
  {
    id: "graph",
    title: "The path of the tuples",
    name: "Graph",
    draw: graph,
    depends: ["span"],
    lead:
      "Boxes are operators, with the median of their own computation. Arrows are transfers, with " +
      "their median and its bound. An arrow between machines is plum, one within a machine is " +
      "green, and a dotted one leads to tuples that were made of these. Choose a value to see it " +
      "over time.",
  },
  {
    id: "spans",
    title: "Where the time went",
    name: "Spans",
    depends: ["span"],
    lead:
      "A box holds the middle half of the durations around their median, and whiskers reach 1.5 " +
      "times as far. A dot is the mean, and the pale shape is the distribution. The shade behind " +
      "each line is as wide as the line is uncertain. On the right, on an axis of its own, is " +
      "the distribution of the bounds of the same durations.",
    draw: (state) =>
      state.data.spans.length === 0 ? absent(state.absent("spans")) : spans(state),
  },
  {
    id: "latency",
    title: "Latency over time",
    name: "Over time",
    draw: latency,
    depends: ["span", "from", "to"],
    lead:
      "Percentiles of the tuples that began the span at that moment. The bands are as wide as " +
      "the bounds.",
  },
  {
    id: "throughput",
    title: "Throughput over time",
    draw: throughput,
    depends: ["from", "to"],
    lead: "What passed each place, counted in equal steps of the reference counter.",
  },
  {
    id: "bounds",
    title: "How sure that is, and how sure others would be",
    name: "Bounds",
    draw: bounds,
    depends: ["pair", "from", "to"],
    lead:
      "How far a duration between two nodes may be off in either direction, by each method, at " +
      "the same moments of the same run.",
  },
  {
    id: "truth",
    title: "Checked against the truth",
    name: "Truth",
    draw: truth,
    depends: [],
    lead:
      "Only virtual nodes know the truth: their counters are known functions of one that they " +
      "share, so the true durations are known to the cycle. Nothing else on this page uses it. " +
      "An error is the distance from the middle of an interval to the truth. At 100 % of the " +
      "bound, the truth is at the end of the interval.",
  },
  {
    id: "tuples",
    title: "Single tuples",
    name: "Tuples",
    draw: waterfalls,
    depends: ["tuple"],
    lead:
      "The whole path of the slowest tuples. Whiskers at both ends of a bar are the moments at " +
      "which it can have begun and ended. The duration on the right is often known better than " +
      "these, because both ends share an error.",
  },
  {
    id: "messages",
    title: "Who talks to whom",
    name: "Messages",
    draw: talks,
    depends: [],
    lead:
      "Boxes are programs that log nothing: their messages were captured. A line leads from the " +
      "program that asks to the one that answers, and is the thicker the more messages there " +
      "were. It has the medians of the transfers there and back: from the beginning of the call " +
      "that sends to the moment when the receiver has the last byte, with bounds. A line between " +
      "machines is plum, one within a machine is green.",
  },
  {
    id: "requests",
    title: "Which calls requests led to",
    name: "Requests",
    draw: requests,
    depends: ["request", "find"],
    lead:
      "Nobody logged which call a request led to. It is inferred from the moments of messages, " +
      "with a probability: the thicker the line to a call, the surer it is, and a line below 0.9 " +
      "is dashed. Requests with equal trees follow one pattern. The durations are intervals " +
      "that contain the truth, if the links are right.",
  },
  {
    id: "findings",
    title: "What was found",
    name: "Findings",
    draw: findings,
    depends: [],
    lead: "",
  },
  { id: "undecided", title: "What this run cannot decide", draw: undecided, depends: [], lead: "" },
  {
    id: "nodes",
    title: "The nodes against each other",
    name: "Nodes",
    draw: matrix,
    depends: ["pair"],
    lead:
      "Above the diagonal is the bound of each pair of counters, the median over the run: the " +
      "darker, the wider. Below it is about how much faster one counter runs than the other. " +
      "Choose a pair to see it in full.",
  },
  {
    id: "assumptions",
    title: "What the bounds rest on",
    name: "Assumptions",
    draw: assumptions,
    depends: [],
    lead:
      "Under these assumptions a bound is a theorem. Data can refute an assumption, and never " +
      "confirm it.",
  },
  {
    id: "machines",
    title: "The machines",
    name: "Machines",
    draw: machines,
    depends: [],
    lead: "",
  },
];

/** isShown reports whether the page has a part. A run may have captured messages, logged tuples or
 * both. If no program logged tuples, one sentence says so, instead of each part about tuples. */
function isShown(id: string, { data, onlyMessages }: State): boolean {
  switch (id) {
    case "messages":
      return data.messages.services.length > 0;
    case "requests":
      return data.inferred.requests > 0;
    case "findings":
      return !onlyMessages || data.remarks.length > 0 || data.findings.some((f) => f.count > 0);
    case "undecided":
      return !onlyMessages || data.undecided.length + data.missing.length > 0;
    case "graph": case "spans": case "latency": case "throughput": case "bounds": case "truth":
    case "tuples":
      return !onlyMessages;
  }
  return true;
}

function controls(state: State): HTMLElement {
  return html("div", { class: "controls" },
    unitChoice(
      state.unit,
      (unit) => state.set({ unit }),
      state.data.reference.lo_hz > 0
        ? ""
        : (state.absent("seconds")[0] ?? "the counter's frequency is not known")
    ),
    choice(
      "Scale",
      [
        ["log", "log", true],
        ["linear", "linear", false],
      ],
      (v) => state.set({ log: v === "log" })
    ),
    themeChoice()
  );
}

function columnWidth(main: Element): number {
  const style = getComputedStyle(main);
  return Math.max(
    280,
    Math.floor(main.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight))
  );
}

/** show replaces all elements of the page except the scripts. These contain the data and this
 * program, so a page that the reader saves still works. */
function show(...elements: HTMLElement[]): void {
  document.body.querySelectorAll(":scope > :not(script)").forEach((e) => e.remove());
  document.body.prepend(...elements);
}

function start(data: Data): void {
  document.title = `${data.run.name} – Cloudprofiler report`;
  const main = html("main", { id: "main" });
  const state = new State(data);
  const shown = parts.filter((p) => isShown(p.id, state));
  const top = html("div", { class: "top" },
    html("nav", { "aria-label": "Parts of the report" },
      ...shown
        .filter((p) => p.name && (p.id !== "truth" || data.truth.durations.held > 0))
        .map((p) => html("a", { href: `#${p.id}` }, p.name!))
    ),
    controls(state)
  );
  show(html("a", { class: "skip", href: "#main" }, "Skip to the report"), top, main);
  state.width = columnWidth(main);

  const intro = html("div", {});
  const drawIntro = () => replace(intro, heading(state), tiles(state), slowest(state),
    pauses(state));
  drawIntro();
  main.append(intro);
  const sections = shown.map((part) => {
    const content = html("div", { class: "content" });
    const lead = part.lead ? html("p", { class: "lead" }, part.lead) : null;
    main.append(
      html("section", { id: part.id, "aria-labelledby": `${part.id}-title` },
        html("h2", { id: `${part.id}-title` }, part.title),
        lead,
        content
      )
    );
    return { part, content, lead };
  });
  main.append(
    html("footer", {},
      `${data.run.program || "cprof"}, report data version ${data.version}. ` +
        "This page loads nothing from a network."
    )
  );

  let drawn: Record<string, unknown> = {};
  const draw = () => {
    const now: Record<string, unknown> = { ...state };
    const changed = (key: string) => drawn[key] !== now[key];
    const all = ["unit", "log", "width"].some(changed);
    if (all && drawn["unit"] !== undefined) drawIntro();
    for (const { part, content, lead } of sections) {
      if (!all && !part.depends.some((key) => changed(key))) continue;
      replace(content, part.draw(state));
      // If a part is absent, hide the sentence that says how to read the part.
      if (lead) lead.hidden = content.firstElementChild?.classList.contains("absent") ?? false;
    }
    drawn = now;
  };
  state.onChange(draw);
  draw();

  let pending = 0;
  new ResizeObserver(() => {
    cancelAnimationFrame(pending);
    pending = requestAnimationFrame(() => {
      const width = columnWidth(main);
      if (width !== state.width && !matchMedia("print").matches) state.set({ width });
    });
  }).observe(main);
  // style.css makes the column fill A4 paper. A printed page cannot be clicked, so open all
  // details.
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((d) => d.setAttribute("open", ""));
    state.set({ width: 815 });
  });
  addEventListener("afterprint", () => state.set({ width: columnWidth(main) }));
}

const text = document.getElementById("data")?.textContent ?? "";
try {
  const data = JSON.parse(text) as Data;
  if (data.version !== version)
    throw new Error(`the data have version ${data.version}, this page shows ${version}`);
  start(data);
} catch (error) {
  show(
    html("main", {}, html("h1", {}, "This report cannot be shown"), html("p", {}, String(error)))
  );
}
