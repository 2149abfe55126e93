// What clicks, keys and drags do to the page.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { open, text } from "./open.ts";

test("the heading leads to what is missing, and the first tiles name their path", () =>
  open("sample", async (page) => {
    assert.match(
      await text(page, ".banner"),
      /One part of the run is missing or incomplete, and 3 things cannot be decided\./
    );
    await page.locator(".banner a").first().focus();
    await page.keyboard.press("Enter");
    await page.waitForURL(/#missing$/);
    await page.waitForFunction(() => {
      const { top } = document.querySelector("#missing")!.getBoundingClientRect();
      return (
        top >= document.querySelector(".top")!.getBoundingClientRect().bottom && top < innerHeight
      );
    });
    assert.match(await text(page, ".tiles"), /source\/send → sink\/recv/);
  }));

test("the keyboard reaches everything clickable, in order and visibly", async () => {
  for (const width of [1366, 600]) {
    await open("sample", async (page) => {
      const stops = await page.evaluate(() => document.querySelectorAll("main *, .top *").length);
      const seen: string[] = [];
      for (let i = 0; i < stops; i++) {
        await page.keyboard.press("Tab");
        const stop = await page.evaluate(() => {
          const e = document.activeElement as HTMLElement;
          if (e === document.body) return null;
          const marked = [e, e.nextElementSibling, e.querySelector(".target")].some((x) => {
            if (!x) return false;
            const style = getComputedStyle(x);
            return (
              (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1) ||
              (x.matches(".target") && style.stroke !== "none")
            );
          });
          const box = e.getBoundingClientRect();
          const bar = document.querySelector(".top")!;
          const sticky =
            getComputedStyle(bar).position === "sticky" &&
            !bar.contains(e) &&
            !e.matches(".skip");
          const last = (window as any).last as Element | undefined;
          (window as any).last = e;
          e.setAttribute("data-reached", "");
          // An element that is taller than the window counts as visible if it fills the window.
          const hidden =
            box.bottom <= (sticky ? bar.getBoundingClientRect().bottom : 0) ||
            box.top >= innerHeight;
          const key = e.getAttribute("data-key") ?? e.textContent?.trim().slice(0, 30);
          return {
            name: `${e.tagName} ${key}`,
            marked,
            hidden,
            back: last
              ? !(last.compareDocumentPosition(e) & Node.DOCUMENT_POSITION_FOLLOWING)
              : false,
          };
        });
        if (!stop) break;
        assert.deepEqual(
          { ...stop, name: "" },
          { name: "", marked: true, hidden: false, back: false },
          `${stop.name} at ${width}, after ${seen.at(-1)}`
        );
        seen.push(stop.name);
      }
      // With the key Tab, a reader reaches only one of a group of radio buttons, and only one cell
      // of the matrix. The arrow keys lead from there to the others, so those are not counted as
      // unreachable.
      const left = await page.evaluate(() =>
        ((window as any).clickable as Element[])
          .filter(
            (e) =>
              e.isConnected && !e.matches("[data-reached], input[type=radio], .cell, .chart.time *")
          )
          .map((e) => e.outerHTML.slice(0, 100))
      );
      assert.deepEqual(left, [], "clicked and not reached");
      assert.ok(seen.length > 30, `only ${seen.length} stops`);
      const groups = await page.evaluate(() =>
        [
          ...new Set(
            [...document.querySelectorAll<HTMLInputElement>("input[type=radio]")].map((e) => e.name)
          ),
        ].filter((n) => !document.querySelector(`input[name="${n}"][data-reached]`))
      );
      assert.deepEqual(groups, []);
      assert.equal(await page.locator(".cell[data-reached]").count(), 1);
    }, { width, watch: true });
  }
});

test("a span chosen in the table is shown over time", () => open("sample", async (page) => {
  const label = () => page.locator("#latency svg[role=img]").getAttribute("aria-label");
  assert.equal(await label(), "Latency of end to end over time");
  await page.locator("#spans button.pick", { hasText: "parse → enrich" }).click();
  assert.equal(await label(), "Latency of parse → enrich over time");
  assert.equal(await page.locator("#spans tr.chosen").count(), 1);
  assert.match(await page.locator("#spans tr.chosen").innerText(), /parse → enrich/);
  await page.locator("#latency select").selectOption({ index: 0 });
  assert.equal(await label(), "Latency of parse over time");
}));

test("an arrow is chosen by keyboard and keeps the focus", () => open("sample", async (page) => {
  const edge = page.locator("#graph [aria-label^='source → parse']");
  await edge.focus();
  await page.keyboard.press("Enter");
  assert.equal(
    await page.locator("#latency svg[role=img]").getAttribute("aria-label"),
    "Latency of source → parse over time"
  );
  assert.equal(await edge.getAttribute("aria-pressed"), "true");
  assert.ok(await edge.evaluate((e) => e === document.activeElement));
}));

test("cycles and seconds", () => open("sample", async (page) => {
  await page.getByText("cycles", { exact: true }).click();
  assert.match(await text(page, ".tiles"), /48\d\u2009\d{3} ± \d+ cycles/);
  assert.doesNotMatch(await text(page, "#spans"), /µs/);
  await page.getByText("seconds", { exact: true }).click();
  assert.match(await text(page, "#spans"), /µs/);
}));

test("a linear axis begins at zero", () => open("sample", async (page) => {
  const ticks = () => page.locator("#bounds .axis").first().locator("text").allTextContents();
  assert.ok(!(await ticks()).includes("0"));
  await page.getByText("linear", { exact: true }).click();
  assert.ok((await ticks()).includes("0"));
}));

test("values over time are read and zoomed by keyboard", () => open("sample", async (page) => {
  const chart = page.locator("[data-key=time-latency]");
  await chart.focus();
  await page.keyboard.press("Home");
  const readout = page.locator("#latency output");
  assert.match(await readout.innerText(), /^0\.25 s\s*median \d+\.\d+ ± .* µs\s*99 % .*slowest/s);
  const first = await readout.innerText();
  await page.keyboard.press("ArrowRight");
  assert.notEqual(await readout.innerText(), first);
  await page.keyboard.press("+");
  assert.ok(await chart.evaluate((e) => e === document.activeElement), "the focus was lost");
  assert.match(await readout.innerText(), /A part of the run/);
  for (const part of ["throughput", "bounds"])
    assert.match(await page.locator(`#${part} output`).innerText(), /A part of the run/);
  await page.keyboard.press("0");
  assert.match(await readout.innerText(), /Arrow keys/);
}));

test("dragging shows a part of the run", () => open("sample", async (page) => {
  const chart = page.locator("#throughput svg[role=img]");
  await chart.scrollIntoViewIfNeeded();
  const box = (await chart.boundingBox())!;
  await page.mouse.move(box.x + 300, box.y + 80);
  await page.mouse.down();
  await page.mouse.move(box.x + 420, box.y + 90, { steps: 5 });
  await page.mouse.up();
  assert.match(await page.locator("#latency output").innerText(), /A part of the run/);
  await chart.dblclick({ position: { x: 300, y: 80 } });
  assert.match(await page.locator("#latency output").innerText(), /Arrow keys/);
}));

test("a tuple's whole path", () => open("sample", async (page) => {
  const second = page.locator("#tuples button.tuple").nth(1);
  const id = await second.locator(".tuple-id").innerText();
  await second.click();
  assert.equal(await page.locator("#tuples figcaption code").innerText(), id);
  assert.equal(await page.locator("#tuples figure .bar").count(), 7);
  assert.equal(await page.locator("#tuples figure .error").count(), 14);
  assert.match(await page.locator("#tuples figure svg").textContent() ?? "", /order undecided/);
  assert.ok(await second.evaluate((e) => e === document.activeElement), "the focus was lost");
  await page.locator("#tuples button.tuple").first().click();
  assert.doesNotMatch(
    (await page.locator("#tuples figure svg").textContent()) ?? "",
    /order undecided/
  );
}));

test("pairs are chosen with the arrow keys", () => open("sample", async (page) => {
  await page.locator("[data-key=cell-0-1]").focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  assert.match(await text(page, ".pair-detail h3"), /core-1 and core-2/);
  assert.match(await text(page, ".pair-detail"), /the rate moved/);
  assert.match(await text(page, "#bounds"), /no tuple's acknowledgement crosses this pair/);
}));

test("dark and light", async () => {
  const background = (page: Page) =>
    page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await open("sample", async (page) => {
    assert.equal(await background(page), "rgb(20, 24, 27)");
    await page.getByText("light", { exact: true }).click();
    assert.equal(await background(page), "rgb(251, 251, 249)");
  }, { dark: true });
  await open("sample", async (page) => {
    await page.getByText("dark", { exact: true }).click();
    assert.equal(await background(page), "rgb(20, 24, 27)");
  });
});
