import assert from "node:assert/strict";
import { test } from "node:test";
import { apart, besides, countScale, logTicks, valueScale } from "../src/axis.ts";
import { median } from "../src/overtime.ts";
import { pieces } from "../src/timechart.ts";

test("logarithmic ticks are round and few", () => {
  assert.deepEqual(logTicks(0.9, 11, 6), [1, 2, 5, 10]);
  assert.deepEqual(logTicks(3e-8, 4e-6, 2), [1e-7, 1e-6]);
  assert.ok(logTicks(1, 1e15, 4).length <= 4);
  // One tick alone would say nothing of the scale.
  assert.deepEqual(logTicks(1.2e-7, 6e-6, 2), [3e-7, 3e-6]);
});

test("a scale of one value is a scale", () => {
  for (const log of [true, false]) {
    const s = valueScale(5, 5, [0, 100], log);
    assert.ok(Number.isFinite(s(5)) && s(5) > 0 && s(5) < 100);
  }
});

test("a logarithmic scale puts values not above 0 at its end", () => {
  const s = valueScale(1, 100, [0, 100], true);
  assert.equal(s(-3), 0);
  assert.equal(s(10), 50);
});

test("labels keep their distance and their order", () => {
  const got = apart([50, 52, 51, 10], 15, 0, 100);
  assert.equal(got[3], 10);
  const order = [got[0]!, got[2]!, got[1]!];
  assert.ok(order[1]! - order[0]! >= 15 && order[2]! - order[1]! >= 15);
});

test("labels beside each other stay in the picture and do not cover each other", () => {
  const labels = [4, 30, 60, 97].map((middle) => ({ middle, width: 20 }));
  assert.deepEqual(besides(labels, 100, 7), [10, null, 60, 90]);
  assert.deepEqual(besides([], 100), []);
});

test("a line breaks where values are missing for long", () => {
  const c = [1, null, 2, null, null, null, null, null, 3];
  assert.deepEqual(
    pieces({ lo: c, hi: c }, 0, c.length).map((p) => p.map((x) => x.at)),
    [[0, 2], [8]]
  );
  assert.deepEqual(pieces({ lo: [], hi: [] }, 0, 3), []);
});

test("a median ignores missing values", () => {
  assert.equal(median([null, 3, 1, null, 2]), 2);
  assert.equal(median([null]), null);
});

test("an axis of counts has whole numbers only", () => {
  for (const most of [0, 1, 2, 3, 4, 7, 30, 99, 12345]) {
    const s = countScale(most, [100, 0], 4);
    assert.ok(s.ticks.every(Number.isInteger) && s.ticks.length >= 2, `${most}: ${s.ticks}`);
    assert.ok(s.lo === 0 && s.hi >= most && s(most) >= 0);
  }
});
