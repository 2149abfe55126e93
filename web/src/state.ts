// What the reader chose. One object, and a list of what to draw again when it changes.

import type { Data, Stretch } from "./data.ts";
import { Format, type Unit } from "./number.ts";

export class State {
  unit: Unit;
  log = true;
  stretch = ""; // id, for latency over time
  pair = 0; // of data.pairs
  tuple = 0; // of data.tuples
  from = 0; // buckets that charts over time show: from, and before to
  to: number;
  width = 1080; // of the page's column, CSS pixels

  private listeners: (() => void)[] = [];

  constructor(readonly data: Data) {
    this.unit = data.reference.lo_hz > 0 ? "seconds" : "cycles";
    this.to = data.timeline.buckets;
    const first = data.stretches.find((s) => s.kind === "end_to_end") ?? data.stretches[0];
    this.stretch = first?.id ?? "";
  }

  get format(): Format { return new Format(this.unit, this.data.reference); }

  chosen(): Stretch | undefined { return this.data.stretches.find((s) => s.id === this.stretch); }

  onChange(listener: () => void): void { this.listeners.push(listener); }

  set(change: Partial<Pick<State, "unit" | "log" | "stretch" | "pair" | "tuple" | "from" | "to" | "width">>): void {
    Object.assign(this, change);
    for (const listener of this.listeners) listener();
  }

  /** why is why a part is not there; null if it is. */
  absent(part: string): string[] { return this.data.absent.filter((a) => a.part === part).map((a) => a.reason); }
}
