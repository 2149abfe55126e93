// What the reader chose, and what to redraw when that changes.

import type { Data, Span } from "./data.ts";
import { Format, type Unit } from "./number.ts";
import type { Find } from "./requests.ts";

/**
 * first returns the span that the page shows first. This is the whole path, unless most buckets
 * have no values of the whole path, as in a job that emits a window once a second.
 */
function first(data: Data): Span | undefined {
  const dense = (s: Span) =>
    (s.over[0]?.lo_cycles ?? []).filter((v) => v !== null).length * 2 > data.timeline.buckets;
  const order = (["end_to_end", "transfer", "computation"] as const).flatMap((kind) =>
    data.spans.filter((s) => s.kind === kind)
  );
  return order.find(dense) ?? order[0];
}

type Pair = { a: string; b: string };

/** samePair reports whether two pairs have the same nodes, in any order. */
export function samePair(x: Pair, y: Pair): boolean {
  return (x.a === y.a && x.b === y.b) || (x.a === y.b && x.b === y.a);
}

export class State {
  unit: Unit;
  log = true;
  span = ""; // id, for latency over time
  pair = 0; // index in data.pairs
  tuple = 0; // index in data.tuples
  request = 0; // index in those of data.inferred.traces that `find` finds
  find: Find = { program: "", longer: "", message: "" };
  from = 0; // charts over time show the buckets from `from` to before `to`
  to: number;
  width = 1080; // of the page's column, CSS pixels

  private listeners: (() => void)[] = [];

  constructor(readonly data: Data) {
    this.unit = data.reference.lo_hz > 0 ? "seconds" : "cycles";
    this.to = data.timeline.buckets;
    this.span = first(data)?.id ?? "";
    // The pair that the page shows first is the one for which the most methods have values.
    const said = (c: Data["comparisons"][number]) =>
      c.methods.filter((m) => m.bound_cycles.some((v) => v !== null)).length;
    const most = data.comparisons.reduce<Data["comparisons"][number] | undefined>(
      (best, c) => (best && said(best) >= said(c) ? best : c),
      undefined
    );
    this.pair = Math.max(
      0,
      data.pairs.findIndex((p) => most && samePair(p, most))
    );
  }

  /** onlyMessages reports whether messages were captured, but no program logged tuples. */
  get onlyMessages(): boolean {
    const { messages, actors, throughput } = this.data;
    return messages.services.length > 0 && actors.length + throughput.length === 0;
  }

  get format(): Format {
    return new Format(this.unit, this.data.reference);
  }

  chosen(): Span | undefined {
    return this.data.spans.find((s) => s.id === this.span);
  }

  onChange(listener: () => void): void {
    this.listeners.push(listener);
  }

  set(
    change: Partial<
      Pick<State, "unit" | "log" | "span" | "pair" | "tuple" | "request" | "find" | "from" | "to" |
        "width">
    >
  ): void {
    Object.assign(this, change);
    for (const listener of this.listeners) listener();
  }

  /** absent returns the reasons why a part is absent. The list is empty if the part is there. */
  absent(part: string): string[] {
    return this.data.absent.filter((a) => a.part === part).map((a) => a.reason);
  }
}
