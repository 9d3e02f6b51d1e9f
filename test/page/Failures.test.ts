/** An operator looks for the reason of a failure, on a phone and on a desktop. The first screen must show it. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test"
import type { Browser, Page } from "playwright-core"
import { suiteUnless } from "../lib/lacking.ts"
import { openChromium, reasonToSkip } from "../parts/Chromium.ts"
import { personal, type Site, startSite } from "./site.ts"

setDefaultTimeout(120_000)

const screens = [
  { width: 375, height: 812 },
  { width: 1440, height: 900 },
]

suiteUnless(reasonToSkip(), "failures on the page in Chromium", () => {
  let browser: Browser
  let site: Site
  let page: Page

  beforeAll(async () => {
    ;[browser, site] = await Promise.all([openChromium(), startSite()])
    site.answers.set("/crm", () => Response.json({ error: `no such client: ${personal}` }, { status: 422 }))
    const object = { id: "cli_1", name: personal }
    await site.deliver({ id: "evt_failed", type: "client.updated", account: "acct_9", object })
    await untilLane("crm", ({ deadLetters }) => deadLetters === 1)
    await untilLane("audit", ({ backlog }) => backlog === 0)
    page = await browser.newPage()
    page.setDefaultTimeout(60_000)
  }, 60_000)
  afterAll(async () => {
    await browser?.close()
    await site?.stop()
  })

  const untilLane = async (name: string, holds: (lane: { deadLetters: number; backlog: number }) => boolean) => {
    for (;;) {
      const { lanes } = JSON.parse(await site.run("status", "--json"))
      if (holds(lanes.find((lane: { name: string }) => lane.name === name))) return
      await Bun.sleep(100)
    }
  }
  const show = async (view: string) => {
    await page.goto(`${site.url}/#/${view}`)
    await page.reload()
    await page.locator("[aria-busy=true]").waitFor({ state: "detached" })
  }

  for (const screen of screens) {
    test(`shows the failed sink first, with the service's answer, on a screen ${screen.width} wide`, async () => {
      await page.setViewportSize(screen)
      await show("event/evt_failed")
      const sinks = page.getByRole("list", { name: "Sinks" }).getByRole("listitem")
      await sinks.first().waitFor()
      expect(await sinks.getByRole("heading").allTextContents()).toEqual(["crm", "audit"])
      const reason = sinks.first().getByText('answered 422; it says "no such client: ***"')
      const { y = Number.NaN, height = Number.NaN } = (await reason.boundingBox()) ?? {}
      expect(y + height).toBeLessThan(screen.height)
      expect(await page.evaluate("document.body.textContent")).not.toContain("Lovelace")
    })
  }

  test("says that an unknown id never arrived or was deleted, and what to check", async () => {
    await show("event/evt_unknown")
    await page.getByText(/^evt_unknown never came: the journal still has every event since /).waitFor()
    await page.getByText(/^In the sender's log, look for evt_unknown/).waitFor()
    await page.route("**/api/v1/events/*", async (route) => {
      const found = await (await route.fetch()).json()
      await route.fulfill({ json: { ...found, kept: { ...found.kept, pruned: true } } })
    })
    await show("event/evt_unknown")
    await page
      .getByText(/an older event may have come and been deleted \(journal.retention, journal.maxSize\)/)
      .waitFor()
    await page.unroute("**/api/v1/events/*")
  })

  test("shows the target of a sink without possible secrets", async () => {
    await show("sink/crm")
    await page
      .getByRole("definition")
      .filter({ hasText: /^http:\/\/127\.0\.0\.1:\d+$/ })
      .waitFor()
  })

  for (const screen of screens) {
    test(`shows why a sink fails and its last attempts, on a screen ${screen.width} wide`, async () => {
      await page.setViewportSize(screen)
      await show("sink/crm")
      const causes = page.getByRole("region", { name: "Failures by cause" })
      const cause = causes.getByRole("row").filter({ hasText: 'answered 422; it says "no such client: ***"' })
      await cause.getByRole("link", { name: "evt_failed" }).waitFor()
      const { y = Number.NaN } = (await cause.boundingBox()) ?? {}
      expect(y).toBeLessThan(screen.height)
      const attempts = page.getByRole("region", { name: "Last attempts" })
      await attempts.getByRole("row").filter({ hasText: "evt_failed" }).getByText("422", { exact: true }).waitFor()
      expect(await page.evaluate("document.body.textContent")).not.toContain("Lovelace")
    })
  }

  test("replays the failures of one sink since a time, as the command line would", async () => {
    await show("sink/crm")
    await page.getByLabel(/^Received since/).fill("2026-01-01T00:00")
    await page.getByRole("button", { name: "Replay since…" }).click()
    const dialog = page.getByRole("dialog")
    await dialog.getByRole("heading", { name: "Replay 1 dead letter?" }).waitFor()
    await dialog.getByText(/relay dlq replay --sink crm --since 202/).waitFor()
    await dialog.getByRole("button", { name: "Replay" }).click()
    await dialog.waitFor({ state: "detached" })
    await page.getByText("1 dead letter queued again.").waitFor()
    // The sink refuses the event again.
    await untilLane("crm", ({ deadLetters }) => deadLetters === 1)
  })

  test("says before a replay which events it has, and that newer ones of their keys were delivered", async () => {
    const config = site.config()
    const sinks = config.sinks as Record<string, object>
    site.writeConfig({ ...config, sinks: { ...sinks, crm: { ...sinks.crm, order: "key", key: "{{account_id}}" } } })
    await site.run("reload")
    const refuse = site.answers.get("/crm") ?? (() => new Response())
    site.answers.delete("/crm")
    await site.deliver({ id: "evt_newer", type: "client.updated", account: "acct_9" })
    const isDelivered = async () =>
      (await site.run("events", "--sink", "crm", "--outcome", "delivered")).includes("newer")
    while (!(await isDelivered())) await Bun.sleep(100)
    await show("sink/crm")
    await page.getByRole("button", { name: "Replay all dead letters…" }).click()
    const dialog = page.getByRole("dialog")
    await dialog.getByText("1 newer event of the same keys was delivered to crm already.").waitFor()
    await dialog.getByText("These events").click()
    await dialog.getByRole("link", { name: "evt_failed" }).waitFor()
    expect(await dialog.textContent()).not.toContain("quarantine")
    await dialog.getByRole("button", { name: "Cancel" }).click()
    site.answers.set("/crm", refuse)
    site.writeConfig(config)
    await site.run("reload")
  })

  test("finds an event, a place in the log, a dead letter, an account and a client in one box", async () => {
    const find = async (id: string) => {
      await show("events")
      await page.getByLabel("Any id").fill(id)
      await page.getByRole("button", { name: "Find" }).click()
      await page.waitForURL(/#\/(event\/|events\?)/)
      return new URL(page.url()).hash
    }
    expect(await find("evt_failed")).toBe("#/event/evt_failed")
    const { events } = JSON.parse(await site.run("explain", "evt_failed", "--json"))
    const place = `seq_${events[0].sequence}`
    expect(await find(place)).toBe(`#/event/${place}`)
    expect(await find(`crm:${events[0].sequence}`)).toBe(`#/event/${place}`)
    expect(await find("acct_9")).toBe("#/events?account=acct_9")
    expect(await find("cli_1")).toBe("#/events?object=cli_1")
    await page.getByRole("link", { name: "evt_failed" }).waitFor()
    expect(await find("evt_unknown")).toBe("#/event/evt_unknown")
  })

  test("lists the events of one sink by their outcome there", async () => {
    await show("events")
    await page.getByLabel("Sink").selectOption("crm")
    await page.getByLabel("Outcome").selectOption("dead")
    await page.getByRole("button", { name: "Search" }).click()
    await page.waitForURL(/sink=crm/)
    await page.getByRole("link", { name: "evt_failed" }).waitFor()
    await page.getByLabel("Outcome").selectOption("pending")
    await page.getByRole("button", { name: "Search" }).click()
    await page.getByText(/^No match in/).waitFor()
  })

  test("lists events on a phone in three lines each, with the filters folded", async () => {
    for (let number = 0; number < 30; number++) await site.deliver({ id: `evt_many${number}`, type: "client.merged" })
    await page.setViewportSize({ width: 375, height: 812 })
    await show("events")
    await page.getByRole("link", { name: "evt_many29" }).waitFor()
    expect(await page.getByRole("button", { name: "Search" }).isVisible()).toBe(false)
    expect(Number(await page.evaluate("document.documentElement.scrollHeight"))).toBeLessThan(3 * 812)
    await page.getByText("Filters").click()
    await page.getByRole("button", { name: "Search" }).waitFor()
  })

  test("shows the PagerDuty incident of an event by its dedup key", async () => {
    const config = site.config()
    const pager = { type: "pagerduty", routingKey: "0123456789abcdef0123456789abcdef" }
    site.writeConfig({
      ...config,
      sinks: {
        ...(config.sinks as object),
        pager: { ...pager, url: (config.sinks as Record<string, { url: string }>).crm?.url },
      },
      routes: [{ name: "failures", match: "block.*", to: ["pager"] }, ...(config.routes as ReadonlyArray<object>)],
    })
    await site.run("reload")
    await site.deliver({ id: "evt_paged", type: "block.created", account: "acct_9", object: { id: "blk_1" } })
    await show("event/evt_paged")
    await page.getByText(/^PagerDuty incident: dedup key block.created\/acct_9\/blk_1$/).waitFor()
  })

  test("shows an alert with its events, and acknowledges, mutes and resolves it, on a phone, too", async () => {
    const tab = page.getByRole("link", { name: "Alerts", exact: true })
    const row = (text: string) => page.locator("tbody tr", { hasText: new RegExp(text) })
    site.writeConfig(site.config())
    await site.run("reload")
    await show("alerts")
    await page.getByText(/^No sink has alerts/).waitFor()
    expect(await tab.count()).toBe(0)
    const { sinks, routes } = site.config() as { sinks: Record<string, { url: string }>; routes: ReadonlyArray<object> }
    const target = { type: "pagerduty", routingKey: "0123456789abcdef0123456789abcdef", url: sinks.lake?.url }
    site.answers.set("/lake", () => Response.json({ status: "success" }, { status: 202 }))
    const pager = { ...target, resolve: true, alert: { repeat: "4 hours" } }
    const type = "connected_account.refresh_failed"
    site.writeConfig({
      ...site.config(),
      sinks: { ...sinks, pager },
      routes: [...routes, { name: "lost", match: type, to: ["pager"] }],
    })
    await site.run("reload")
    await tab.click()
    await page.getByText("No alerts at the moment.").waitFor()
    for (const id of ["evt_lost1", "evt_lost2", "evt_lost3"]) await site.deliver({ id, type, object: { id: "cal_1" } })
    await untilLane("pager", ({ backlog }) => backlog === 0)
    const [{ id }] = JSON.parse(await site.run("alerts", "list", "--json"))

    for (const screen of [...screens, { width: 1_280, height: 900 }]) {
      await page.setViewportSize(screen)
      await show("alerts")
      await row(`refresh_failed id ${id}, acct_1firingpager.*ago3.*in [34] `).waitFor()
      const right = "document.querySelector('.row-actions button:last-child').getBoundingClientRect().right"
      expect(Number(await page.evaluate(right))).toBeLessThan(screen.width)
      expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBe(0)
    }

    await page.getByRole("link", { name: "3", exact: true }).click()
    await page.getByRole("link", { name: "evt_lost2" }).waitFor()
    expect(await page.getByRole("link", { name: "evt_lost1" }).count()).toBe(0)
    await page.getByRole("link", { name: "evt_lost3" }).click()
    await page.setViewportSize({ width: 375, height: 812 })
    await page.getByRole("link", { name: `alert ${id}` }).click()

    const dialog = page.getByRole("dialog")
    for (const [action, command, state] of [
      ["Acknowledge", "ack", "acknowledged"],
      ["Mute", "mute", "muted until .*Z?"],
      ["Resolve", "resolve", "resolved"],
    ] as const) {
      await page.getByRole("button", { name: `${action} alert ${id} of pager` }).click()
      await dialog.getByText(`relay alerts ${command} pager ${id}`).waitFor()
      await dialog.getByRole("button", { name: action }).click()
      await row(`${state}pager.*ago3.*none`).waitFor()
    }
    expect(await page.getByRole("button", { name: /of pager$/ }).count()).toBe(0)
    await page.getByRole("heading", { name: "Sent to pagerduty" }).waitFor()
    await row("^trigger.*delivered").waitFor()
    await row("^evt_lost3").waitFor()
    await show("alerts?sink=pager&id=1")
    await page.getByText(/^There is no alert 1 of the sink any more/).waitFor()
  })
})
