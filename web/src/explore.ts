// The page of cprof serve: it asks the server for the data in view, and draws them. When the reader
// zooms, moves or chooses, the page asks again.

import { themeChoice, unitChoice } from "./controls.ts";
import { hatch } from "./axis.ts";
import { depth } from "./depth.ts";
import { html, picture, replace } from "./dom.ts";
import type {
  Depths, Found, LaneRows, Latencies, Listed, Meta, Pauses, Spread,
} from "./explore-data.ts";
import { tuples } from "./found.ts";
import { heat, heatLegend } from "./heat.ts";
import { lanes, laneName, shownLanes } from "./lanes.ts";
import { pausesSentence } from "./pauses.ts";
import { absent } from "./marks.ts";
import { whole } from "./number.ts";
import { exact, instances, lackingNote, percentileCurve } from "./spread.ts";
import { moment } from "./timeframe.ts";
import { answer, fromHash, idOf, Run, spanName, toHash, View, type Choices } from "./view.ts";

interface Part {
  id: string;
  title: string;
  lead: string;
  asks: (keyof Choices)[]; // choices that change the question; other choices only redraw
  ask: (run: Run, signal: AbortSignal) => Promise<unknown>;
  draw: (answers: { run: Run; data: any }[], width: number) => HTMLElement[];
}

function parts(view: View): Part[] {
  const about = (run: Run) => ({ from: view.from * run.scale, to: view.to * run.scale });
  const spanOf = (run: Run) => {
    const span = run.span(view.span);
    if (span < 0) throw new Missing(`The run ${run.meta.run} has no span ${view.span}.`);
    return { span, ...about(run) };
  };
  const buckets = (width: number) => Math.max(40, Math.min(480, Math.round(width / 4)));
  const columns = () => (view.runs.length > 1 && view.width >= 1000 ? 2 : 1);
  const wide = () => Math.floor((view.width - (columns() - 1) * 28) / columns());
  return [
    {
      id: "latency",
      title: "Latency over time",
      lead: "Each column is a moment at which tuples began the span. Click a spike to list its " +
        "tuples below; drag across a part to zoom in.",
      asks: ["span", "from", "to"],
      ask: (run, signal) =>
        run.ask<Latencies>("latency", { ...spanOf(run), buckets: buckets(wide()) }, signal),
      draw: (all, width) => all.map(({ run, data }) =>
        html("div", {}, lackingNote(run, view.span), pausesNote(run, view.span),
          heat(view, run, data, width))),
    },
    {
      id: "tuples",
      title: "Tuples",
      lead: "",
      asks: ["span", "from", "to", "list", "id"],
      ask: async (run, signal) => {
        const found = view.id
          ? await run.ask<Found>("tuple", { id: view.id }, signal) : null;
        const { list } = view;
        const range = list
          ? { from: list.from * run.scale, to: list.to * run.scale } : about(run);
        if (list?.lane) {
          const lane = run.meta.lanes.findIndex((l) => laneName(l) === list.lane);
          if (lane < 0) return { found, listed: { rows: [], whole: true } };
          return { found, listed: await run.ask<Listed>("ended", { lane, ...range }, signal) };
        }
        const span = run.span(view.span);
        const bounds = { ...(list?.lo !== undefined ? { lo: list.lo } : {}),
          ...(list?.hi !== undefined ? { hi: list.hi } : {}) };
        const listed = span < 0 ? { rows: [], whole: true }
          : await run.ask<Listed>("longest", { span, ...range, ...bounds }, signal);
        return { found, listed };
      },
      draw: (all, width) =>
        all.map(({ run, data }) => tuples(view, run, data.listed, data.found, width)),
    },
    {
      id: "lanes",
      title: "Lanes",
      lead: "A lane is one instance of an operator on a node, with the stays of tuples in it: " +
        "how many, or each of them where few are in view. The pale part of a stay is where it " +
        "may also have been. Click one to see its path.",
      asks: ["from", "to", "lanes", "id"],
      ask: async (run, signal) => {
        const shown = shownLanes(view, run);
        const data = shown.length === 0 ? []
          : await run.ask<LaneRows[]>("lanes",
            { ...about(run), lanes: shown.join(","), buckets: buckets(wide() - 190) }, signal);
        const found = view.id ? await run.ask<Found>("tuple", { id: view.id }, signal) : null;
        const jvms = [...new Set(shown.flatMap((i) => run.meta.lanes[i]!.jvms))].slice(0, 64);
        const pauses = jvms.length === 0 ? []
          : await run.ask<Pauses[]>("pauses", { ...about(run), jvms: jvms.join(",") }, signal);
        return { data, path: found?.tuples[0], pauses };
      },
      draw: (all, width) => all.map(({ run, data }) =>
        lanes(view, run, data.data, data.path, data.pauses, width)),
    },
    {
      id: "depth",
      title: "In between",
      lead: "How many tuples were between the two points of the span, at 240 moments: at least " +
        "the lower line, at most the upper one.",
      asks: ["span", "from", "to"],
      ask: (run, signal) => run.ask<Depths>("queue", spanOf(run), signal),
      draw: (all, width) => all.map(({ run, data }) => depth(view, run, data, width)),
    },
    {
      id: "spread",
      title: "By percentile and by instance",
      lead: "The durations of the tuples that began the span in the time that is shown. Bands " +
        "and shades are as wide as the values are uncertain.",
      asks: ["span", "from", "to"],
      ask: (run, signal) => run.ask<Spread>("spread", spanOf(run), signal),
      draw: (all, width) => {
        const full = all.length > 1 && columns() > 1 ? view.width : width;
        const curves = all.map(({ run, data }: { run: Run; data: Spread }) => {
          const known = view.whole() ? exact(run.meta, run.span(view.span)) : null;
          return { run, count: data.all.count, suspect: data.suspect > 0,
            percentiles: known ?? data.all.percentiles };
        });
        const grown = all.some(({ run, data }: { run: Run; data: Spread }) => !view.whole() &&
          (data.range.lo_cycles < about(run).from - 1 || data.range.hi_cycles > about(run).to + 1));
        return [
          html("div", { class: "across" },
            percentileCurve(view, curves, full),
            ...all.map(({ run }) => lackingNote(run, view.span)),
            grown
              ? html("p", { class: "means note" },
                  "The time was widened a little, to parts whose counts are kept.")
              : null),
          ...all.map(({ run, data }) => instances(view, run, data, width)),
        ];
      },
    },
  ];
}

/** pausesNote says how much of a span's time lay in pauses. Null: that is not known. */
function pausesNote(run: Run, name: string): HTMLElement | null {
  const text = run.meta.spans[run.span(name)]?.pauses;
  return text ? html("p", { class: "means note" }, pausesSentence(text)) : null;
}

/** Missing is the error if a run does not have what was asked for. */
class Missing extends Error {}

function heading(view: View): HTMLElement {
  return html("header", { class: "heading runs" },
    ...view.runs.map((run) => {
      const { meta } = run, format = run.format(view.unit);
      const wrong = (meta.findings ?? []).filter((f) => f.kind !== "note");
      return html("div", {},
        html("p", { class: "product" }, "Cloudprofiler run"),
        html("h1", {}, meta.run),
        meta.note ? html("p", { class: "about" }, meta.note) : null,
        html("p", { class: "when" },
          `${whole(meta.tuples)} tuples, ${whole(meta.events)} events, over about ` +
            `${moment(format, meta.length_cycles, meta.length_cycles)}. All values are intervals ` +
            `in cycles of ${meta.reference.node}`,
          meta.seconds ? `; ${meta.seconds}. ` : ". ",
          meta.report_absent
            ? `There is no report: ${meta.report_absent}`
            : html("a", { href: `runs/${run.number}/report` }, "The whole report")),
        meta.partial
          ? html("details", { class: "banner suspect" },
              html("summary", {}, wrong.length === 0
                ? "Parts of this run are suspect, missing or undecided: the report names them."
                : `Parts of this run are suspect, missing or undecided. ${wrong[0]!.text}`),
              html("ul", {}, ...wrong.slice(1, 40).map((f) => html("li", {}, f.text))))
          : null);
    }));
}

function toolbar(view: View): { element: HTMLElement; draw: () => void } {
  const spans = [...new Set(view.runs.flatMap((r) => {
    const rank = (name: string) => {
      const at = r.meta.order.indexOf(r.meta.points.findIndex((p) => p.name === name));
      return at < 0 ? 99 : at;
    };
    return [...r.meta.spans].sort((a, b) =>
      Number(b.kind.startsWith("end")) - Number(a.kind.startsWith("end")) ||
      rank(a.from) - rank(b.from) || rank(a.to) - rank(b.to)).map(spanName);
  }))];
  const select = html("select", {
    "data-key": "span", "aria-label": "Span",
    change: (e: Event) => view.set({
      span: (e.target as HTMLSelectElement).value,
      list: view.list?.lane ? view.list : null,
    }),
  }, ...spans.map((s) => html("option", { value: s }, s))) as HTMLSelectElement;
  const shown = html("output", { class: "shown number" });
  const button = (text: string, label: string, act: () => void) =>
    html("button", { class: "button", "aria-label": label, title: label, click: act }, text);
  const id = html("input", {
    type: "search", name: "id", placeholder: "tuple id", "aria-label": "Find a tuple by its id",
    inputmode: "numeric", autocomplete: "off", spellcheck: "false",
  }) as HTMLInputElement;
  const said = html("span", { class: "search-wrong", role: "alert" });
  const search = html("form", { class: "search", role: "search", novalidate: true,
    submit: (e: Event) => {
      e.preventDefault();
      const { number, wrong } = idOf(id.value);
      id.setCustomValidity(wrong);
      said.textContent = wrong;
      if (wrong) id.focus();
      if (!wrong || !id.value.trim()) view.set({ id: number });
    },
  }, id, html("button", { class: "button", type: "submit" }, "Find"), said);
  id.addEventListener("input", () => {
    id.setCustomValidity("");
    said.textContent = "";
  });
  const draw = () => {
    select.value = view.span;
    if (document.activeElement !== id) id.value = view.id;
    const format = view.runs[0]!.format(view.unit), wide = view.to - view.from;
    shown.replaceChildren(view.whole()
      ? `the whole run, ${moment(format, wide, wide)}`
      : `${moment(format, view.from, wide)} to ${moment(format, view.to, wide)}`);
  };
  const element = html("div", { class: "tools" },
    html("label", { class: "choose" }, "Span ", select),
    html("div", { class: "move", role: "group", "aria-label": "The time that is shown" },
      button("←", "earlier", () => view.moved(-0.5)),
      button("−", "zoom out", () => view.scaled(2)),
      button("+", "zoom in", () => view.scaled(0.5)),
      button("→", "later", () => view.moved(0.5)),
      button("whole run", "show the whole run", () => view.zoom(0, view.length)),
      shown),
    search);
  return { element, draw };
}

function columnWidth(main: Element): number {
  const style = getComputedStyle(main);
  return Math.max(280,
    Math.floor(main.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight)));
}

function start(metas: Meta[]): void {
  const runs = metas.map((m, i) => new Run(i, m, metas[0]));
  document.title = `${runs.map((r) => r.meta.run).join(" and ")} – Cloudprofiler`;
  const view = new View(runs);
  const base: Choices = { ...view };
  Object.assign(view, fromHash(location.hash, base));
  const main = html("main", { id: "main", class: "explore" });
  const tools = toolbar(view);
  const head = html("div", {});
  const all = parts(view);
  const top = html("div", { class: "top" },
    html("nav", { "aria-label": "Parts of the page" },
      ...all.map((p) => html("button", {
        click: () => document.getElementById(p.id)?.scrollIntoView({ behavior: "smooth" }),
      }, p.title))),
    html("div", { class: "controls" },
      unitChoice(view.unit, (unit) => view.set({ unit }),
        runs[0]!.format("seconds").unit === "seconds" ? "" : "the frequency is not known"),
      themeChoice()),
    tools.element);
  document.body.replaceChildren(
    html("a", { class: "skip", href: "#main" }, "Skip to the run"), top, main,
    html("div", { class: "definitions" }, picture(0, 0, "patterns", hatch())));
  main.append(head);
  view.width = columnWidth(main);

  const sections = all.map((part) => {
    const content = html("div", { class: "content" });
    main.append(html("section", { id: part.id, "aria-labelledby": `${part.id}-title` },
      html("h2", { id: `${part.id}-title` }, part.title),
      part.lead ? html("p", { class: "lead" }, part.lead) : null,
      part.id === "latency" ? heatLegend() : null,
      content));
    let answers: { run: Run; data: any }[] = [], failures: { run: Run; why: string }[] = [];
    let asked = new AbortController();
    const draw = () => {
      const columns = runs.length > 1 && view.width >= 1000 ? 2 : 1;
      const width = Math.floor((view.width - (columns - 1) * 28) / columns);
      const named = (run: Run, e: HTMLElement) => runs.length > 1 && !e.classList.contains("across")
        ? html("div", { class: "of-run" }, html("h3", {}, run.meta.run), e) : e;
      const drawn = answers.length > 0 ? part.draw(answers, width) : [];
      const shift = drawn.length - answers.length; // elements for all runs together come first
      replace(content, html("div", { class: columns > 1 ? "beside" : "" },
        ...drawn.map((e, i) => i < shift ? e : named(answers[i - shift]!.run, e)),
        ...failures.map((f) => named(f.run, absent([f.why])))));
    };
    const ask = async () => {
      asked.abort();
      const mine = (asked = new AbortController());
      content.setAttribute("aria-busy", "true");
      const found = await Promise.all(runs.map(async (run) => {
        try {
          return { run, data: await part.ask(run, mine.signal) };
        } catch (error) {
          const why = error instanceof Missing || !(error instanceof TypeError)
            ? String((error as Error).message)
            : "The server does not answer: is cprof serve still running?";
          return { run, why };
        }
      }));
      if (mine.signal.aborted) return;
      answers = found.flatMap((f) => ("data" in f ? [{ run: f.run, data: f.data }] : []));
      failures = found.flatMap((f) => ("why" in f && f.why ? [{ run: f.run, why: f.why }] : []));
      content.removeAttribute("aria-busy");
      draw();
      document.documentElement.dataset["drawn"] = String(performance.now());
    };
    return { part, ask, draw };
  });

  let pending = 0;
  let kept = toHash(view, base);
  view.onChange((changed) => {
    tools.draw();
    if (changed.has("unit")) replace(head, heading(view));
    for (const { part, ask, draw } of sections) {
      if (changed.has("width") || part.asks.some((key) => changed.has(key))) void ask();
      else if (changed.has("unit")) draw();
    }
    clearTimeout(pending); // many steps of a zoom are one entry in the browser's history
    pending = window.setTimeout(() => {
      const hash = toHash(view, base);
      if (hash !== kept) history.pushState(null, "", hash ? `#${hash}` : location.pathname);
      kept = hash;
    }, 250);
  });
  addEventListener("popstate", () => {
    kept = location.hash.replace(/^#/, "");
    view.set(fromHash(location.hash, base));
  });
  replace(head, heading(view));
  tools.draw();
  for (const s of sections) void s.ask();
  let sized = 0;
  new ResizeObserver(() => {
    cancelAnimationFrame(sized);
    sized = requestAnimationFrame(() => view.set({ width: columnWidth(main) }));
  }).observe(main);
}

fetch("runs")
  .then((r) => answer<Meta[]>(r))
  .then(start)
  .catch((error) => document.body.replaceChildren(
    html("main", {}, html("h1", {}, "This run cannot be shown"), html("p", {}, String(error)))));
