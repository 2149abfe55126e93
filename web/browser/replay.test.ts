// Replaying on the page, with keys, clicks and links.

import assert from "node:assert/strict";
import { test } from "node:test";
import { open, text } from "./open.ts";

const next = ".side .next button", past = ".side .past li";

test("steps through what is forced, and lets the reader choose what is free", () =>
  open("replay", async (page) => {
    assert.equal(await page.title(), "thesis – replay");
    // The page opens at the point of the order that was found where the condition holds.
    assert.match(await text(page, ".holds"), /It holds, after 3 events[^]*held\s+2/);
    assert.equal(await page.locator(past).count(), 3);
    await page.keyboard.press("Home");
    assert.equal(await page.locator(past).count(), 0);
    await page.keyboard.press("n"); // the first event is forced
    assert.equal(await page.locator(past).count(), 1);
    const free = await page.locator(next).count();
    assert.ok(free > 1);
    await page.keyboard.press("ArrowRight"); // nothing is forced: it only asks
    assert.equal(await page.locator(past).count(), 1);
    assert.match(await text(page, ".side .card"), /Choose one of/);
    const second = await page.locator(next).nth(1).locator(".id").innerText();
    await page.keyboard.press("2");
    assert.equal(await page.locator(past).count(), 2);
    assert.equal(await page.locator(past).first().locator(".id").innerText(), second);
    assert.equal(await page.locator("circle.event.moved").count(), 1);
    await page.keyboard.press("ArrowLeft");
    assert.equal(await page.locator(past).count(), 1);
    await page.locator(next).first().click();
    await page.keyboard.press("r"); // nothing to do again
    assert.equal(await page.locator(past).count(), 2);
  }));

test("reaches the end, and a link shows the same place", () =>
  open("replay", async (page) => {
    await page.keyboard.press("Home");
    for (let i = 0; i < 13; i++) await page.keyboard.press(i % 3 ? "1" : "2");
    while ((await page.locator(next).count()) > 0) await page.keyboard.press("1");
    const order = await page.locator(past).allInnerTexts(), link = page.url();
    assert.equal(order.length, 13);
    await page.keyboard.press("Home");
    await page.evaluate((hash) => { location.hash = hash; }, new URL(link).hash);
    await page.waitForFunction(() => document.querySelectorAll(".past li").length === 13);
    assert.deepEqual(await page.locator(past).allInnerTexts(), order);
  }));

test("obeys each key of docs/replay.md, and a click on an event", () =>
  open("replay", async (page) => {
    const taken = () => page.locator(past).count();
    const press = async (key: string) => { await page.keyboard.press(key); return taken(); };
    assert.equal(await press("Home"), 0);
    assert.equal(await press("ArrowRight"), 1);
    assert.equal(await press("o"), 2);
    assert.equal(await press("u"), 1);
    assert.equal(await press("Backspace"), 0);
    assert.equal(await press("r"), 1);
    assert.equal(await press("f"), 3);
    assert.equal(await press("Home"), 0);
    assert.equal(await press("End"), 1);
    const free = page.locator("circle.event.free");
    const ways = await free.count();
    assert.ok(ways > 1 && ways === (await page.locator(next).count()));
    const label = await page.locator(next).last().locator(".id").innerText();
    await page.locator("circle.hit").last().click(); // what may come next is drawn last
    assert.equal(await taken(), 2);
    assert.equal(await page.locator(past).first().locator(".id").innerText(), label);
  }));

test("shows time at round ticks, and a band as wide as each interval", () =>
  open("replay-timed", async (page) => {
    const bands = () => page.locator("rect.band").evaluateAll((all) =>
      all.map((band) => band.getAttribute("width")));
    const ofOrder = await bands();
    await page.keyboard.press("t");
    const ofTime = await bands();
    assert.notDeepEqual(ofTime, ofOrder);
    const ticks = await page.locator("text.tick").allTextContents();
    assert.ok(ticks.length > 2);
    for (const tick of ticks) assert.match(tick, /^(0|[1-9]0*(\.0+)? (ns|µs|ms|s))$/);
    assert.match(await text(page, ".counts"), /every time within ± 693 ns/); // rounded up
  }));

test("shows one node alone, and fits a narrow screen", () =>
  open("replay", async (page) => {
    await page.locator(".names button").first().click();
    assert.ok((await page.locator("circle.event").count()) > 3);
    assert.ok((await page.locator("g.dim").count()) > 3);
    await page.keyboard.press("Escape");
    assert.equal(await page.locator("g.dim").count(), 0);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 390, `the page is ${wide} pixels wide`);
  }, { width: 390, height: 800, dark: true }));

test("shows names as text, whatever is in them", () =>
  open("replay-hostile", async (page) => {
    assert.match(await text(page, "h1"), /<\/script><img/);
    assert.match(await text(page, ".banner"), /<script>alert\(1\)<\/script>/);
    assert.equal(await page.locator(".names button").first().innerText(), "<b>node</b>");
  }));
