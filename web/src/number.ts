// Values and their bounds as text. Rounding goes outward: what is printed as value ± bound holds the interval that it is of.

import type { Reference, Verdict } from "./data.ts";

export type Unit = "seconds" | "cycles";
export interface Interval { lo: number; hi: number }

export function interval(x: { lo_cycles: number; hi_cycles: number }): Interval {
  return { lo: x.lo_cycles, hi: x.hi_cycles };
}

/** inSeconds widens an interval of cycles by what is not known of the frequency. */
export function inSeconds(x: Interval, reference: Pick<Reference, "lo_hz" | "hi_hz">): Interval {
  return {
    lo: x.lo / (x.lo >= 0 ? reference.hi_hz : reference.lo_hz),
    hi: x.hi / (x.hi >= 0 ? reference.lo_hz : reference.hi_hz),
  };
}

const prefixes: [number, string][] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];

/** group puts thin spaces between thousands. */
export function group(digits: string): string {
  const [whole = "", part] = digits.split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+(?!\d))/g, "\u2009");
  return part === undefined ? grouped : `${grouped}.${part.length > 3 ? part.replace(/(\d{3})(?=\d)/g, "$1\u2009") : part}`;
}

const minus = (text: string) => text.replace(/^-(?=[\d\u2009.]*[1-9])/, "−").replace(/^-/, "");

/** plusMinus prints an interval with a bound of two digits. */
function plusMinus(lo: number, hi: number, whole: boolean): { value: string; bound: string; decimals: number; need: number } {
  const half = (hi - lo) / 2;
  let decimals = 0;
  if (!whole) {
    decimals = half > 0 ? Math.min(9, Math.max(0, 1 - Math.floor(Math.log10(half)))) : 3;
  }
  const step = 10 ** -decimals;
  const value = (lo + (hi - lo) / 2).toFixed(decimals);
  // What rounding the value took from one side is added to the bound.
  const need = Math.max(hi - Number(value), Number(value) - lo);
  const bound = (Math.ceil(need / step - 1e-9) * step).toFixed(decimals);
  return { value: minus(group(value)), bound: group(bound), decimals, need };
}

/** Shown is the parts of a value in text; the bound has a unit of its own where it is much smaller than the value. */
export interface Shown { value: string; unit: string; bound: string; boundUnit: string }

/** A Format turns intervals of reference cycles into text, in the unit that was chosen. */
export class Format {
  constructor(readonly unit: Unit, readonly reference: Pick<Reference, "lo_hz" | "hi_hz">) {
    if (!(reference.lo_hz > 0)) this.unit = "cycles";
  }

  /** draw turns cycles into what axes count: seconds or cycles. */
  draw(cycles: number): number {
    return this.unit === "cycles" ? cycles : cycles / ((this.reference.lo_hz + this.reference.hi_hz) / 2);
  }

  parts(x: Interval): Shown {
    if (this.unit === "cycles") return { ...plusMinus(x.lo, x.hi, true), unit: "", boundUnit: "cycles" };
    const s = inSeconds(x, this.reference);
    const size = Math.max(Math.abs(s.lo), Math.abs(s.hi));
    const [factor, unit] = prefixes.find(([f]) => size >= f) ?? prefixes[prefixes.length - 1]!;
    const shown = plusMinus(s.lo / factor, s.hi / factor, false);
    if (shown.decimals <= 3) return { ...shown, unit: "", boundUnit: unit };
    const need = shown.need * factor;
    const [small, smallUnit] = prefixes.find(([f]) => need >= f) ?? prefixes[prefixes.length - 1]!;
    return { value: shown.value, unit, bound: up(need / small, 2), boundUnit: smallUnit };
  }

  /** text is "40.02 ± 0.64 µs", and says so where it is an estimate. */
  text(x: Interval, verdict: Verdict = "consistent"): string {
    const { value, unit, bound, boundUnit } = this.parts(x);
    return `${value}${unit && ` ${unit}`} ± ${bound} ${boundUnit}${verdict === "suspect" ? " est." : ""}`;
  }

  /** bound is a half-width alone: "± 0.64 µs", rounded up. */
  bound(cycles: number, verdict: Verdict = "consistent"): string {
    const { bound, unit } = this.halfWidth(cycles);
    return `± ${bound} ${unit}${verdict === "suspect" ? " est." : ""}`;
  }

  /** most is a distance that is not exceeded. */
  most(cycles: number): string {
    const { bound, unit } = this.halfWidth(cycles);
    return `≤ ${bound} ${unit}`;
  }

  private halfWidth(cycles: number): { bound: string; unit: string } {
    if (this.unit === "cycles") return { bound: group(Math.ceil(cycles).toFixed(0)), unit: "cycles" };
    const s = cycles / this.reference.lo_hz;
    const [factor, unit] = prefixes.find(([f]) => s >= f) ?? prefixes[prefixes.length - 1]!;
    return { bound: up(s / factor, 3), unit };
  }

  /** tick is a value on an axis, without more digits than it needs. */
  tick(drawn: number): string {
    if (this.unit === "cycles") return compact(drawn);
    if (drawn === 0) return "0";
    const [factor, unit] = prefixes.find(([f]) => Math.abs(drawn) >= f * 0.9999) ?? prefixes[prefixes.length - 1]!;
    return `${minus(Number((drawn / factor).toPrecision(4)).toString())} ${unit}`;
  }
}

/** up rounds to so many significant digits, never down. */
function up(x: number, digits: number): string {
  if (x <= 0) return "0";
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(x)));
  const step = 10 ** -decimals;
  return (Math.ceil(x / step - 1e-9) * step).toFixed(decimals);
}

/** compact is a count or a rate in three or four digits: 10.4 M. */
export function compact(x: number): string {
  for (const [factor, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]] as const) {
    if (Math.abs(x) >= factor * 0.99995) return `${Number((x / factor).toPrecision(4))} ${unit}`;
  }
  return minus(String(Number(x.toPrecision(4))));
}

/** whole is a count to the last digit. */
export function whole(x: number | string): string {
  return minus(group(String(x)));
}

/** utc prints an instant to the millisecond, and how far it may be off. */
export function utc(x: { lo_ns: string; hi_ns: string }): string | null {
  const lo = BigInt(x.lo_ns), hi = BigInt(x.hi_ns);
  if (lo === 0n && hi === 0n) return null;
  const middle = lo + (hi - lo) / 2n;
  const half_ms = Number(hi - lo + 1n) / 2e6;
  const text = new Date(Number((middle + 500_000n) / 1_000_000n)).toISOString().replace("T", " ").replace("Z", "");
  return `${text} UTC ± ${up(half_ms + 0.5, 2)} ms`;
}
