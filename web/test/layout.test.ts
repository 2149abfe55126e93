import assert from "node:assert/strict";
import { test } from "node:test";
import { edgeKey, layers, place } from "../src/layout.ts";

const edges = (...pairs: string[]) =>
  pairs.map((p) => ({ from: p.split(">")[0]!, to: p.split(">")[1]! }));

test("a layer is the longest path from a source", () => {
  const got = layers(
    ["sink", "a", "b", "source"],
    edges("source>a", "a>b", "b>sink", "source>sink")
  );
  assert.deepEqual(Object.fromEntries(got), { source: 0, a: 1, b: 2, sink: 3 });
});

test("a circle of edges ends", () => {
  const got = layers(["a", "b", "c"], edges("a>b", "b>c", "c>a", "b>b"));
  assert.deepEqual(Object.fromEntries(got), { a: 0, b: 1, c: 2 });
});

test("edges to unknown actors change nothing", () => {
  assert.deepEqual(Object.fromEntries(layers(["a"], edges("a>ghost", "ghost>a"))), { a: 0 });
});

test("neighbours stand beside each other", () => {
  const { places: got } = place(["s1", "s2", "x2", "x1"], edges("s1>x1", "s2>x2"));
  assert.equal(got.get("x1")!.slot, got.get("s1")!.slot);
  assert.equal(got.get("x2")!.slot, got.get("s2")!.slot);
  assert.equal(got.get("x1")!.slots, 2);
});

test("each unconnected part has a strip of its own, and a chain in it is straight", () => {
  const { places: got } = place(["a", "w", "b", "v", "c"], edges("a>b", "b>c", "w>v"));
  assert.deepEqual(["a", "b", "c"].map((n) => got.get(n)!.slot), [0, 0, 0]);
  assert.deepEqual(["w", "v"].map((n) => got.get(n)!.slot), [1, 1]);
  const { places: fork } = place(["a", "b", "c", "d", "x"], edges("a>b", "a>c", "b>d", "c>d"));
  assert.equal(fork.get("a")!.slot, 0.5);
  assert.equal(fork.get("x")!.slot, 2);
});

test("an edge that leads past a layer has a place there of its own", () => {
  const { places, ways } = place(["a", "past 3", "b", "c"],
    edges("a>past 3", "past 3>b", "b>c", "a>c", "a>c", "c>a"));
  const way = ways.get(edgeKey({ from: "a", to: "c" }))!;
  assert.deepEqual(way.map((p) => p.layer), [1, 2]);
  for (const [i, name] of ["past 3", "b"].entries()) {
    assert.equal(places.get(name)!.slots, 2);
    assert.notEqual(places.get(name)!.slot, way[i]!.slot);
  }
  assert.deepEqual([...places.keys()], ["a", "past 3", "b", "c"]);
  assert.deepEqual(ways.get(edgeKey({ from: "b", to: "c" })), []);
  assert.deepEqual(ways.get(edgeKey({ from: "c", to: "a" })), []);
});
