import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { test } from "node:test";
import { opened, read, patchStatus, useBrowser } from "./browser.mjs";
import { contrasts, faults } from "./layout.mjs";

const shared = useBrowser();

// show opens the panel of an application.
async function show(page, name) {
  await page.locator("th.app", { hasText: name }).click();
  await page.locator(".detail .revisions").waitFor();
  return page.locator(".detail");
}

const steps = (detail) => detail.locator(".timeline > li").allInnerTexts();

test("a timeline shows what is done, what the rollout does now with the remaining soak, and what is to come", async () => {
  const detail = await show(await opened(await shared.open()), "soaking");
  const texts = await steps(detail);
  assert.match(texts[0], /^✓\s*done:\s*revision 3[^]*revision 3 is to replace revision 2/);
  assert.match(texts[1], /^●\s*now:\s*stage canary\s*1\/1\s*(Nov \d+ )?[\d:]+\s*the rollout begins on 1 cluster\s*since [\w :]+\s*soaks 20 min \(1\d min( \d+ s)? left\)/);
  assert.match(texts[2], /^○\s*to come:\s*stage eu[^]*needs approval/);
  assert.equal(await detail.locator("[aria-current=step]").count(), 1);
  const remaining = await detail.locator(".left").innerText();
  await detail.page().waitForFunction((text) => document.querySelector(".left").textContent.trim() !== text, remaining.trim());
});

test("a timeline shows where and when a revision failed, and its return", async () => {
  const texts = await steps(await show(await opened(await shared.open()), "failed"));
  assert.match(texts[2], /^✕\s*failed:\s*stage eu[^]*waited for approval[^]*revision 3 failed in stage eu \(west: CrashLoopBackOff\); west says: exited with code 132/);
  assert.match(texts[3], /^–\s*does not happen:\s*stage \(rest\)\s*not reached/);
  assert.match(texts[4], /^✓\s*done:\s*return to revision 2[^]*2 of 2 clusters return[^]*run revision 2/);
});

test("a timeline says what is not known any more", async () => {
  const detail = await show(await opened(await shared.open()), "forgotten");
  const texts = await steps(detail);
  assert.match(texts[2], /time not known\s*failed on west: CrashLoopBackOff/);
  await detail.getByText("Where no time stands, it is not known: the hub deletes events, by default after an hour.").waitFor();
});

test("a timeline follows the rollout without a reload", async () => {
  const detail = await show(await opened(await shared.open()), "forgotten");
  const { status } = await read("namespaces/rollouts/appservices/forgotten");
  const at = new Date().toISOString().replace(/\.\d+Z$/, "Z");
  await patchStatus("namespaces/rollouts/appservices/forgotten", { rollout: { ...status.rollout, phase: "RollingBack", since: at } });
  await detail.locator(".timeline > li.Current", { hasText: "the clusters return" }).waitFor();
});

test("a click on a revision shows what it changed, and its row stays where it is", async () => {
  const detail = await show(await opened(await shared.open()), "soaking");
  const rows = await detail.locator(".revision").allInnerTexts();
  assert.match(rows[0], /3\s*registry\.example\/shop\/soaking:1\.8\s*[\w :]+\s*on 1 cluster · current · against 2: env, image/);
  assert.match(rows[1], /2\s*registry\.example\/shop\/soaking:1\.7[^]*on 1 cluster · stable · against 1: env/);
  assert.match(rows[2], /1\s*registry[^]*the oldest that is stored/);
  const button = detail.getByRole("button", { name: /^▸? ?3 registry/ });
  await button.click();
  const changes = detail.locator(".changes");
  await changes.waitFor();
  assert.equal(await changes.locator(".removed", { hasText: "image: registry.example/shop/soaking:1.7" }).count(), 1);
  assert.equal(await changes.locator(".added", { hasText: "image: registry.example/shop/soaking:1.8" }).count(), 1);
  assert.match(await changes.locator(".place").first().innerText(), /--- revision 2/);
  assert.equal(await detail.locator(".revision[aria-expanded=true]").count(), 1);
  await detail.getByRole("button", { name: /2 registry/ }).click();
  await changes.locator(".place", { hasText: "--- revision 1" }).waitFor();
  assert.equal(await changes.count(), 1);
});

test("texts of objects stay texts in the timeline and in the changes", async () => {
  const page = await opened(await shared.open());
  const detail = await show(page, "hostile");
  for (const button of await detail.locator("button.revision").all()) {
    await button.click();
    await detail.locator(".changes").waitFor();
    if ((await detail.locator(".changes").innerText()).includes("onerror")) break;
  }
  const text = await detail.innerText();
  assert.ok(text.split("<img src=x onerror=window.wasRun=true>").length > 4, text);
  assert.equal(await page.locator("img").count(), 0);
  assert.equal(await page.evaluate(() => window.wasRun), undefined);
  assert.ok(!(await detail.locator(".timeline").innerText()).includes("\u001b"));
  assert.ok(!(await detail.locator(".changes").innerText()).includes("\u001b"));
});

for (const colorScheme of ["light", "dark"]) {
  for (const width of [1280, 400]) {
    test(`layout and contrast of a timeline with changes, ${colorScheme}, ${width} pixels wide`, async () => {
      const page = await shared.open({ colorScheme, viewport: { width: 1280, height: 800 } });
      const detail = await show(await opened(page), "failed");
      await page.setViewportSize({ width, height: width === 400 ? 900 : 1000 });
      await detail.getByRole("button", { name: /3 registry/ }).click();
      await detail.locator(".changes").waitFor();
      const inPanel = (found) => found.filter((text) => !/matrix|page is|overlaps/.test(text) || width === 1280);
      assert.deepEqual(inPanel(await page.evaluate(faults)).filter((text) => width === 1280 || /detail|moment|revision|text|changes/.test(text)), []);
      assert.deepEqual(await page.evaluate(contrasts), []);
      const wide = await detail.evaluate((panel) => panel.scrollWidth - panel.clientWidth);
      assert.equal(wide, 0, "the panel scrolls sideways");
      const part = width === 400 ? "narrow" : colorScheme;
      if (width === 1280 || colorScheme === "dark") {
        await detail.evaluate((panel) => panel.scrollTo(0, 0));
        await screenshot(page, detail, `ui-timeline-${part}`);
        await detail.locator(".changes").scrollIntoViewIfNeeded();
        await screenshot(page, detail, `ui-changes-${part}`);
      }
    });
  }
}

async function screenshot(page, detail, name) {
  const directory = process.env.UI_SCREENSHOTS;
  if (!directory) return;
  await mkdir(directory, { recursive: true });
  await detail.screenshot({ path: `${directory}/${name}.png` });
}

test("no request left this server, and there was no error", () => {
  assert.deepEqual(shared.elsewhere, []);
  assert.deepEqual(shared.errors, []);
});
