// Keeps the state of a replay: which events have happened, and which may come next. Other files
// draw it.

/** The data in the page. They are made from the Go type page.Data in replay/page, which has the
 * same fields. */
export interface ReplayData {
  version: number;
  title: string;
  hz: number; // of the reference; 0: not known
  timed: boolean;
  nodes: string[];
  channels: string[];
  events: [number, number, string, number, number][]; // node, channel, id, low end, high end
  need: [number, number][][];
  messages: [number, number][];
  more: boolean;
  summary: Summary | null;
  orders: string;
  notes: string[] | null;
  question: string;
  found: number[] | null;
  states: string[] | null;
  values: string[][] | null;
}

interface Summary {
  events: string;
  messages: string;
  free: string;
  broken: string;
  bound_cycles: string;
}

/** Replay is the beginning of an order: the events that the reader has replayed so far. */
export class Replay {
  readonly data: ReplayData;
  readonly lanes: number[][]; // the events of each node
  readonly place: number[]; // of each event in its lane
  readonly need: number[][]; // of each event: how many events of each node are before it
  readonly taken: number[] = []; // the events that were replayed, in order
  readonly done: number[]; // of each node: how many of its events were replayed
  private redoable: number[] = [];

  constructor(data: ReplayData) {
    this.data = data;
    this.lanes = data.nodes.map(() => []);
    this.done = data.nodes.map(() => 0);
    const last: number[][] = data.nodes.map(() => data.nodes.map(() => 0));
    this.place = [];
    this.need = data.events.map(([node], i) => {
      const lane = this.lanes[node]!;
      const need = last[node]!.slice();
      for (const [other, count] of data.need[i]!) need[other] = count;
      need[node] = lane.length;
      this.place.push(lane.length);
      lane.push(i);
      last[node] = need;
      return need;
    });
  }

  node(event: number): number { return this.data.events[event]![0]; }

  /** before reports whether one event is before another in every order. */
  before(a: number, b: number): boolean {
    return this.need[b]![this.node(a)]! > this.place[a]!;
  }

  /** front returns the events that may come next, in the order of the run. */
  front(): number[] {
    const front: number[] = [];
    this.lanes.forEach((lane, node) => {
      const event = lane[this.done[node]!];
      if (event !== undefined && this.need[event]!.every((n, other) => n <= this.done[other]!))
        front.push(event);
    });
    return front.sort((a, b) => a - b);
  }

  /** take replays an event. It returns false if the event cannot come next. */
  take(event: number): boolean {
    if (!this.front().includes(event)) return false;
    if (this.redoable[this.redoable.length - 1] === event) this.redoable.pop();
    else this.redoable = [];
    this.done[this.node(event)]!++;
    this.taken.push(event);
    return true;
  }

  undo(): boolean {
    const event = this.taken.pop();
    if (event === undefined) return false;
    this.done[this.node(event)]!--;
    this.redoable.push(event);
    return true;
  }

  redo(): boolean {
    const event = this.redoable[this.redoable.length - 1];
    return event !== undefined && this.take(event);
  }

  /** back undoes events until `length` events are left. */
  back(length: number): void {
    while (this.taken.length > length) this.undo();
  }

  /** follow replays the events of an order, up to the first one that cannot come next. */
  follow(order: number[]): void {
    for (const event of order) if (!this.take(event)) return;
  }

  /** moved reports whether the event at a place of the replay comes earlier than in the run: before
   * an event that preceded it there. */
  moved(at: number): boolean {
    const event = this.taken[at]!;
    for (let i = 0; i < this.lanes.length; i++) {
      const lane = this.lanes[i]!;
      // Count the events of the lane that were replayed before this event. lane[count] is then the
      // first that was not.
      let count = 0;
      for (let k = 0; k < at; k++) if (this.node(this.taken[k]!) === i) count++;
      if (i !== this.node(event) && count < lane.length && lane[count]! < event) return true;
    }
    return false;
  }

  /**
   * The permalink contains the number of replayed events, and each choice that differs from the
   * run's order: its place in the order, and the event that was chosen there.
   */
  link(): string {
    const choices: string[] = [];
    const probe = new Replay(this.data);
    this.taken.forEach((event, at) => {
      const [first] = probe.front();
      if (first !== event) choices.push(`${at}.${event}`);
      probe.take(event);
    });
    return `n=${this.taken.length}${choices.length ? `&c=${choices.join("_")}` : ""}`;
  }

  /** open goes to where a permalink points, as far as that is possible. */
  open(link: string): boolean {
    const parameters = new URLSearchParams(link.replace(/^#/, ""));
    const length = Number(parameters.get("n") ?? NaN);
    if (!Number.isInteger(length) || length < 0) return false;
    const chosen = new Map<number, number>();
    for (const choice of (parameters.get("c") ?? "").split("_")) {
      const [at, event] = choice.split(".").map(Number);
      if (Number.isInteger(at) && Number.isInteger(event)) chosen.set(at!, event!);
    }
    this.back(0);
    while (this.taken.length < length) {
      const wanted = chosen.get(this.taken.length);
      const next = wanted ?? this.front()[0];
      if (next === undefined || !this.take(next)) return false;
    }
    return true;
  }
}
