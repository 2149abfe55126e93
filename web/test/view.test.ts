import assert from "node:assert/strict";
import { test } from "node:test";
import type { Meta } from "../src/explore-data.ts";
import { nines } from "../src/spread.ts";
import { fate, perhapsEnded } from "../src/lanes.ts";
import { fromHash, idOf, Run, spanName, toHash, View, type Choices } from "../src/view.ts";

function meta(over: Partial<Meta> = {}): Meta {
  const span = (from: string, to: string, kind: string, count: number) => ({
    from, to, kind, count, unplaced: 0, withheld: 0, percentiles: null, never: 0, pauses: "",
    completeness: { kept: "all" },
  });
  return {
    version: 1, run: "r", note: "", seconds: "", partial: false, complete: true, tuples: 10,
    events: 20, start_cycles: "5", length_cycles: 1_000_000, points: [], order: [], channels: [],
    reference: { node: "A", chosen: true, frequency_lo_hz: 1e9, frequency_hi_hz: 1e9 },
    lanes: [], jvms: [], pause_kinds: [], findings: null, report_absent: "",
    spans: [span("a/x", "b/x", "transfer", 90), span("a/x", "c/x", "end-to-end", 40),
      span("a/x", "d/x", "end-to-end", 50)],
    ...over,
  };
}

const fresh = () => new View([new Run(0, meta())]);

test("an id is a number from 0 to 2⁶⁴ − 1, and anything else gets a sentence", () => {
  for (const [typed, number] of [
    ["17", "17"], ["0x11", "17"], ["017", "17"], ["0", "0"], ["-0", "0"], ["+5", "5"],
    ["1,000 000", "1000000"],
    ["18446744073709551615", "18446744073709551615"], ["0xffffffffffffffff", `${2n ** 64n - 1n}`],
  ])
    assert.deepEqual(idOf(typed!), { number, wrong: "" });
  for (const [typed, why] of [
    ["", /: give one\.$/], ["  ", /: give one\.$/], ["twelve", /twelve is not a number\.$/],
    ["1.5", /not a number/], ["0xfg", /not a number/], ["-1", /-1 is negative\.$/],
    ["18446744073709551616", /is too large\.$/], ["0x10000000000000000", /too large/],
    ["9".repeat(99), /9…\s?is too large/],
  ] as const) {
    const { number, wrong } = idOf(typed);
    assert.match(wrong, /^Ids are numbers from 0 to 2⁶⁴ − 1, as 17 or 0x11: /);
    assert.match(wrong, why);
    assert.equal(number, "");
    assert.equal(fromHash(new URLSearchParams({ id: typed }).toString(), { ...fresh() }).id, "");
  }
});

test("a lane names what became of the tuples that ended in it, and of no others", () => {
  const point = (lost: number, filtered: number, in_flight: number, undecided = "") => ({
    name: "p", sink: false, lost, filtered, in_flight, undecided, perhaps_ended: lost * 7,
  });
  for (const [want, ...points] of [
    ["filtered", [3, point(0, 9, 0)], [0, point(0, 0, 1)]],
    ["filtered or in flight", [3, point(0, 9, 1)]],
    ["filtered or lost", [3, point(0, 9, 0)], [1, point(1, 0, 0)]],
    ["ended", [3, point(2, 0, 0, "some events lost")]],
  ] as [string, ...[number, ReturnType<typeof point>][]][]) {
    const run = new Run(0, meta({
      points: points.map(([, p]) => p),
      channels: points.map(([ended], i) => ({ lane: 0, point: i, ended })),
    }));
    assert.equal(fate(run, 0), want);
    const lost = points.map(([, p]) => p.perhaps_ended).filter((n) => n > 0);
    assert.equal(perhapsEnded(run, [1]), "");
    assert.match(perhapsEnded(run, [0]), lost.length === 0 ? /^$/
      : new RegExp(`together: up to ${lost[0]} at p\\. Others have the same ids`));
  }
});

test("an address brings back what was shown", () => {
  const base: Choices = { ...fresh() };
  for (const change of [
    {},
    { span: "a/x → b/x, transfer" },
    { from: 5, to: 77 },
    { id: "18446744073709551615", unit: "cycles" as const },
    { list: { from: 1, to: 2 } },
    { list: { from: 1, to: 2, lo: -5, hi: 9 }, from: 0, to: 10 },
    { list: { from: 1, to: 2, lane: "worker#1 on B" }, lanes: 24 },
  ]) {
    const shown = { ...fresh(), ...change };
    const hash = toHash(shown, base), again = fromHash(`#${hash}`, base);
    for (const key of ["span", "from", "to", "id", "unit", "list", "lanes"] as const)
      assert.deepEqual(again[key], shown[key], `${key} of ${hash}`);
  }
  assert.equal(toHash(base, base), "");
});

test("a wrong address shows what the page first shows", () => {
  const base: Choices = { ...fresh() };
  for (const hash of ["from=9&to=3", "from=x&to=NaN", "id=<b>", "unit=years", "lanes=-4",
    "list=1,2", "list=5,1,,", "%%%"]) {
    const again = fromHash(`#${hash}`, base);
    for (const key of ["from", "to", "id", "unit", "list", "lanes"] as const)
      assert.deepEqual(again[key], base[key], `${key} of ${hash}`);
  }
});

test("the first span is the whole path with the most tuples", () => {
  assert.equal(fresh().span, "a/x → d/x, end-to-end");
  assert.equal(new Run(0, meta()).span("a/x → b/x, transfer"), 0);
  assert.equal(spanName(meta().spans[1]!), "a/x → c/x, end-to-end");
});

test("zooming and moving stay within the run", () => {
  const view = fresh();
  assert.ok(view.whole());
  view.scaled(0.5);
  assert.deepEqual([view.from, view.to], [250_000, 750_000]);
  view.scaled(0.5, 0);
  assert.deepEqual([view.from, view.to], [250_000, 500_000]);
  view.moved(-3);
  assert.deepEqual([view.from, view.to], [0, 250_000]);
  view.moved(100);
  assert.deepEqual([view.from, view.to], [750_000, 1_000_000]);
  for (let i = 0; i < 50; i++) view.scaled(0.5, 0.9);
  assert.ok(view.to - view.from >= 40 && view.to - view.from < 100);
  for (let i = 0; i < 50; i++) view.scaled(3, 0.1);
  assert.ok(view.whole());
});

test("a second run is shown in the seconds of the first", () => {
  const slow = meta({ reference: { node: "B", chosen: true, frequency_lo_hz: 5e8,
    frequency_hi_hz: 5e8 }, length_cycles: 900_000 });
  const view = new View([new Run(0, meta()), new Run(1, slow, meta())]);
  assert.equal(view.runs[1]!.scale, 0.5);
  assert.equal(view.length, 1_800_000);
});

test("each nine of a percentile has the same room", () => {
  const n = 1e6;
  assert.ok(Math.abs(nines(99, n) - nines(90, n) - (nines(99.9, n) - nines(99, n))) < 1e-9);
  assert.equal(nines(100, n), 6);
  assert.equal(nines(99.99999999, 100), 2);
});
