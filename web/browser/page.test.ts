// What the page shows of a run: whole, partial, hostile, empty, and without tuples.

import assert from "node:assert/strict";
import { test } from "node:test";
import { open, text } from "./open.ts";

test("shows every part, and the answer first", () => open("sample", async (page) => {
  assert.equal(await page.title(), "tuesday-rate-110k – Cloudprofiler report");
  assert.equal(await page.locator("main section").count(), 14);
  assert.match(await text(page, ".tiles"), /end to end, median\s+186\.\d+ ± 0\.\d+ µs/);
  assert.match(await text(page, ".tiles"), /received before sent\s+0\s+as it must be/);
  for (const part of [
    "graph", "spans", "latency", "throughput", "bounds", "truth", "tuples", "messages",
    "requests", "nodes",
  ]) {
    assert.equal(await page.locator(`#${part} .absent`).count(), 0, `${part} is absent`);
  }
  assert.match(
    await text(page, "#undecided"),
    /overtook each other[^]*Missing from the run[^]*41 records were salvaged/
  );
  assert.match(
    await text(page, "#findings"),
    /received before sent of[^]*is suspect: its data need a wander of at least 1\.56 ppm/
  );
}));

test("shows how the intervals compare with the truth", () =>
  open("sample", async (page) => {
    assert.match(
      await text(page, ".tiles"),
      /checked against the truth\s+all true\s+[\d\u2009]+ durations/
    );
    assert.match(await text(page, "#truth .banner"), /All true[^]*used at most 30 % of the bound/);
    const rows = page.locator("#truth table").first().locator("tbody tr");
    assert.equal(await rows.count(), 13);
    assert.match(
      await rows.first().innerText(),
      /none[^]*off by ≤ \d+(\.\d+)? ns[^]*5 %\s+30 %\s+30 %/
    );
    assert.equal(await rows.first().locator("rect.bar").count(), 6);
    assert.match(
      await page.locator("#truth table").nth(1).innerText(),
      /return trip[^]*100 %[^]*NTP\s+about the one REALTIME that the nodes share[^]*pairs of claims/
    );
    assert.equal(await page.locator("nav a", { hasText: "Truth" }).count(), 1);
  }));

test("a run whose truth is not known says so", () => open("empty", async (page) => {
  assert.match(await text(page, "#truth .absent"), /Not shown/);
  assert.equal(await page.locator("nav a", { hasText: "Truth" }).count(), 0);
}));

test("a run without tuples has one sentence instead of empty parts", () =>
  open("messages", async (page) => {
    assert.equal(await page.locator(".absent").count(), 1, "only the facts are absent");
    assert.match(await text(page, "header"), /No program logged tuples in this run/);
    const parts = await page.locator("main section").evaluateAll((all) => all.map((e) => e.id));
    assert.deepEqual(parts, ["messages", "requests", "nodes", "assumptions", "machines"]);
    assert.deepEqual(await page.locator("nav a").allInnerTexts(),
      ["Messages", "Requests", "Nodes", "Assumptions", "Machines"]);
    assert.match(await text(page, ".tiles"),
      /requests\s+40\s+of 2 patterns\s+a request, median[^]*lost messages\s+1/);
  }));

test("marks estimates wherever they are", () => open("sample", async (page) => {
  assert.match(await text(page, ".banner"), /Partly an estimate.*2 of 3 pairs/s);
  const suspect = page.locator("#spans tbody tr", { has: page.locator("abbr.estimate") });
  assert.equal(await suspect.count(), 3);
  assert.equal(await suspect.locator("td.plot:nth-of-type(3) rect[fill='url(#hatch)']").count(), 3);
  assert.equal(await page.locator("#graph .is-estimate").count(), 3); // two labels and a box
  assert.match(
    (await page.locator("#graph [aria-label*='core-2 to edge'] text").textContent()) ?? "",
    /est\.$/
  );
  assert.equal(await page.locator("#nodes .cell.suspect abbr.estimate").count(), 4);
  await page.locator("#nodes [data-key=cell-0-2]").click();
  assert.equal(await page.locator("#bounds .row abbr.estimate").count(), 1);
  assert.match(await text(page, "#bounds tbody tr"), /estimate/);
  assert.equal(await page.locator("#bounds .line.dashed").count(), 1);
}));

test("says which span is slow, and how sure that is", () => open("sample", async (page) => {
  assert.match(
    await text(page, ".slowest h2"),
    /^Slowest of 10412667 tuples, from source\/intended$/
  );
  const rows = page.locator(".slowest li");
  assert.match(
    await rows.nth(0).innerText(),
    /^parse → enrich\s+42\.46 ± 0\.67 µs\s+the bounds do not separate it from the next$/
  );
  assert.match(
    await rows.nth(1).innerText(),
    /^window → sink[^]* estimate\s+an estimate, and so is its place$/
  );
  assert.match(await text(page, ".tiles"), /tuples\s+10\.41 M\s+[\d\u2009]+ took the whole path/);
  assert.equal(await page.locator("#graph .made").count(), 1); // an arrow's tip, which nothing uses
}));

test("tuples made of others are counted apart, and the graph shows them", () =>
  open("partial", async (page) => {
    assert.match(
      await text(page, ".tiles"),
      /tuples\s+10\.41 M\s+2\u2009300 more were made of these, [\d\u2009]+ took the whole path/
    );
    assert.match(await text(page, ".slowest li"), /µs\s+surely the slowest, by the median$/);
    const made = page.locator("#graph .arrow.made");
    assert.equal(await made.count(), 2);
    assert.deepEqual(
      (await page.locator("#graph g:has(> .arrow.made) > title").allTextContents()).sort(),
      ["audit", "sink"].map(
        (from) => `tuples that begin at digest were made of those that ended at ${from}`
      )
    );
    assert.match(
      (await page.locator("#graph svg").getAttribute("aria-label")) ?? "",
      /^7 operators and 5 transfers between them$/
    );
  }));

test("a run that is consistent but incomplete says both", () => open("partial", async (page) => {
  const banner = await text(page, ".banner");
  assert.match(banner, /^Consistent, but incomplete\. .*They cannot confirm it\. /);
  assert.match(banner, / One part of the run is missing or incomplete\.$/);
  assert.equal(await page.locator(".banner.partial a[href='#missing']").count(), 1);
}));

test("waiting before work is no computation", () => open("sample", async (page) => {
  const group = page.locator("#spans tbody", { hasText: "before or beside its computation" });
  assert.match(
    await group.innerText(),
    /source\/intended → source\/send\s+local, edge; due, not yet begun: the load's own lateness/
  );
  assert.doesNotMatch(
    await page.locator("#spans tbody", { hasText: "Computation, within" }).innerText(),
    /intended/
  );
}));

test("pauses of JVMs are shaded, named and counted", () => open("sample", async (page) => {
  const said = /24 to 25 % lay in pauses of JVMs, most of it in those of jvm-2231 on core-1/;
  assert.match(await text(page, "header ~ p.when"), said);
  assert.match(await text(page, "#latency .note"), said);
  const bands = page.locator("#tuples figure .pause");
  assert.equal(await bands.count(), 5); // the tuple is on core-1 from the third step on
  const name = /^pause of jvm-2231 on core-1: G1CollectForAllocation, \d+\.\d ± \d\.\d µs$/;
  for (const title of await bands.locator("title").allTextContents()) assert.match(title, name);
  assert.match(await text(page, "#tuples .pauses li"), name);
  assert.match(await text(page, "#tuples figcaption"),
    /, \d+\.\d ± \d\.\d µs of it in pauses of JVMs/);
  const [perhaps, surely] = await Promise.all(["perhaps", "surely"].map((part) =>
    bands.first().locator(`.pause-${part}`).evaluate((e) => e.getBoundingClientRect())));
  assert.ok(perhaps!.left < surely!.left && surely!.right < perhaps!.right, "no bound is drawn");
  await page.locator("#latency select").selectOption({ index: 1 });
  assert.equal(await page.locator("#latency .note").count(), 0);
}));

test("hostile names are text", () => open("hostile", async (page) => {
  assert.match(await page.title(), /^<\/script><script>document\.title="owned"/);
  assert.equal(await page.locator("img").count(), 0);
  assert.equal(await page.locator("script").count(), 2);
  for (const control of ["cycles", "linear"])
    await page.getByText(control, { exact: true }).click();
  await page.locator("#tuples button.tuple").nth(2).click();
  assert.match(await text(page, "#tuples .pauses li"), /^pause of <\/script><script>.*<img src=x/);
  await page.locator("#nodes [data-key=cell-0-1]").click();
  assert.match(await text(page, ".pair-detail h3"), /<img src=x/);
  assert.notEqual(await page.title(), "owned");
  assert.equal(await page.locator("img").count(), 0);
}));

test("an empty run says why", () => open("empty", async (page) => {
  for (const part of [
    "graph", "spans", "latency", "throughput", "bounds", "tuples", "nodes", "machines",
  ]) {
    assert.match(
      await text(page, `#${part} .absent`),
      /Not shown: no log of any node was collected/
    );
  }
  assert.equal(await page.locator("fieldset[disabled]").count(), 1);
}));

test("a capture is drawn as a graph of programs, with a line between each two that talk", () =>
  open("sample", async (page) => {
    const drawn = await page.evaluate(() => {
      const part = document.getElementById("messages")!;
      return {
        boxes: [...part.querySelectorAll(".actor-name")].map((e) => e.textContent),
        labels: [...part.querySelectorAll(".talk-label")].map((e) =>
          [...e.querySelectorAll("text")].map((t) => t.textContent!.replace(/\s/g, " "))),
        rows: part.querySelector("table")!.querySelectorAll("tbody tr").length,
        under: [...part.querySelectorAll(".actor-nodes")].map((e) => e.textContent),
      };
    });
    assert.deepEqual(drawn.boxes, ["load", "nginx", "gateway", "java", "python3", "epoll",
      "redis-server", "postgres"]);
    assert.equal(drawn.rows, 16);
    assert.equal(drawn.labels.length, 8);
    assert.match(drawn.labels[0]!.join(" "), /14\.000 ± 0\.041 µs .*2\.210 000 ms ± 43 ns/);
    assert.deepEqual(drawn.labels.filter((l) => l.length === 1), [["79.81 k messages"]]);
    assert.deepEqual(drawn.under.slice(-3), ["core-1 :6379", "cache.shop.example +1", "core-2"]);
    const part = (await text(page, "#messages")).replace(/\s+/g, " ");
    assert.match(part, /redis-server on core-1 cache\.shop\.example, redis/);
    assert.match(part, /412 sent, 190 kB, not captured at the other end: gateway on core-1 →/);
    assert.match(part, /→ pay\.example \(203\.0\.113\.7\), port 443/);
    assert.match(part, / 41\.21 k calls were seen by the agent and by a library in the program: /);
  }));

test("the transfers of captured messages have their parts", () => open("sample", async (page) => {
  const rows = page.locator("#messages table").nth(1).locator("tbody tr");
  assert.equal(await rows.count(), 12);
  const found = async (row: number) => (await rows.nth(row).innerText()).replace(/\s+/g, " ");
  assert.match(await found(0), new RegExp("^nginx on edge gateway on core-1 108 k " +
    "50\\.40 ± 0\\.63 µs .* at 99 % 2\\.520 ± 0\\.051 µs .* at 99 % 10\\.080 ± 0\\.021 µs"));
  assert.match(await found(6), /^java on core-1 epoll on core-2 .* together 14\.520 ± 0\.031 µs/);
  assert.deepEqual(await rows.first().evaluate((row) =>
    [...row.querySelectorAll("rect")].map((r) => r.getAttribute("class"))),
  ["network", "kernel", "own"]);
  assert.match(await rows.first().locator("svg").getAttribute("aria-label") ?? "",
    /^network 80 %, kernel 4 %, program 16 %$/);
  assert.match(await text(page, "#messages"),
    /bytes of 13 messages again: nginx on edge → gateway on core-1\. It did so last 204/);
}));

test("a page without a capture has no part for messages and requests", () =>
  open("empty", async (page) => {
    assert.equal(await page.evaluate(() => document.getElementById("messages")), null);
    assert.equal(await page.evaluate(() => document.getElementById("requests")), null);
  }));

test("requests are drawn as trees with the probability of each link", () =>
  open("sample", async (page) => {
    assert.match(await text(page, "#requests"),
      /40 requests followed 2 patterns\. Of 160 links, 97\.5 % are at least 0\.9 sure/);
    assert.match(await text(page, "#requests"), /Lost: 1 message\./);
    const first = page.locator("#requests .chart").first();
    assert.equal(await first.locator(".step-name").count(), 6);
    assert.equal(await first.locator("path.link").count(), 5);
    assert.equal(await first.locator(".doubt").count(), 0);
    const estimates = first.locator("rect[fill='url(#hatch)']");
    assert.ok(await estimates.count() > 0, "the times of core-2 are hatched");
    assert.match(await text(page, "#requests figure"), / est\./);
    const doubtful = page.locator("#requests .chart").nth(1).locator(".doubt");
    assert.equal(await doubtful.count(), 2); // the line and its number
    assert.equal(await doubtful.last().textContent(), "0.71");
  }));

test("requests are found by program, by duration and by message", () =>
  open("sample", async (page) => {
    const found = () => page.locator("#requests .tuple").count();
    const look = async (key: string, value: string) => {
      const field = page.locator(`#requests [data-key=find-${key}]`);
      await field.fill(value);
      await field.press("Tab");
    };
    assert.equal(await found(), 40);
    await look("program", "python3");
    assert.equal(await found(), 20);
    await look("longer", "6 ms");
    const slow = await found();
    assert.ok(slow > 0 && slow < 20, `${slow} requests`);
    await look("program", "");
    await look("longer", "");
    await look("message", "7:1001");
    assert.equal(await found(), 1);
    assert.equal(await page.locator("#requests figure .step-name").count(), 6);
    await look("message", "nothing");
    assert.match(await text(page, "#requests .absent"), /No request of these is as you asked/);
    await look("longer", "long");
    assert.match(await text(page, "#requests .absent"), /"long" is not a duration/);
  }));
