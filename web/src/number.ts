// Prints values with their bounds. The bound is rounded up, so the printed range (value ± bound)
// contains the whole interval.

import type { Reference, Verdict } from "./data.ts";

export type Unit = "seconds" | "cycles";
export interface Interval { lo: number; hi: number }
type Frequency = Pick<Reference, "lo_hz" | "hi_hz">;

export function interval(x: { lo_cycles: number; hi_cycles: number }): Interval {
  return { lo: x.lo_cycles, hi: x.hi_cycles };
}

/** The units. The number is the power of ten by which one unit is longer than a picosecond. */
const units: [string, number][] = [["s", 12], ["ms", 9], ["µs", 6], ["ns", 3]];

/**
 * inPicoseconds converts an interval of cycles. It includes the uncertainty of the frequency, and
 * rounds outward, as analysis/seconds.go does, so the digits are those of cprof analyze.
 */
export function inPicoseconds(x: Interval, reference: Frequency): { lo: bigint; hi: bigint } {
  // The frequency is a whole number of mHz, but the page's data have it in Hz, as a rounded float.
  // Because of the rounding, floor and ceil could be off by one mHz. These factors prevent that.
  const lacks = 2 ** -51;
  const least = BigInt(Math.floor(reference.lo_hz * 1000 * (1 + lacks))) || 1n;
  const most = BigInt(Math.ceil(reference.hi_hz * 1000 * (1 - lacks))) || 1n;
  const lo = BigInt(Math.floor(x.lo)) * 10n ** 15n, hi = BigInt(Math.ceil(x.hi)) * 10n ** 15n;
  return { lo: floorDiv(lo, lo >= 0n ? most : least), hi: ceilDiv(hi, hi >= 0n ? least : most) };
}

const prefixes: [number, string][] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];

/** group puts thin spaces between thousands. */
export function group(digits: string): string {
  const [whole = "", part] = digits.split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+(?!\d))/g, "\u2009");
  return part === undefined
    ? grouped
    : `${grouped}.${part.length > 3 ? part.replace(/(\d{3})(?=\d)/g, "$1\u2009") : part}`;
}

const minus = (text: string) => text.replace(/^-(?=[\d\u2009.]*[1-9])/, "−").replace(/^-/, "");

/** floorDiv and ceilDiv divide by a positive number. */
function floorDiv(a: bigint, b: bigint): bigint {
  return a / b - (a < 0n && a % b !== 0n ? 1n : 0n);
}
function ceilDiv(a: bigint, b: bigint): bigint { return -floorDiv(-a, b); }

const abs = (n: bigint) => (n < 0n ? -n : n);
const digitsOf = (n: bigint) => abs(n).toString().length;
const smallest = units[units.length - 1]!;
const unitOf = (n: bigint) => units.find(([, power]) => digitsOf(n) > power) ?? smallest;
/**
 * cutOf returns how many of a number's last digits are not printed. It keeps the first `digits`
 * digits, and all digits before the decimal point.
 */
const cutOf = (n: bigint, digits: number, power: number) =>
  Math.min(Math.max(0, digitsOf(n) - digits), power);

/** decimal prints a whole number with a decimal point before its last `decimals` digits. */
function decimal(n: bigint, decimals: number): string {
  const digits = abs(n).toString().padStart(decimals + 1, "0"), sign = n < 0n ? "-" : "";
  if (decimals === 0) return minus(sign + group(digits));
  return minus(sign + group(`${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`));
}

/**
 * plusMinus prints an interval (from lo to hi) as a value and a bound with two digits. If the bound
 * is much smaller than the value, the bound has a unit of its own.
 */
function plusMinus(lo: bigint, hi: bigint): Shown {
  const [unit, power] = unitOf(abs(hi) > abs(lo) ? hi : lo);
  const cut = cutOf(ceilDiv(hi - lo, 2n), 2, power);
  const step = 10n ** BigInt(cut);
  const value = floorDiv(lo + hi + step, 2n * step);
  // The value was rounded, so it is nearer to one end of the interval. The bound must reach the
  // other end.
  const need = hi - value * step > value * step - lo ? hi - value * step : value * step - lo;
  if (power - cut > 3) {
    const bound = roundUp(need, 2);
    return { value: decimal(value, power - cut), unit, bound: bound.bound, boundUnit: bound.unit };
  }
  const bound = decimal(ceilDiv(need, step), power - cut);
  return { value: decimal(value, power - cut), unit: "", bound, boundUnit: unit };
}

/** roundUp prints a whole number, rounded up to the given number of digits. */
function roundUp(n: bigint, digits: number): { bound: string; unit: string } {
  if (n <= 0n) return { bound: "0", unit: smallest[0] };
  const before = 10n ** BigInt(cutOf(n, digits, unitOf(n)[1]));
  n = ceilDiv(n, before) * before; // rounding may reach the next unit
  const [unit, power] = unitOf(n);
  const cut = cutOf(n, digits, power);
  return { bound: decimal(floorDiv(n, 10n ** BigInt(cut)), power - cut), unit };
}

/**
 * Shown is a value as text, in parts. The bound has its own unit if it is much smaller than the
 * value.
 */
export interface Shown { value: string; unit: string; bound: string; boundUnit: string }

/** Format prints intervals of reference cycles in the chosen unit. */
export class Format {
  constructor(readonly unit: Unit, readonly reference: Frequency) {
    if (!(reference.lo_hz > 0)) this.unit = "cycles";
  }

  /** draw converts cycles to the unit in which charts are drawn: seconds or cycles. */
  draw(cycles: number): number {
    return this.unit === "cycles"
      ? cycles
      : cycles / ((this.reference.lo_hz + this.reference.hi_hz) / 2);
  }

  parts(x: Interval): Shown {
    if (this.unit === "seconds") {
      const { lo, hi } = inPicoseconds(x, this.reference);
      return plusMinus(lo, hi);
    }
    const lo = BigInt(Math.floor(x.lo)), hi = BigInt(Math.ceil(x.hi));
    const middle = lo + floorDiv(hi - lo, 2n), bound = decimal(hi - middle, 0);
    return { value: decimal(middle, 0), unit: "", bound, boundUnit: "cycles" };
  }

  /** text prints an interval, such as "40.02 ± 0.64 µs", with a mark if it is an estimate. */
  text(x: Interval, verdict: Verdict = "consistent"): string {
    const { value, unit, bound, boundUnit } = this.parts(x);
    const mark = verdict === "suspect" ? " est." : "";
    return `${value}${unit && ` ${unit}`} ± ${bound} ${boundUnit}${mark}`;
  }

  /** bound prints a half-width alone: "± 0.64 µs", rounded up. */
  bound(cycles: number, verdict: Verdict = "consistent"): string {
    const { bound, unit } = this.halfWidth(cycles);
    return `± ${bound} ${unit}${verdict === "suspect" ? " est." : ""}`;
  }

  /** most prints an upper limit. */
  most(cycles: number): string {
    const { bound, unit } = this.halfWidth(cycles);
    return `≤ ${bound} ${unit}`;
  }

  private halfWidth(cycles: number): { bound: string; unit: string } {
    if (this.unit === "cycles")
      return { bound: group(Math.ceil(cycles).toFixed(0)), unit: "cycles" };
    return roundUp(inPicoseconds({ lo: 0, hi: cycles }, this.reference).hi, 3);
  }

  /** tick prints a value on an axis, with only the digits that it needs. */
  tick(drawn: number): string {
    if (this.unit === "cycles") return compact(drawn);
    if (drawn === 0) return "0";
    const [factor, unit] =
      prefixes.find(([f]) => Math.abs(drawn) >= f * 0.9999) ?? prefixes[prefixes.length - 1]!;
    return `${minus(Number((drawn / factor).toPrecision(4)).toString())} ${unit}`;
  }
}

/** up rounds up to the given number of significant digits. */
function up(x: number, digits: number): string {
  if (x <= 0) return "0";
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(x)));
  const step = 10 ** -decimals;
  return (Math.ceil(x / step - 1e-9) * step).toFixed(decimals);
}

/** compact prints a count or a rate in at most four digits: 10.41 M. */
export function compact(x: number): string {
  for (const [factor, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]] as const) {
    if (Math.abs(x) >= factor * 0.99995) return `${Number((x / factor).toPrecision(4))} ${unit}`;
  }
  return minus(String(Number(x.toPrecision(4))));
}

/** whole prints a count with all its digits. */
export function whole(x: number | string): string {
  return minus(group(String(x)));
}

/** utc prints an instant to the millisecond, and how far the instant may be off. */
export function utc(x: { lo_ns: string; hi_ns: string }): string | null {
  const lo = BigInt(x.lo_ns), hi = BigInt(x.hi_ns);
  if (lo === 0n && hi === 0n) return null;
  const middle = lo + (hi - lo) / 2n;
  const half_ms = Number(hi - lo + 1n) / 2e6;
  const text = new Date(Number((middle + 500_000n) / 1_000_000n))
    .toISOString()
    .replace("T", " ")
    .replace("Z", "");
  return `${text} UTC ± ${up(half_ms + 0.5, 2)} ms`;
}
