import assert from "node:assert/strict";
import { test } from "node:test";
import { cell, control, launch, loseCluster, opened, origin, patchStatus, read, renewLease, screenshot, url, useBrowser } from "./browser.mjs";
import { contrasts, faults } from "./layout.mjs";

const shared = useBrowser();

test("the page shows each phase with a sign, numbers and words", async () => {
  const page = await opened(await shared.open());
  const text = async (app, cluster) => (await cell(page, app, cluster).innerText()).replace(/\s+/g, " ");
  assert.match(await text("shop/checkout", "eu-west"), /✕.*Failed.*4\/6.*image pull fails/);
  assert.match(await text("shop/cart", "ap-south"), /\?.*Unknown.*5\/5.*unreachable for \dm/);
  assert.match(await text("shop/search", "eu-north"), /↻.*Progressing.*2\/4.*rolling out/);
  assert.match(await text("platform/mailer", "us-west"), /−.*Removing/);
  assert.match(await text("shop/search", "eu-west"), /not placed wanted tier=gold/);
  assert.match(await text("shop/images", "us-west"), /not placed cluster is cordoned/);
  assert.match(await text("shop/web", "eu-north"), /✓.*Ready.*3\/3.*r4/);
  const image = await cell(page, "shop/cart", "ap-south").locator(".box").evaluate((box) => getComputedStyle(box).backgroundImage);
  assert.match(image, /repeating-linear-gradient/, "an Unknown cell is hatched");
  const border = await cell(page, "shop/search", "eu-west").locator(".box").evaluate((box) => getComputedStyle(box).borderTopStyle);
  assert.equal(border, "dashed");
  assert.match(await page.locator("th.app", { hasText: "web" }).innerText(), /r5 2\/7\s*eu: awaits approval/);
  assert.match(await page.locator('th[data-column="c/us-west"]').innerText(), /us · v1.34.7\s*✓ Ready · cordoned/);
  assert.match(await page.locator('th[data-column="c/ap-south"]').innerText(), /✕ unreachable \dm/);
  const first = await page.locator("th.app b").allInnerTexts();
  assert.deepEqual(first.slice(0, 2), ["checkout", "batch"], "worst first");
});

test("the token leaves the address bar, and a reload finds it", async () => {
  const page = await opened(await shared.open());
  assert.equal(page.url(), `${origin}/`);
  await page.reload();
  await opened(page);
});

test("a link has the filters and the panel, never the token, and the buttons for back and forward work", async () => {
  const page = await opened(await shared.open());
  const apps = () => page.locator("th.app b").allInnerTexts();
  await page.getByRole("button", { name: /Failed 2/ }).click();
  assert.equal(page.url(), `${origin}/#phase=Failed`);
  await page.getByLabel("Labels").fill("team=shop");
  await cell(page, "shop/checkout", "eu-west").click();
  const title = page.locator(".detail h2");
  await title.filter({ hasText: "shop/checkout on eu-west" }).waitFor();
  const link = page.url();
  assert.equal(link, `${origin}/#phase=Failed&labels=team%3Dshop&app=shop/checkout&cluster=eu-west`);
  await page.goBack();
  await title.waitFor({ state: "detached" });
  assert.deepEqual(await apps(), ["checkout"]);
  await page.goBack();
  await page.locator("th.app", { hasText: "search" }).waitFor();
  assert.equal(page.url(), `${origin}/`);
  await page.goForward();
  await page.goForward();
  await title.waitFor();
  assert.equal(page.url(), link);
  await page.reload();
  await title.waitFor();
  assert.deepEqual(await apps(), ["checkout"]);

  const other = await shared.open({}, `${url}&${link.split("#")[1]}`);
  await other.locator(".detail h2", { hasText: "shop/checkout on eu-west" }).waitFor();
  await opened(other);
  assert.equal(other.url(), link);
  assert.equal(await other.getByLabel("Labels").inputValue(), "team=shop");
});

test("broken and unknown values of a link are ignored", async () => {
  const page = await opened(await shared.open({}, `${url}&phase=Broken&order=name&app=../../api&cluster=%00&colour=red`));
  assert.equal(page.url(), `${origin}/#order=name`);
  assert.equal((await page.locator("th.app").count()), 9);
  assert.equal(await page.locator(".detail").count(), 0);
  await page.evaluate(() => (location.hash = "#app=shop/gone"));
  await page.locator(".detail .problem").waitFor();
  shared.errors = shared.errors.filter((error) => !error.includes("404"));
});

test("the URL of another start of the command is read in the same tab, too", async () => {
  const page = await shared.open({}, url.replace(/token=.*/, "token=WRONG&order=name"));
  await page.getByText("This page needs its token").waitFor();
  await page.getByText("&order=name").waitFor();
  await page.evaluate((hash) => (location.hash = hash), `#${url.split("#")[1]}&order=name`);
  await opened(page);
  assert.equal(page.url(), `${origin}/#order=name`);
  shared.errors = shared.errors.filter((error) => !error.includes("401"));
});

test("a filter by phase, text, label, namespace and cluster", async () => {
  const page = await opened(await shared.open());
  const apps = () => page.locator("th.app b").allInnerTexts();
  await page.getByRole("button", { name: /Failed 2/ }).click();
  assert.deepEqual(await apps(), ["checkout", "batch"]);
  await page.getByRole("button", { name: /Failed 2/ }).click();
  await page.getByLabel("Text").fill("image pull");
  assert.deepEqual(await apps(), []);
  await page.getByText("No application matches the filters.").waitFor();
  await page.getByLabel("Text").fill("imagepull");
  assert.deepEqual(await apps(), ["checkout"]);
  await page.getByLabel("Text").fill("");
  await page.getByLabel("Labels").fill("team=lab");
  assert.deepEqual(await apps(), ["batch"]);
  await page.getByLabel("Labels").fill("");
  await page.getByLabel("Namespace").selectOption("platform");
  assert.deepEqual((await apps()).sort(), ["gateway", "ledger", "mailer"]);
  await page.getByLabel("Clusters", { exact: true }).fill("tier=gold");
  assert.deepEqual((await page.locator("th.head b").allInnerTexts()).sort(), ["eu-north", "eu-south", "us-east"]);
});

test("a click shows the message, the events and the command", async () => {
  const page = await opened(await shared.open());
  await cell(page, "shop/checkout", "eu-west").click();
  const detail = page.locator(".detail");
  await detail.getByText("the image registry.example/shop/checkout:8 cannot be pulled").waitFor();
  await detail.getByText("eu-west: the image cannot be pulled").waitFor();
  await detail.getByText("kubectl appsvc why checkout eu-west --namespace=shop --context=demo").waitFor();

  await page.locator("th.app", { hasText: "web" }).click();
  await detail.getByText("kubectl appsvc rollout approve web --stage eu --revision 5 --namespace=shop --context=demo").waitFor();
  const stages = await detail.locator(".timeline > li").allInnerTexts();
  assert.match(stages[1], /stage us\s*2\/2\s*time not known\s*the stage began/);
  assert.match(stages[2], /stage eu\s*0\/3\s*since [\d:]+\s*waits for approval/);
  assert.match(await detail.locator(".revisions").innerText(), /5\s*not stored\s*on 2 clusters · current\s*4\s*not stored\s*on 5 clusters · stable/);

  await page.locator('th[data-column="c/us-west"]').click();
  await detail.getByText("kubectl appsvc uncordon us-west --context=demo").waitFor();

  await cell(page, "lab/batch", "us-east").click();
  await detail.locator(".summary", { hasText: "not placed: other labels (wanted region=sa)" }).waitFor();
});

test("a detail follows the changes of its object", async () => {
  const page = await opened(await shared.open());
  await page.locator("th.app", { hasText: "ledger" }).click();
  await page.locator(".detail .message", { hasText: "all clusters are Ready" }).waitFor();
  const { status } = await read("namespaces/platform/appservices/ledger");
  await patchStatus("namespaces/platform/appservices/ledger", { conditions: status.conditions.map((c) => ({ ...c, message: "another message" })) });
  await page.locator(".detail .message", { hasText: "another message" }).waitFor();
});

test("the keyboard moves, opens and closes", async () => {
  const page = await opened(await shared.open());
  await page.getByLabel("Order").focus();
  await page.keyboard.press("Tab");
  const active = () => page.evaluate(() => document.getElementById(document.activeElement.getAttribute("aria-activedescendant"))?.innerText.split("\n")[0]);
  assert.equal(await page.evaluate(() => document.activeElement.id), "matrix");
  assert.equal(await active(), "Application");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowUp");
  const cluster = await active();
  assert.equal(cluster, await page.locator("th.head b").first().innerText());
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  const title = page.locator(".detail h2");
  await title.waitFor();
  assert.match(await title.innerText(), new RegExp(`shop/checkout on ${cluster}`));
  assert.equal(await page.evaluate(() => document.activeElement.id), "detail-title");
  await page.keyboard.press("Escape");
  await title.waitFor({ state: "detached" });
  assert.equal(await page.evaluate(() => document.activeElement.id), "matrix");
  await page.keyboard.press("Control+End");
  assert.match(await page.evaluate(() => document.getElementById(document.activeElement.getAttribute("aria-activedescendant")).dataset.column), /^c\//);
});

test("the matrix is a grid with rows, columns and heads", async () => {
  const page = await opened(await shared.open());
  const grid = page.getByRole("grid", { name: /Applications by cluster/ });
  assert.equal(await grid.getAttribute("aria-rowcount"), "10");
  assert.equal(await grid.getAttribute("aria-colcount"), "8");
  assert.equal(await grid.getByRole("rowheader").count(), 9);
  assert.equal(await grid.getByRole("columnheader").count(), 8);
  assert.equal(await grid.getByRole("gridcell").count(), 63);
});

// The contrast of the borders of controls with what is around them.
const borders = () => {
  const channel = (c) => ((c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const luminance = (color) => [0.2126, 0.7152, 0.0722].reduce((sum, factor, i) => sum + factor * channel(Number(color.match(/[\d.]+/g)[i])), 0);
  const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const around = luminance(getComputedStyle(document.querySelector(".toolbar")).backgroundColor);
  return [...document.querySelectorAll("input, select, .fold, .close, .command button")].flatMap((element) => {
    const { borderTopColor, backgroundColor } = getComputedStyle(element);
    const worst = Math.min(contrast(luminance(borderTopColor), around), contrast(luminance(borderTopColor), luminance(backgroundColor)));
    return worst < 3 ? [`the border of ${element.name || element.className || element.tagName}: ${worst.toFixed(2)}`] : [];
  });
};

for (const colorScheme of ["light", "dark"]) {
  test(`in 400 pixels, the tool bar folds, ${colorScheme}`, async () => {
    const page = await opened(await shared.open({ colorScheme, viewport: { width: 400, height: 800 } }));
    const height = () => page.locator(".toolbar").evaluate((toolbar) => toolbar.offsetHeight);
    assert.ok((await height()) < 130, `the tool bar is ${await height()} pixels high`);
    assert.equal(await page.getByLabel("Labels").isVisible(), false);
    assert.deepEqual(await page.evaluate(faults), []);
    assert.deepEqual(await page.evaluate(contrasts), []);
    await screenshot(page, `ui-narrow-${colorScheme}`);
    await page.getByRole("button", { name: "Filters" }).click();
    await page.getByLabel("Labels").fill("team=shop");
    await page.getByRole("button", { name: "Filters, 1 set", expanded: true }).waitFor();
    await page.getByRole("button", { name: "Failed 2" }).click();
    assert.deepEqual(await page.locator("th.app b").allInnerTexts(), ["checkout"]);
    assert.deepEqual(await page.evaluate(faults), []);
    assert.deepEqual(await page.evaluate(borders), []);
    await page.getByRole("button", { name: "Filters" }).click();
    await cell(page, "shop/checkout", "eu-west").click();
    await page.locator(".detail h2").waitFor();
    assert.deepEqual(await page.evaluate(faults), []);
  });

  for (const width of [1280, 800]) {
    test(`layout and contrast, ${colorScheme}, ${width} pixels wide`, async () => {
      const page = await opened(await shared.open({ colorScheme, viewport: { width, height: 800 } }));
      assert.deepEqual(await page.evaluate(faults), []);
      assert.deepEqual(await page.evaluate(contrasts), []);
      assert.deepEqual(await page.evaluate(borders), []);
      if (width === 1280) await screenshot(page, `ui-${colorScheme}`);
      await page.locator("th.app", { hasText: "web" }).click();
      await page.locator(".detail .revisions").waitFor();
      assert.deepEqual(await page.evaluate(faults), []);
      assert.deepEqual(await page.evaluate(contrasts), []);
      assert.deepEqual(await page.evaluate(borders), []);
      if (width === 1280) await screenshot(page, `ui-detail-${colorScheme}`);
    });
  }
}

// isGreen reports whether the dot of the tool bar says that all is live.
const isGreen = async (page) => {
  const [red, green, blue] = (await page.locator(".dot").evaluate((dot) => getComputedStyle(dot).backgroundColor)).match(/\d+/g).map(Number);
  return green > red + 40 && green > blue + 40;
};

// listen notes what a screen reader says of an element: its text after each change.
const listen = (page, selector) =>
  page.evaluate((wanted) => {
    window.said = [];
    const element = document.querySelector(wanted);
    new MutationObserver(() => window.said.push(element.textContent)).observe(element, { childList: true, characterData: true, subtree: true });
  }, selector);

test("a cluster that dies becomes Unknown without a reload, and a screen reader hears of it", async () => {
  const page = await opened(await shared.open());
  await page.evaluate(() => (window.notReloaded = true));
  await listen(page, "[role=status]");
  const { items } = await read("appservices");
  const there = items.filter((app) => app.status.clusters?.some((entry) => entry.name === "eu-south"));
  assert.ok(there.length > 5);
  await loseCluster("eu-south", there);
  for (const app of there) {
    await page.locator(`td.Unknown[data-row="${app.metadata.namespace}/${app.metadata.name}"][data-column="c/eu-south"]`).waitFor();
  }
  assert.match(await page.locator('th[data-column="c/eu-south"]').innerText(), /✕ unreachable/);
  await page.waitForFunction(() => window.said.join().includes("cluster eu-south is not Ready"));
  assert.equal(await page.evaluate(() => window.notReloaded), true);
});

// After a loss, there is a banner for each kind until its list is read again. An informer backs off for
// up to a minute.
const noBanner = (page) => page.waitForFunction(() => !document.querySelector(".banner"));

test("a banner says that the hub does not answer, and since when", async (t) => {
  t.after(() => control("restore")); // also if the test fails, for the next ones
  const page = await opened(await shared.open());
  await listen(page, "[role=alert]");
  await control("cut");
  const banner = page.locator(".banner", { hasText: /stale since \d\d:\d\d:\d\d \(\d+s\): the hub does not answer/ });
  await banner.waitFor();
  assert.equal(await isGreen(page), false);
  assert.match(await page.locator(".live").innerText(), /the hub is silent/);
  // The age in the banner changes. A screen reader hears of the problem once.
  const first = await banner.innerText();
  await page.waitForFunction((text) => document.querySelector(".banner").innerText !== text, first);
  assert.equal(await page.evaluate(() => window.said.filter((text) => text.includes("the hub does not answer")).length), 1);
  await control("restore");
  await noBanner(page);
  assert.equal(await isGreen(page), true);
});

test("a banner says that the operator does not run, until it returns", async () => {
  const page = await opened(await shared.open());
  await noBanner(page);
  await page.evaluate(() => (window.notReloaded = true));
  await renewLease(-200);
  await page.locator(".banner", { hasText: "The operator has not renewed its Lease for 3m" }).waitFor();
  assert.match(await page.locator(".banner").innerText(), /so what you see may be old: see kubectl get pods -n default$/);
  assert.match(await page.getByRole("alert").innerText(), /The operator has not renewed its Lease/);
  assert.equal(await isGreen(page), false);
  assert.match(await page.locator(".live").innerText(), /the operator is silent/);
  await renewLease(3600);
  await noBanner(page);
  assert.equal(await isGreen(page), true);
  assert.equal(await page.evaluate(() => window.notReloaded), true);
});

test("a banner says that the server does not answer, and the page connects again", async () => {
  const page = await opened(await shared.open());
  await control("stop");
  await page.locator(".banner", { hasText: /stale since \d\d:\d\d:\d\d .*kubectl appsvc ui does not answer/ }).waitFor();
  await control("start");
  await noBanner(page);
  await opened(page);
  shared.errors = shared.errors.filter((error) => !/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING/.test(error));
});

test("a wrong token is refused in words", async () => {
  const page = await shared.open({}, url.replace(/token=.*/, "token=WRONG"));
  await page.getByText("This page needs its token").waitFor();
  assert.equal(await page.locator("table").count(), 0);
  shared.errors = shared.errors.filter((error) => !error.includes("401"));
});

// Another site, and another server on this machine. A new Chromium itself refuses such requests to this
// machine, and other browsers do not. So the test turns that off, and the server must refuse.
for (const other of ["http://evil.example", "http://127.0.0.1:9999"]) {
  test(`a page of another origin reads nothing: ${other}`, async (t) => {
    const token = url.split("token=")[1];
    const browser = await launch("--disable-features=LocalNetworkAccessChecks");
    t.after(() => browser.close());
    const page = await browser.newPage();
    await page.route(`${other}/**`, (route) => route.fulfill({ contentType: "text/html", body: "<h1>evil</h1>" }));
    await page.goto(other);
    const results = await page.evaluate(
      async ([address, secret]) => {
        const attempt = async (path, headers) => fetch(address + path, { headers }).then((response) => response.status, (error) => error.name);
        const frame = document.createElement("iframe");
        frame.src = address;
        document.body.append(frame);
        await new Promise((resolve) => (frame.onload = resolve));
        return [await attempt("/", {}), await attempt("/api/stream", {}), await attempt("/api/stream", { Authorization: `Bearer ${secret}` })];
      },
      [origin, token],
    );
    assert.deepEqual(results, ["TypeError", "TypeError", "TypeError"]);
    const frames = page.frames().filter((frame) => frame !== page.mainFrame());
    assert.equal(frames.length, 1);
    assert.equal(await frames[0].locator("#page").count(), 0, "the page is shown in a frame");
  });
}

test("no request left this server, and there was no error", () => {
  assert.deepEqual(shared.elsewhere, []);
  assert.deepEqual(shared.errors, []);
});
