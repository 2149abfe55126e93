import assert from "node:assert/strict";
import { test } from "node:test";
import { compact, Format, group, inPicoseconds, utc } from "../src/number.ts";
import shown from "../../analysis/testdata/seconds.json";

const exact = { lo_hz: 1e9, hi_hz: 1e9 }; // a cycle is a nanosecond

/** read parses what was printed into the interval that it claims, in seconds or cycles. */
function read(text: string): [number, number] {
  const units: Record<string, number> = { s: 1, ms: 1e-3, "µs": 1e-6, ns: 1e-9, cycles: 1 };
  const found = text
    .replaceAll("\u2009", "")
    .replace(" est.", "")
    .match(/^(−?[\d.]+)(?: (\S+))? ± ([\d.]+) (\S+)$/);
  assert.ok(found, `"${text}" has no value and bound`);
  const value = Number(found[1]!.replace("−", "-")) * units[found[2] ?? found[4]!]!;
  const bound = Number(found[3]) * units[found[4]!]!;
  return [value - bound, value + bound];
}

/** seed is the seed of random draws. A failing test prints it; CLOUDPROFILER_SEED sets it. */
export const seed = Number(process.env.CLOUDPROFILER_SEED ?? Math.floor(Math.random() * 2 ** 31));
function draws(state: number): () => number {
  return () => { // mulberry32
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

test("values and bounds read well", () => {
  const format = new Format("seconds", exact);
  for (const [lo, hi, want] of [
    [39_390, 40_650, "40.02 ± 0.63 µs"],
    [1_265_430, 1_265_534, "1.265\u2009482 ms ± 52 ns"],
    [100, 100, "100.000 ± 0.000 ns"],
    [-500, 900, "200 ± 700 ns"],
    [-900, 500, "−200 ± 700 ns"],
    [-700, 700, "0 ± 700 ns"],
  ] as const) assert.equal(format.text({ lo, hi }), want);
  assert.equal(format.text({ lo: 39_390, hi: 40_650 }, "suspect"), "40.02 ± 0.63 µs est.");
  assert.equal(
    new Format("cycles", exact).text({ lo: 102_265, hi: 105_539 }),
    "103\u2009902 ± 1\u2009637 cycles"
  );
  assert.equal(format.bound(631), "± 631 ns");
  assert.equal(format.bound(6931.2), "± 6.94 µs");
});

test("a printed value contains its interval", () => {
  const random = draws(seed);
  for (let i = 0; i < 20_000; i++) {
    const middle = (random() < 0.1 ? -1 : 1) * Math.floor(10 ** (random() * 12));
    const half = Math.floor(10 ** (random() * 9));
    const x = { lo: middle - half, hi: middle + half + Math.floor(random() * 2) };
    const reference = {
      lo_hz: 2.6e9 * (1 - random() * 1e-6), hi_hz: 2.6e9 * (1 + random() * 1e-6),
    };
    for (const unit of ["seconds", "cycles"] as const) {
      const text = new Format(unit, reference).text(x);
      const [lo, hi] = read(text);
      const ps = inPicoseconds(x, reference);
      const want = unit === "cycles" ? x : { lo: Number(ps.lo) / 1e12, hi: Number(ps.hi) / 1e12 };
      // The rounding of this test's own arithmetic.
      const slack = Math.max(Math.abs(want.lo), Math.abs(want.hi)) * 4e-16;
      assert.ok(
        lo <= want.lo + slack && hi >= want.hi - slack,
        `CLOUDPROFILER_SEED=${seed}: "${text}" does not hold [${want.lo}, ${want.hi}]`
      );
    }
  }
});

test("seconds are as unsure as the frequency", () => {
  assert.deepEqual(inPicoseconds({ lo: -100, hi: 300 }, { lo_hz: 50, hi_hz: 100 }), {
    lo: -2_000_000_000_000n,
    hi: 6_000_000_000_000n,
  });
});

/** plain is a text as a terminal shows it. */
const plain = (text: string) => text.replaceAll("\u2009", "").replace("−", "-");

test("seconds have the digits that cprof analyze prints", () => {
  for (const s of shown) {
    const format = new Format("seconds", s);
    assert.equal(
      plain(format.text({ lo: s.lo_cycles, hi: s.hi_cycles })),
      s.seconds,
      JSON.stringify(s)
    );
    if (s.bound) assert.equal(plain(format.bound(s.hi_cycles)), `± ${s.bound}`, JSON.stringify(s));
  }
});

test("cycles have the digits that cprof analyze prints", () => {
  for (const [lo, hi, want] of [
    [1, 2, "1 ± 1 cycles"],
    [-2, -1, "−2 ± 1 cycles"],
    [-1, 1, "0 ± 1 cycles"],
    [2330, 2890, "2\u2009610 ± 280 cycles"],
  ] as const)
    assert.equal(new Format("cycles", exact).text({ lo, hi }), want);
});

test("without a frequency there are cycles", () => {
  assert.equal(
    new Format("seconds", { lo_hz: 0, hi_hz: 0 }).text({ lo: 1, hi: 3 }),
    "2 ± 1 cycles"
  );
});

test("counts", () => {
  assert.equal(group("10412667"), "10\u2009412\u2009667");
  assert.equal(compact(10_412_667), "10.41 M");
  assert.equal(compact(999_999), "1 M");
  assert.equal(compact(0), "0");
});

test("an instant is printed with its uncertainty", () => {
  assert.equal(utc({ lo_ns: "0", hi_ns: "0" }), null);
  assert.equal(
    utc({ lo_ns: "1795186800000120000", hi_ns: "1795186800004120000" }),
    "2026-11-20 15:00:00.002 UTC ± 2.6 ms"
  );
});
