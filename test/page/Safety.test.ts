/** The page's accessibility and size, and its safety against hostile content, other sites and leaks of a token. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test"
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import type { Browser, Page } from "playwright-core"
import { suiteUnless } from "../lib/lacking.ts"
import { openChromium, reasonToSkip } from "../parts/Chromium.ts"
import { hostile, personal, type Site, startSite, token } from "./site.ts"

/** The source of axe-core, to run in the page. */
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8")
const views = ["", "live", "events", "event/evt_1", "dead-letters", "replay", "routes", "audit", "sink/crm", "alerts"]

setDefaultTimeout(120_000)

/** A script that returns the tabs outside the screen. */
const hidden = `[...document.querySelectorAll("nav[aria-label=Views] a")]
  .filter((tab) => tab.getBoundingClientRect().right > innerWidth).map((tab) => tab.textContent)`
/** A script that returns the times, ids and types in tables that wrap although they are short. */
const broken = `[...document.querySelectorAll("td time:not(:has(wbr)), td time span, td a bdi:not(:has(wbr)), td strong bdi:not(:has(wbr))")]
  .filter((one) => one.getClientRects().length > 1).map((one) => one.textContent)`
/** A script that returns the words of long names in tables that wrap inside a word. */
const brokenWords = `[...document.querySelectorAll("table bdi:has(wbr)")].flatMap((one) => [...one.childNodes])
  .filter((part) => {
    const range = document.createRange()
    range.selectNodeContents(part)
    return part.textContent.length <= 24 && new Set([...range.getClientRects()].map(({ top }) => top)).size > 1
  }).map((part) => part.textContent)`
/** A script that returns the outcomes and buttons in tables that are partly hidden without scrolling. */
const cut = `[...document.querySelectorAll(".scroll :is(.pill, button, time, .outcome, th bdi, td.words bdi)")]
  .filter((one) => {
    const { left, right } = one.getBoundingClientRect()
    const table = one.closest(".scroll").getBoundingClientRect()
    return left < table.left || right > table.right || right > innerWidth
  }).map((one) => one.textContent)`

suiteUnless(reasonToSkip(), "the page in Chromium", () => {
  let browser: Browser
  let site: Site

  beforeAll(async () => {
    ;[browser, site] = await Promise.all([openChromium(), startSite()])
    site.answers.set("/crm", () => new Response(hostile, { status: 422, statusText: "No" }))
    site.answers.set("/lake", () => new Response("away", { status: 503 }))
    await site.deliver({ id: "evt_1", type: "client.created", object: { name: personal, note: hostile } })
    await site.deliver({ id: hostile, type: hostile, account: hostile, object: { [hostile]: hostile } })
    await site.deliver({ id: `evt_${"9".repeat(1_000_000)}`, type: "client.updated", account: "a".repeat(1_000_000) })
    await site.deliver({ id: "evt_2", type: "relay.made_up", object: {} })
    await site.deliver({ id: "evt_3", type: "appointment.created", object: {} })
    await site.deliverUnsigned("/hooks")
    await site.deliverUnsigned(`/${encodeURIComponent(hostile)}`)
    await site.run("replay", "--routed", "--all", "--dry-run")
    const config = site.config()
    site.writeConfig({ ...config, sinks: { [hostile]: { type: hostile } } })
    await site.run("reload")
  }, 60_000)
  afterAll(async () => {
    await browser?.close()
    await site?.stop()
  })

  const text = async (page: Page, expression: string) => String(await page.evaluate(expression))
  const openPage = async (options: Parameters<Browser["newPage"]>[0] = {}) => {
    const page = await browser.newPage(options)
    page.setDefaultTimeout(60_000)
    return page
  }
  const show = async (page: Page, view: string) => {
    await page.goto(`${site.url}/#/${view}`)
    await page.reload()
    await page.getByText("Live", { exact: true }).first().waitFor()
    await page.locator("[aria-busy=true]").waitFor({ state: "detached" })
  }

  for (const width of [1920, 1440, 375]) {
    test(`has no violation that axe knows, in light and dark colours, ${width} wide`, async () => {
      const page = await openPage({ viewport: { width, height: 900 }, reducedMotion: "reduce", bypassCSP: true })
      for (const view of views) {
        await show(page, view)
        await page.waitForTimeout(150)
        await page.evaluate(axe)
        for (const colorScheme of ["light", "dark"] as const) {
          await page.emulateMedia({ colorScheme })
          const found = await page.evaluate(
            "axe.run().then(({ violations }) => violations.map(({ id, nodes }) => id + ' ' + nodes[0].html.slice(0, 200)))",
          )
          expect([view, colorScheme, found]).toEqual([view, colorScheme, []])
        }
        expect([view, await page.evaluate("document.documentElement.scrollWidth - innerWidth")]).toEqual([view, 0])
        expect([view, await page.evaluate(hidden)]).toEqual([view, []])
        if (width > 1000) expect([view, await page.evaluate(broken)]).toEqual([view, []])
      }
      await page.close()
    }, 60_000)
  }

  test("shows outcomes and buttons as a whole at usual widths, however long ids and names are", async () => {
    const page = await openPage({ timezoneId: "Asia/Kolkata" })
    const sink = "analytics-warehouse-of-the-north-eu-01"
    const id = "evt_relay_secret:scheduling:older:1796083200000:1209600000"
    const type = "appointment.meeting.create_failed"
    // An old time, which is shown with its date.
    const old = Date.UTC(2025, 11, 28, 12)
    const long = (name: string) => (name === "crm" ? sink : name)
    await page.route("**/api/v1/events?*", async (route) => {
      const found = await (await route.fetch()).json()
      const events = found.events.map((event: { sinks: ReadonlyArray<{ sink: string }> }) => ({
        ...event,
        ...{ id, type, accountId: "acct_8sZ2kQ4vB", receivedAt: old },
        sinks: event.sinks.map((sink) => ({ ...sink, sink: long(sink.sink) })),
      }))
      await route.fulfill({ json: { ...found, events } })
    })
    await page.route("**/api/v1/dead-letters?*", async (route) => {
      const found: ReadonlyArray<object> = await (await route.fetch()).json()
      await route.fulfill({
        json: found.map((one) => ({ ...one, lane: sink, type, eventId: id, accountId: "acct_8sZ2kQ4vB", at: old })),
      })
    })
    const alert = {
      sink,
      id: 4_711,
      status: "acknowledged",
      type,
      account: "acct_8sZ2kQ4vB",
      count: 12_345,
      others: 67,
    }
    const times = { first: old, last: old, newest: 4_730, messages: 42, sentAt: old, remindsAt: old }
    await page.route("**/api/v1/alerts", (route) =>
      route.fulfill({
        json: [
          { ...alert, ...times, status: "firing" },
          { ...alert, ...times, id: 4_712 },
        ],
      }),
    )
    await page.route("**/api/v1/status", async (route) => {
      const found = await (await route.fetch()).json()
      const lanes = found.lanes.map((lane: { name: string }) => ({
        ...lane,
        alertPolicy: true,
        ...{ name: long(lane.name), nextAttemptAt: found.now + 120_000, oldestAt: found.now - 7_200_000 },
      }))
      await route.fulfill({ json: { ...found, lanes } })
    })
    for (const width of [1024, 1280, 1440, 375]) {
      await page.setViewportSize({ width, height: 900 })
      for (const view of ["", "events", "dead-letters", "alerts"]) {
        await show(page, view)
        await page.locator(".scroll:visible").first().waitFor()
        expect([view, width, await page.evaluate(cut)]).toEqual([view, width, []])
        expect([view, width, await page.evaluate(brokenWords)]).toEqual([view, width, []])
      }
    }
    await page.close()
  }, 60_000)

  test("shows hostile content as text in every view, and breaks no policy", async () => {
    const page = await openPage()
    const faults: Array<string> = []
    page.on("pageerror", ({ message }) => faults.push(message))
    page.on("console", ({ text }) => /policy|violat/i.test(text()) && faults.push(text()))
    page.on("request", (request) => request.url().startsWith(site.url) || faults.push(request.url()))
    for (const view of [...views, `event/seq_2`, "event/seq_3"]) {
      await show(page, view)
      await page.waitForTimeout(200)
      const shown = await text(page, "document.body.textContent")
      expect(await page.title()).toMatch(/^[\w ,]+ · relay$/)
      expect([view, await page.evaluate("document.querySelectorAll('img, script:not([src]), b').length")]).toEqual([
        view,
        0,
      ])
      expect([view, /[\p{Bidi_Control}]/u.test(shown) || shown.includes("\u0007")]).toEqual([view, false])
      expect([view, shown.includes("Lovelace"), shown.includes("a-secret-of")]).toEqual([view, false, false])
    }
    await show(page, "events")
    await page.getByText("<img src=x").first().waitFor()
    expect(faults).toEqual([])
    await page.close()
  }, 60_000)

  test("shows the relays on one journal, and which has another config or is silent", async () => {
    const page = await openPage()
    const relay = (name: string, more: object = {}) => ({
      ...{ name, isSelf: false, version: "0.1.0", configHash: "c0ffee", address: "10.0.0.1:9080", age: 400 },
      ...{ streams: [1, 2], shared: false, waiting: 3, ...more },
    })
    const relays = [
      relay("one", { isSelf: true, shared: true }),
      relay(hostile, { configHash: "beef" }),
      relay("three", { age: 90_000 }),
    ]
    const status = JSON.parse(await site.run("status", "--json"))
    await page.route("**/api/v1/status", (route) =>
      route.fulfill({ json: { ...status, fleet: { relays, unowned: [7] } } }),
    )
    await page.goto(site.url)
    await page.getByRole("row", { name: /one this one.*1 and the shared one/ }).waitFor()
    await page.getByRole("row", { name: /beef another/ }).waitFor()
    await page.getByRole("row", { name: /three silent for 90 s/ }).waitFor()
    await page.getByText("no relay delivers at the moment: 7").waitFor()
    await page.close()
  })

  test("reports when it was first painted, and has its policy", async () => {
    const page = await openPage()
    await page.goto(site.url)
    const times: Array<number> = []
    for (let round = 0; round < 3; round++) {
      await page.reload()
      await page.getByText("Sinks").first().waitFor()
      times.push(Number(await page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")))
    }
    console.log(`first paint: ${times.map((millis) => millis.toFixed(0)).join(", ")} ms`)
    const policy = (await page.request.get(site.url)).headers()["content-security-policy"] ?? ""
    expect(policy).not.toContain("unsafe")
    await page.close()
  })

  test("has its changes refused when another site asks for them", async () => {
    const elsewhere = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: () => new Response("<title>elsewhere</title>", { headers: { "content-type": "text/html" } }),
    })
    const page = await openPage()
    await page.goto(`http://localhost:${elsewhere.port}/`)
    for (const type of ["application/json", "text/plain"]) {
      await page.evaluate(
        `fetch("${site.url}/api/v1/lanes/audit/pause", { method: "POST", headers: { "content-type": "${type}" }, body: "{}", mode: "${type === "text/plain" ? "no-cors" : "cors"}" }).catch(() => {})`,
      )
    }
    const read = await text(page, `fetch("${site.url}/api/v1/status").then((r) => r.text(), () => "refused")`)
    expect(read).toBe("refused")
    const status = JSON.parse(await site.run("status", "--json"))
    expect(status.lanes.find(({ name }: { name: string }) => name === "audit").condition).toBe("running")
    await page.close()
    await elsewhere.stop(true)
  })

  test("asks for the token, and keeps it nowhere but in memory", async () => {
    const guarded = await startSite({ admin: { token } })
    const page = await openPage()
    await page.goto(guarded.url)
    await page.getByText("nothing is stored in the browser").waitFor()
    expect(await text(page, "document.activeElement.type")).toBe("password")
    await page.getByLabel("Admin token").fill("a-wrong-token-of-somebody-else-000")
    await page.getByRole("button", { name: "Continue" }).click()
    await page.getByText("This is not the token.").waitFor()
    await page.getByLabel("Admin token").fill(token)
    await page.getByRole("button", { name: "Continue" }).click()
    await page.getByText("All is well").waitFor()
    const kept = await text(
      page,
      "JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href, document.documentElement.outerHTML])",
    )
    expect(kept).not.toContain(token)
    await page.reload()
    await page.getByLabel("Admin token").waitFor()
    await page.close()
    await guarded.stop()
  })

  test("lets a token with the role read see the changes of others, and make none", async () => {
    const own = "the-token-of-a-screen-on-the-wall"
    const tokens = [
      { name: "ada", role: "operate", value: token },
      { name: "screen", role: "read", value: own },
    ]
    const guarded = await startSite({ admin: { tokens } })
    await guarded.run("lanes", "pause", "lake")
    const page = await openPage()
    const unlock = async (text: string) => {
      await page.goto(guarded.url)
      await page.reload()
      await page.getByLabel("Admin token").fill(text)
      await page.getByRole("button", { name: "Continue" }).click()
      await page.getByRole("button", { name: "Resume lake" }).first().waitFor()
    }
    await unlock(own)
    await page.getByText("screen may only read", { exact: true }).waitFor()
    await page.getByRole("button", { name: "Resume lake" }).first().click()
    await page.getByText("This needs one with the role operate").waitFor()
    expect(await page.getByRole("button", { name: "Resume", exact: true }).isDisabled()).toBe(true)
    await page.getByRole("button", { name: "Cancel" }).click()
    await page.getByRole("link", { name: "Replay" }).click()
    expect(await page.getByRole("button", { name: "Dry run" }).isDisabled()).toBe(true)
    await page.getByText("The token screen may only read. This needs one with the role operate.").waitFor()
    await page.getByRole("link", { name: "Audit" }).click()
    const row = page.getByRole("row").filter({ hasText: "lanes pause" })
    await row.waitFor()
    expect((await row.getByRole("cell").allTextContents()).slice(1)).toEqual([
      "ada",
      "the command line",
      "lanes pause",
      "lake",
      "done ",
    ])
    await unlock(token)
    expect(await page.getByText("may only read").count()).toBe(0)
    await page.getByRole("button", { name: "Resume lake" }).first().click()
    await page.getByRole("button", { name: "Resume", exact: true }).click()
    await page.getByText("lake is resumed.").waitFor()
    await page.close()
    await guarded.stop()
  })
})
