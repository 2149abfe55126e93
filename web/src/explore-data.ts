// The types of the answers of cprof serve. The same types are in explore/meta.go and
// explore/answers.go; a Go test compares the names of the fields.

import type { Interval, Pause, Tuple, Verdict } from "./data.ts";

export interface Moment extends Interval {}

export interface Percentile extends Interval { percent: number }

export interface Completeness { kept: string; why?: string[] }

export interface Meta {
  version: number;
  run: string;
  note: string;
  reference: {
    node: string;
    frequency_lo_hz?: number;
    frequency_hi_hz?: number;
    frequency_source?: string;
    chosen: boolean;
  };
  seconds: string;
  partial: boolean;
  complete: boolean;
  tuples: number;
  events: number;
  start_cycles: string;
  length_cycles: number;
  points: Point[];
  order: number[];
  channels: Channel[];
  lanes: Lane[];
  spans: Span[];
  jvms: Jvm[];
  pause_kinds: string[];
  findings: { kind: string; text: string }[] | null;
  report_absent: string;
}

export interface Point {
  name: string;
  sink: boolean;
  lost: number;
  filtered: number;
  in_flight: number;
  undecided: string;
  perhaps_ended: number;
}

export interface Channel { lane: number; point: number; ended: number }

export interface Lane {
  node: string;
  actor: string;
  instance: string;
  count: number;
  ended: number;
  jvms: number[];
}

export interface Jvm { name: string; node: string; count: number; absent: number }

export interface Pauses { jvm: number; rows: Pause[]; whole: boolean }

export interface Span {
  from: string;
  to: string;
  kind: string;
  count: number;
  unplaced: number;
  withheld: number;
  percentiles: Percentile[] | null;
  completeness: Completeness;
  never: number;
  pauses: string;
}

export interface Row {
  id: string;
  at: Moment;
  duration: Interval;
  suspect?: boolean;
  instant?: boolean;
  ended?: string;
  lane: number;
}

export interface Sum {
  from_cycles: number;
  to_cycles: number;
  unsure_cycles: number;
  count: number;
  ended?: number;
  suspect?: number;
}

export interface LaneRows { lane: number; rows?: Row[]; sums?: Sum[] }

export interface Latency extends Sum { percentiles: Percentile[]; heat: [number, number][] }

export interface Band { band: number; lo_cycles: number; hi_cycles: number }

export interface Latencies { buckets: Latency[]; bands: Band[] }

export interface Shape {
  lane: number;
  count: number;
  percentiles: Percentile[];
  heat: [number, number][];
  bands: Band[];
}

export interface Spread {
  range: Moment;
  all: Shape;
  instances: Shape[];
  left: number;
  suspect: number;
}

export interface Listed { rows: Row[]; whole: boolean }

export interface Depth { at_cycles: number; lo: number; hi: number }

export interface Depths { moments: Depth[]; suspect: number }

export interface Passed { point: string; lane: number; at: Moment; verdict: Verdict }

export interface Path extends Tuple { at: Moment; events: Passed[] }

export interface Found { tuples: Path[]; more: boolean }
