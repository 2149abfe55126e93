// The page on which a reader replays a run: it reads its data, draws the time lines, and lets the
// reader choose what comes next.

import { choice, themeChoice } from "./controls.ts";
import { html, replace } from "./dom.ts";
import { group } from "./number.ts";
import { board, legend, type Scale } from "./replay-board.ts";
import { Replay, type ReplayData } from "./replaying.ts";

const data = JSON.parse(document.getElementById("data")!.textContent!) as ReplayData;
if (data.version !== 1) throw new Error(`data of version ${data.version}: this page reads 1`);
document.title = `${data.title} – replay`;

const replay = new Replay(data);
let scale: Scale = "order", focus = -1, said = "";

const main = html("main", { class: "replay" });
const stage = html("div", { class: "stage" });
const boardPlace = html("div", { class: "board" }), side = html("div", { class: "side" });
const bar = html("div", { class: "top" });

const button = (text: string, key: string, title: string, click: () => void, off = false) =>
  html("button",
    { class: "button", type: "button", title, disabled: off, click, "data-key": text },
    text, key && html("kbd", { "aria-hidden": "true" }, key));

/** say sets the text about what happened last. The page shows it, and screen readers read it aloud.
 * */
function say(text: string): void { said = text; }

function take(event: number): void {
  if (replay.take(event)) say("");
  draw();
}

function step(): void {
  const front = replay.front();
  if (front.length === 1) replay.take(front[0]!);
  if (front.length > 1) say(`Choose one of ${front.length}: press its number, or click on it.`);
  else say(front.length ? "" : "All events have been replayed.");
  draw();
  if (front.length > 1) side.querySelector(".card")?.classList.add("flash");
}

/** run replays events as long as only one event may come next. */
function run(): void {
  let count = 0;
  for (let front = replay.front(); front.length === 1; front = replay.front(), count++)
    replay.take(front[0]!);
  const left = replay.front().length;
  say(count === 0 ? "" : `${count} forced ${count === 1 ? "event" : "events"}. ` +
    (left ? `Now any of ${left} may come next.` : "That was the end."));
  draw();
}

/** recorded replays the next event of the recorded order. */
function recorded(): void {
  const [first] = replay.front();
  if (first !== undefined) replay.take(first);
  say("");
  draw();
}

function undo(): void {
  say(replay.undo() ? "" : "This is the beginning.");
  draw();
}

function restart(): void { replay.back(0); say(""); draw(); }

function showFound(): void {
  if (!data.found) return;
  replay.back(0);
  replay.follow(data.found);
  say("");
  draw();
}

async function copyLink(): Promise<void> {
  try {
    await navigator.clipboard.writeText(location.href);
    say("The link is copied.");
  } catch {
    say("The link is in the address bar.");
  }
  draw();
}

addEventListener("keydown", (e: KeyboardEvent) => {
  const typing = e.target instanceof HTMLInputElement && e.target.type !== "radio";
  if (e.ctrlKey || e.metaKey || e.altKey || typing) return;
  const keys: Record<string, () => void> = {
    ArrowRight: () => (e.shiftKey ? run() : step()), ArrowLeft: undo, Backspace: undo, u: undo,
    r: () => { replay.redo(); draw(); }, Home: restart, End: run, n: run, o: recorded,
    t: () => { scale = scale === "time" ? "order" : "time"; draw(); },
    Escape: () => { focus = -1; draw(); }, f: showFound,
  };
  const digit = /^[1-9]$/.test(e.key) ? replay.front()[Number(e.key) - 1] : undefined;
  const act = digit !== undefined ? () => take(digit) : keys[e.key];
  if (!act) return;
  e.preventDefault();
  act();
});
addEventListener("hashchange", () => {
  if (location.hash.slice(1) !== replay.link()) { replay.open(location.hash); draw(); }
});
addEventListener("resize", () => draw());

const seconds = (cycles: number): string => {
  if (!data.timed) return "";
  if (!data.hz) return `${group(String(cycles))} cycles`;
  const ns = (cycles / data.hz) * 1e9;
  if (ns === 0) return "0";
  if (ns < 1e3) return `${ns.toPrecision(3)} ns`;
  if (ns < 1e6) return `${(ns / 1e3).toPrecision(4)} µs`;
  return ns < 1e9 ? `${(ns / 1e6).toFixed(4)} ms` : `${(ns / 1e9).toFixed(6)} s`;
};

/** outward prints a bound with three digits. It rounds up, so that the printed bound is still true.
 * */
const outward = (cycles: number): string => {
  const ns = data.hz ? (cycles / data.hz) * 1e9 : 0;
  const digit = 10 ** (Math.floor(Math.log10(ns)) - 2);
  return seconds(ns > 0 ? Math.ceil(ns / digit - 1e-9) * digit * data.hz / 1e9 : cycles);
};

const name = (event: number): string => {
  const [, channel, id] = data.events[event]!;
  return `${data.channels[channel]} ${id}`;
};

/** named returns the name of an event as an element, in which the id is never broken into two
 * lines. */
const named = (event: number): HTMLElement => {
  const [, channel, id] = data.events[event]!;
  return html("span", {}, `${data.channels[channel]} `, html("span", { class: "id" }, id));
};

const about = (event: number): string => {
  const [node, , , lo, hi] = data.events[event]!;
  if (!data.timed) return data.nodes[node]!;
  return `${data.nodes[node]} · ${seconds((lo + hi) / 2)} ± ${seconds((hi - lo) / 2)}`;
};

function heading(): HTMLElement {
  const s = data.summary;
  const count = (text: string, what: string) => html("span", {}, html("b", {}, group(text)), what);
  const notes = data.notes ?? [];
  return html("div", { class: "heading" },
    html("p", { class: "product" }, "Cloudprofiler · replay"),
    html("h1", {}, data.title),
    html("p", { class: "counts" },
      count(String(data.events.length), data.more ? " events, the first of more" : " events"),
      count(String(data.nodes.length), data.nodes.length === 1 ? " node" : " nodes"),
      html("span", {}, data.orders),
      s && count(s.free, s.free === "1" ? " free pair in the run" : " free pairs in the run"),
      s && html("span", {}, "every time within ± ", html("b", {}, outward(Number(s.bound_cycles))))
    ),
    notes.length > 0 && html("div", { class: "banner suspect", role: "note" },
      html("b", {}, "Not all of this is proven. "), notes.join("; "))
  );
}

function nextCard(): HTMLElement {
  const front = replay.front();
  const lead = front.length > 1
    ? `Free: any of these ${front.length} could have come next. Choose with a number or a click.`
    : front.length === 1
      ? "Forced: causality or time allow only this one."
      : "All events have been replayed.";
  return html("section", { class: "card" },
    html("h2", {}, front.length > 1 ? "What could come next" : "What comes next"),
    html("p", { "aria-live": "polite" }, said || lead),
    html("ol", { class: front.length === 1 ? "next only" : "next" },
      ...front.slice(0, 40).map((event, i) => html("li", {},
        html("button",
          { type: "button", click: () => take(event), "data-key": `next-${event}` },
          html("span", { class: "digit" }, i < 9 ? String(i + 1) : "·"),
          html("span", {}, named(event), html("small", {}, about(event)))))))
  );
}

function questionCard(): HTMLElement | false {
  if (!data.question) return false;
  const found = data.found;
  const at = replay.taken.length;
  const onIt = found && replay.taken.every((e, i) => found[i] === e) && at <= found.length;
  const now = onIt && at > 0 ? data.values![at - 1]! : null;
  const past = onIt && at > 1 ? data.values![at - 2]! : null;
  const holds = Boolean(onIt && found && at === found.length);
  return html("section", { class: holds ? "card holds" : "card" },
    html("h2", {}, "The condition"),
    html("p", { class: "question" }, data.question),
    html("p", { class: "verdict" }, !found
      ? "No order was found in which it holds."
      : holds
        ? `It holds, after ${found.length} events.`
        : `It holds after ${found.length} events in the shortest order.`),
    found && now && html("dl", { class: "states" },
      ...data.states!.flatMap((s, i) => [
        html("dt", {}, s),
        html("dd", { class: past && past[i] !== now[i] ? "changed" : null }, now[i]!),
      ])),
    found && !holds && html("p", {},
      button("Show that order", "f", "Replay the shortest order in which it holds", showFound))
  );
}

function pastCard(): HTMLElement {
  const shown = replay.taken.map((event, at) => ({ event, at })).slice(-200).reverse();
  return html("section", { class: "card" },
    html("h2", {}, "What has happened"),
    html("p", {}, shown.length
      ? `${group(String(replay.taken.length))} of ${group(String(data.events.length))} events. ` +
        "Click on one to go back there."
      : "Nothing yet. Press the right arrow."),
    html("ol", { class: "past" }, ...shown.map(({ event, at }) =>
      html("li", { class: at > replay.taken.length - 200 && replay.moved(at) ? "moved" : null },
        html("button",
          { type: "button", click: () => { replay.back(at + 1); say(""); draw(); } },
          html("span", { class: "digit" }, String(at + 1)),
          html("span", {}, named(event), html("small", {}, about(event)))))))
  );
}

function draw(): void {
  const front = replay.front();
  replace(bar,
    html("div", { class: "move" },
      button("Start", "Home", "Back to the beginning", restart, replay.taken.length === 0),
      button("Undo", "←", "Take back the last event", undo, replay.taken.length === 0),
      button("Step", "→", "Take what is forced", step, front.length === 0),
      button("To the next choice", "n", "Take all that is forced", run, front.length !== 1),
      button("As recorded", "o", "Take what the run had next", recorded, front.length === 0)),
    html("div", { class: "controls" },
      button("Copy link", "", "Copy a link to this place of the replay", () => void copyLink()),
      data.timed && choice("Scale",
        [["order", "order", scale === "order"], ["time", "time", scale === "time"]],
        (v) => { scale = v as Scale; draw(); }),
      theme)
  );
  replace(boardPlace,
    board(replay, {
      scale, focus, width: stage.clientWidth, hz: data.hz, take, seconds, name, about,
      choose: (node) => { focus = focus === node ? -1 : node; draw(); },
    }),
    legend(scale));
  replace(side, nextCard(), questionCard() || null, pastCard(), html("p", { class: "keys said" },
    "→ step · ← undo · 1–9 choose · n to the next choice · o as recorded · t time or order · " +
    "Home start · Esc all nodes"));
  history.replaceState(null, "", `#${replay.link()}`);
}

const theme = themeChoice();
if (!(location.hash && replay.open(location.hash)) && data.found) {
  replay.back(0);
  replay.follow(data.found);
}
stage.append(boardPlace, side);
main.append(heading(), stage);
document.body.append(bar, main);
draw();
