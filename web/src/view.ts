// Keeps what the page of cprof serve shows: the runs, and the reader's choices, which the page also
// writes into its address.

import type { Lane, Meta, Span } from "./explore-data.ts";
import { Format, type Unit } from "./number.ts";

/** Run is one of the runs that are served. The page draws all runs on the time axis of the first
 * run, so a Run also says how to convert its time. */
export class Run {
  constructor(readonly number: number, readonly meta: Meta, first?: Meta) {
    const hz = (m: Meta) =>
      ((m.reference.frequency_lo_hz ?? 0) + (m.reference.frequency_hi_hz ?? 0)) / 2;
    this.scale = first && hz(first) > 0 && hz(meta) > 0 ? hz(meta) / hz(first) : 1;
  }

  /** scale is the number of cycles of this run that last as long as one cycle of the first run. */
  readonly scale: number;

  format(unit: Unit): Format {
    const { frequency_lo_hz: lo_hz = 0, frequency_hi_hz: hi_hz = 0 } = this.meta.reference;
    return new Format(unit, { lo_hz, hi_hz });
  }

  /** span returns the number of the span with a name; −1 if the run has no such span. */
  span(name: string): number { return this.meta.spans.findIndex((s) => spanName(s) === name); }

  /** order returns the numbers of the lanes, in the order in which tuples pass the lanes. */
  order(): number[] {
    const { order, channels, lanes } = this.meta;
    const rank = lanes.map((_, i) => {
      const places = channels.flatMap((c) => (c.lane === i ? [order.indexOf(c.point)] : []));
      return Math.min(...places.map((p) => (p < 0 ? order.length : p)));
    });
    const name = (l: Lane) => `${l.node} ${l.instance.padStart(12)}`;
    return lanes.map((_, i) => i).sort((a, b) =>
      rank[a]! - rank[b]! || (name(lanes[a]!) < name(lanes[b]!) ? -1 : 1));
  }

  /** ask sends a question to the server. The caller aborts it with a signal, if nobody needs the
   * answer any more. */
  async ask<T>(
    what: string,
    about: Record<string, string | number>,
    signal: AbortSignal
  ): Promise<T> {
    const query = new URLSearchParams(
      Object.entries(about).map(([k, v]) => [k, typeof v === "number" ? String(Math.round(v)) : v])
    );
    return answer<T>(await fetch(`runs/${this.number}/${what}?${query}`, { signal }));
  }
}

export async function answer<T>(response: Response): Promise<T> {
  const found = await response.json() as T & { error?: string };
  if (!response.ok) throw new Error(found.error ?? `the server answers ${response.status}`);
  return found;
}

export function spanName(s: Span): string { return `${s.from} → ${s.to}, ${s.kind}`; }

/** List says which tuples are listed: the slowest ones of a stretch of time, or those that ended in
 * a lane. */
export interface List {
  from: number; // cycles of the first run
  to: number;
  lo?: number; // durations, in cycles of the run
  hi?: number;
  lane?: string; // node and instance: tuples that ended there
}

export interface Choices {
  unit: Unit;
  span: string;
  from: number; // the time shown: cycles of the first run, counted from each run's beginning
  to: number;
  id: string; // of the tuple that the page shows
  list: List | null; // null: the longest tuples of the time shown
  lanes: number; // the number of the first lane that is shown
}

export class View implements Choices {
  unit: Unit = "seconds";
  span = "";
  from = 0;
  to = 1;
  id = "";
  list: List | null = null;
  lanes = 0;
  width = 1200;
  readonly length: number; // of the longest run

  private listeners: ((changed: Set<string>) => void)[] = [];

  constructor(readonly runs: Run[]) {
    this.length = Math.max(1, ...runs.map((r) => r.meta.length_cycles / r.scale));
    this.to = this.length;
    this.unit = runs[0]!.format("seconds").unit;
    this.span = firstSpan(runs[0]!.meta);
  }

  onChange(listener: (changed: Set<string>) => void): void { this.listeners.push(listener); }

  set(change: Partial<Choices & { width: number }>): void {
    const now = this as unknown as Record<string, unknown>;
    const changed = new Set(
      Object.entries(change).flatMap(([k, v]) => (now[k] === v ? [] : [k]))
    );
    if (changed.size === 0) return;
    Object.assign(this, change);
    for (const listener of this.listeners) listener(changed);
  }

  /** zoom shows a part of the run. A part that is shorter than a few cycles is widened, and one
   * that is longer than the run is cut. */
  zoom(from: number, to: number): void {
    const least = 40, wide = Math.min(this.length, Math.max(least, to - from));
    const at = Math.max(0, Math.min(this.length - wide, (from + to - wide) / 2));
    this.set({ from: Math.round(at), to: Math.round(at + wide), list: null });
  }

  /** scaled zooms by a factor. The time at the place `around` stays where it is: 0 is the left end
   * of the picture, and 1 the right end. */
  scaled(factor: number, around = 0.5): void {
    const span = this.to - this.from, at = this.from + span * around;
    this.zoom(at - span * factor * around, at + span * factor * (1 - around));
  }

  moved(part: number): void {
    const wide = this.to - this.from;
    const at = Math.max(0, Math.min(this.length - wide, this.from + wide * part));
    this.zoom(at, at + wide);
  }

  whole(): boolean { return this.from <= 0 && this.to >= this.length; }
}

/**
 * firstSpan returns the span that the page shows first: of the end-to-end spans, the one with the
 * most tuples. If there are no end-to-end spans, it chooses among all spans.
 */
function firstSpan(meta: Meta): string {
  const spans = [...meta.spans].sort((a, b) => b.count - a.count);
  const first = spans.find((s) => s.kind.startsWith("end-to-end")) ?? spans[0];
  return first ? spanName(first) : "";
}

const ids = "Ids are numbers from 0 to 2⁶⁴ − 1, as 17 or 0x11";

/** idOf reads a tuple's id that the reader typed. If the text is no id, `wrong` is a sentence that
 * says why. */
export function idOf(typed: string): { number: string; wrong: string } {
  const text = typed.trim().replace(/[\s,_\u2009]/g, "");
  const shown = text.length > 40 ? `${text.slice(0, 40)}…` : text;
  const not = (why: string) => ({ number: "", wrong: `${ids}: ${why}.` });
  if (text === "") return not("give one");
  let id: bigint;
  try {
    id = BigInt(text.replace(/^[-+\u2212]/, ""));
  } catch {
    return not(`${shown} is not a number`);
  }
  if (/^[-\u2212]/.test(text) && id > 0n) return not(`${shown} is negative`);
  return id >> 64n > 0n ? not(`${shown} is too large`) : { number: id.toString(), wrong: "" };
}

/** toHash returns the part of the address that says how the view differs from the first view. */
export function toHash(view: Choices, base: Choices): string {
  const text = new URLSearchParams();
  if (view.span !== base.span) text.set("span", view.span);
  if (view.from !== base.from || view.to !== base.to) {
    text.set("from", String(view.from));
    text.set("to", String(view.to));
  }
  if (view.unit !== base.unit) text.set("unit", view.unit);
  if (view.lanes > 0) text.set("lanes", String(view.lanes));
  if (view.list) {
    text.set("list", [view.list.from, view.list.to, view.list.lo, view.list.hi].join(","));
    if (view.list.lane) text.set("ended", view.list.lane);
  }
  if (view.id) text.set("id", view.id);
  return text.toString();
}

/** fromHash reads the choices in an address. A choice that is absent or invalid is that of base. */
export function fromHash(hash: string, base: Choices): Choices {
  const text = new URLSearchParams(hash.replace(/^#/, ""));
  const number = (name: string, otherwise: number) => {
    const n = Number(text.get(name) ?? NaN);
    return Number.isFinite(n) ? n : otherwise;
  };
  const [from, to] = [number("from", base.from), number("to", base.to)];
  const id = text.get("id") ?? "";
  const parts = (text.get("list") ?? "").split(",").map((t) => (t === "" ? NaN : Number(t)));
  const list: List | null = parts.length === 4 && parts[0]! <= parts[1]!
    ? { from: parts[0]!, to: parts[1]! } : null;
  if (list && Number.isFinite(parts[2])) list.lo = parts[2]!;
  if (list && Number.isFinite(parts[3])) list.hi = parts[3]!;
  const ended = text.get("ended");
  if (list && ended) list.lane = ended;
  const unit = text.get("unit");
  return {
    span: text.get("span") ?? base.span,
    ...(from < to ? { from, to } : { from: base.from, to: base.to }),
    unit: unit === "cycles" || unit === "seconds" ? unit : base.unit,
    lanes: Math.max(0, Math.floor(number("lanes", 0))),
    id: idOf(id).number,
    list,
  };
}
