// How fast the page opens and answers.

import assert from "node:assert/strict";
import { test } from "node:test";
import { open } from "./open.ts";

test("a large run opens at once and stays fluid", () => open("large", async (page) => {
  const opened = await page.evaluate(() => performance.now()); // since the navigation began
  assert.equal(await page.locator("main section").count(), 14);
  const took = async (act: string) => page.evaluate((selector) => {
    const begun = performance.now();
    document.querySelector<HTMLElement>(selector)!.click();
    document.body.getBoundingClientRect(); // lay it out
    return performance.now() - begun;
  }, act);
  const unit = await took("input[value=cycles]");
  const span = await took("#spans tbody tr:nth-child(9) button");
  const pair = await took("[data-key=cell-3-9]");
  // Read values and zoom many times, as a reader would in some minutes of use.
  const each = async (key: string, times: number) => page.evaluate(([key, times]) => {
    const chart = document.querySelector<HTMLElement>("[data-key=time-latency]")!;
    const begun = performance.now();
    chart.focus();
    for (let i = 0; i < times; i++) {
      document
        .querySelector<HTMLElement>("[data-key=time-latency]")!
        .dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
      document.body.getBoundingClientRect();
    }
    return (performance.now() - begun) / times;
  }, [key, times] as const);
  const move = await each("ArrowRight", 50), zoom = await each("+", 3);
  console.log(
    `# a value is read in ${move.toFixed(1)} ms, a part of the run drawn in ${zoom.toFixed(0)} ms`
  );
  assert.ok(move < 50, `a value took ${move} ms to be read`);
  assert.ok(zoom < 500, `a part of the run took ${zoom} ms to be drawn`);
  console.log(
    `# opened in ${opened.toFixed(0)} ms; drawn again for a unit ${unit.toFixed(0)} ms, ` +
      `a span ${span.toFixed(0)} ms, a pair ${pair.toFixed(0)} ms`
  );
  assert.ok(opened < 3000, `opened in ${opened} ms`);
  assert.ok(Math.max(unit, span, pair) < 1000, "slow to draw again");
}));
