/** Every action of the page, in a real browser on the compiled relay. The tests ask the relay for the effects. */
import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, test } from "bun:test"
import type { Browser, Page } from "playwright-core"
import { suiteUnless } from "../lib/lacking.ts"
import { openChromium, reasonToSkip } from "../parts/Chromium.ts"
import { personal, type Site, startSite } from "./site.ts"

setDefaultTimeout(120_000)

suiteUnless(reasonToSkip(), "the page in Chromium", () => {
  let browser: Browser
  let site: Site
  let page: Page
  const faults: Array<string> = []

  beforeAll(async () => {
    ;[browser, site] = await Promise.all([openChromium(), startSite()])
    page = await browser.newPage()
    page.setDefaultTimeout(60_000)
    page.on("pageerror", ({ message }) => faults.push(message))
    page.on("console", (message) => message.type() === "error" && faults.push(message.text()))
  }, 60_000)
  afterAll(async () => {
    await browser?.close()
    await site?.stop()
  })
  // The browser's console reports violations of the policy, and bugs.
  afterEach(() => {
    expect(faults.filter((text) => !text.includes("Failed to load resource"))).toEqual([])
    faults.length = 0
  })

  const show = async (view: string) => {
    await page.goto(`${site.url}/#/${view}`)
    await page.reload()
  }
  const button = (name: string | RegExp) => page.getByRole("button", { name, exact: typeof name === "string" })
  const says = (text: string | RegExp) => page.getByText(text).first().waitFor()
  /** Confirms the dialog. Returns its text. */
  const yes = async (name: string | RegExp): Promise<string> => {
    const dialog = page.getByRole("dialog")
    const text = (await dialog.textContent()) ?? ""
    await dialog.getByRole("button", { name }).click()
    await dialog.waitFor({ state: "detached" })
    return text
  }
  const laneOf = async (name: string) => {
    const status = JSON.parse(await site.run("status", "--json"))
    return status.lanes.find((lane: { name: string }) => lane.name === name)
  }
  const lane = async (name: string, holds: (lane: Awaited<ReturnType<typeof laneOf>>) => boolean) => {
    for (;;) {
      const found = await laneOf(name)
      if (holds(found)) return found
      await Bun.sleep(100)
    }
  }

  test("shows that all is well, and the relay's identity", async () => {
    await show("")
    await says("All is well")
    await says("0.1.0")
    await page.getByRole("img", { name: /deliveries accepted/ }).waitFor()
  })

  test("shows all times in UTC after one switch, as the command line does, and remembers it", async () => {
    const context = await browser.newContext({ timezoneId: "Asia/Kolkata" })
    const far = await context.newPage()
    await site.deliver({ id: "evt_when", type: "block.created" })
    await far.goto(`${site.url}/#/events`)
    const times = async () =>
      (await far.locator("time").allTextContents()).map((text) => text.match(/(GMT.*|UTC)$/)?.[0])
    const label = (zone: string) => far.getByLabel(`Received from (${zone})`)
    await label("GMT+5:30").fill("2026-01-02T05:30")
    await far.getByRole("link", { name: "evt_when" }).waitFor()
    expect(new Set(await times())).toEqual(new Set(["GMT+5:30"]))
    await far.getByRole("button", { name: "Times in UTC" }).click()
    expect(await label("UTC").inputValue()).toBe("2026-01-02T00:00")
    expect(new Set(await times())).toEqual(new Set(["UTC"]))
    await far.reload()
    await far.getByRole("link", { name: "evt_when" }).waitFor()
    expect(new Set(await times())).toEqual(new Set(["UTC"]))
    await context.close()
  })

  test("shows a sink over time: its rate, how long attempts take, and its backlog", async () => {
    await show("")
    await page.getByRole("link", { name: "audit", exact: true }).first().click()
    await page.getByRole("heading", { level: 1, name: "audit file" }).waitFor()
    for (const name of [/events delivered and 0 failed per second/, /99 of 100 attempts/, /a backlog of up to/]) {
      await page.getByRole("img", { name }).waitFor()
    }
    await says("running")
    await show("sink/nobody")
    await says("There is no such sink.")
  })

  test("shows new deliveries and refused requests", async () => {
    await show("live")
    await says("Listening")
    await site.deliver({ id: "evt_live", type: "block.created" })
    await site.deliverUnsigned("/hooks")
    await page.getByRole("link", { name: "evt_live" }).waitFor()
    await says("refused 401")
    await page.getByRole("combobox", { name: "Type" }).fill("client.*")
    await says("Nothing yet")
    await says("Listening")
    await site.deliver({ id: "evt_other", type: "block.created" })
    await site.deliver({ id: "evt_wanted", type: "client.updated" })
    await page.getByRole("link", { name: "evt_wanted" }).waitFor()
    expect(await page.getByText("evt_other").count()).toBe(0)
    await button("Pause").click()
    await says("Paused.")
  })

  test("pauses a sink and resumes it, after asking, by the keyboard", async () => {
    await show("")
    await button("Pause lake").focus()
    await page.keyboard.press("Enter")
    await page.getByRole("dialog").waitFor()
    await page.keyboard.press("Escape")
    await page.getByRole("dialog").waitFor({ state: "detached" })
    expect((await laneOf("lake")).condition).toBe("running")
    expect(await page.evaluate("document.activeElement.ariaLabel")).toBe("Pause lake")
    await button("Pause lake").click()
    expect(await yes("Pause")).toContain("relay lanes pause lake")
    await lane("lake", ({ condition }) => condition === "paused")
    await site.deliver({ id: "evt_kept", type: "appointment.created" })
    await page.getByRole("row", { name: /^lake http paused 1/ }).waitFor()
    await button("Resume lake").first().click()
    expect(await yes("Resume")).toContain("1 event will be sent")
    await lane("lake", ({ condition, backlog }) => condition === "running" && backlog === 0)
    expect(site.received).toContain("/lake")
  })

  test("mutes a sink that sends alerts: for how long, and what happens to its events afterwards", async () => {
    const config = site.config()
    const sinks = config.sinks as Record<string, { url: string }>
    const pager = { type: "pagerduty", routingKey: "0123456789abcdef0123456789abcdef", url: sinks.lake?.url }
    site.writeConfig({ ...config, sinks: { ...sinks, pager } })
    await site.run("reload")
    await show("")
    await button("Pause lake").click()
    await page.getByRole("combobox", { name: "For" }).selectOption("8h")
    expect(await page.getByRole("combobox", { name: "Then" }).count()).toBe(0)
    await button("Cancel").click()
    await button("Pause pager").click()
    await page.getByRole("combobox", { name: "For" }).selectOption("8h")
    await page.getByRole("combobox", { name: "Then" }).selectOption("drop")
    expect(await yes("Pause")).toContain("relay lanes pause pager --for 8h --then drop")
    const { message, pausedThen } = await lane("pager", ({ condition }) => condition === "paused")
    expect([message, pausedThen]).toEqual([
      expect.stringContaining("events received meanwhile are dropped then"),
      "drop",
    ])
    await site.run("lanes", "resume", "pager")
    site.writeConfig(config)
    await site.run("reload")
  })

  test("closes a question with the view that asked it", async () => {
    await show("")
    await button("Pause lake").click()
    await page.getByRole("dialog").waitFor()
    await page.evaluate("location.hash = '#/events'")
    await page.getByRole("dialog").waitFor({ state: "detached" })
    await page.goBack()
    await button("Pause lake").waitFor()
    expect(await page.getByRole("dialog").count()).toBe(0)
  })

  test("retries an unavailable sink immediately, and shows the remedy", async () => {
    site.answers.set("/lake", () => new Response("away", { status: 401 }))
    await site.deliver({ id: "evt_away", type: "appointment.created" })
    await show("")
    await says("1 critical")
    await says(/check the credentials/)
    await button("Retry lake now").first().click()
    site.answers.delete("/lake")
    await yes("Retry now")
    await lane("lake", ({ condition }) => condition === "running")
    await page.getByText("critical").first().waitFor({ state: "detached" })
  })

  test("replays a dead letter that was chosen, then all of a sink's, and deletes others", async () => {
    site.answers.set("/crm", () => Response.json({ error: `no such client: ${personal}` }, { status: 413 }))
    for (const number of [1, 2, 3, 4]) await site.deliver({ id: `evt_dead${number}`, type: "client.created" })
    await lane("crm", ({ deadLetters }) => deadLetters === 4)
    await show("dead-letters?sink=crm")
    await page
      .getByRole("checkbox", { name: /^Choose crm:/ })
      .first()
      .check()
    await button("Delete 1 chosen…").click()
    expect(await yes("Delete")).toContain("can’t be undone")
    await lane("crm", ({ deadLetters }) => deadLetters === 3)
    site.answers.delete("/crm")
    await page
      .getByRole("checkbox", { name: /^Choose crm:/ })
      .nth(2)
      .waitFor()
    await page
      .getByRole("checkbox", { name: /^Choose crm:/ })
      .first()
      .check()
    await button("Replay 1 chosen…").click()
    expect(await yes("Replay")).toContain("Replay 1 dead letter?")
    await lane("crm", ({ deadLetters }) => deadLetters === 2)
    await page
      .getByRole("checkbox", { name: /^Choose crm:/ })
      .nth(2)
      .waitFor({ state: "detached" })
    // A time in the future excludes all rows, and a time in the past none.
    for (const [label, nothing] of [
      ["Received from", true],
      ["Ended from", true],
      ["Received before", false],
      ["Ended before", false],
    ] as const) {
      await page.getByLabel(label).fill("2099-01-01T00:00")
      await button("Filter").click()
      if (nothing) await says("No dead letters here")
      else await button("Replay all of these…").click()
      if (!nothing) {
        const flag = label === "Received before" ? "--until" : "--ended-until"
        await page.getByRole("dialog").getByText(`${flag} 2099-01-01T00:00:00`).waitFor()
        await page.getByRole("dialog").getByText("Replay 2 dead letters?").waitFor()
        await button("Cancel").click()
      }
      await page.getByLabel(label).fill("")
    }
    await button("Filter").click()
    await button("Replay all of these…").click()
    await page.getByLabel("Events a second").fill("0.5")
    await page.getByRole("dialog").getByText("This takes 4 s.").waitFor()
    await page.getByRole("dialog").getByText("--rate 0.5").waitFor()
    await button("Replay").click()
    await page.getByRole("dialog").getByRole("alert").waitFor()
    await page.getByLabel("Events a second").fill("1")
    const asked = page.waitForRequest((request) => request.url().endsWith("/dead-letters/replay"))
    expect(await yes("Replay")).toContain("Replay 2 dead letters?")
    expect((await asked).postDataJSON()).toMatchObject({ sink: "crm", rate: 1 })
    await lane("crm", ({ deadLetters, backlog }) => deadLetters + backlog === 0)
    await says("No dead letters")
  })

  test("replays quarantined deliveries, and shows which ones stay", async () => {
    await site.deliver({ id: "evt_quarantined", type: "relay.made_up" })
    await show("sink/_quarantine")
    await page.getByRole("heading", { level: 1, name: /^_quarantine/ }).waitFor()
    await says("running")
    expect(await button("Pause _quarantine").count()).toBe(0)
    await show("dead-letters?sink=_quarantine")
    await says("the relay's own")
    await button("Replay all of these…").click()
    await yes("Replay")
    await says("1 stayed in quarantine")
    await button("Delete all of these…").click()
    await yes("Delete")
    await lane("_quarantine", ({ deadLetters }) => deadLetters === 0)
  })

  test("shows an event's whole story, with personal data masked until requested", async () => {
    site.answers.set("/crm", () => new Response(`not ${personal}`, { status: 422 }))
    await site.deliver({
      id: "evt_story",
      type: "client.updated",
      account: "acct_9",
      object: { id: "cli_1", name: personal },
    })
    await lane("crm", ({ deadLetters }) => deadLetters === 1)
    await lane("audit", ({ backlog }) => backlog === 0)
    await show("events")
    await page.getByLabel("Account").fill("acct_9")
    await button("Search").click()
    await page.getByRole("link", { name: "evt_story" }).click()
    await says("dead letter")
    await says("matches")
    await says("verified by the secret main")
    await says("Sent, as the active config renders it")
    await says("What would be sent, by the active config")
    await page.getByRole("heading", { level: 1, name: "evt_story" }).waitFor()
    await page.getByRole("row", { name: /crm attempt 1 failed.* ms 422/ }).waitFor()
    await page.getByRole("row", { name: /audit delivered by attempt 1/ }).waitFor()
    await says(/Masked: .*object\.name/)
    await says("***")
    const told = async () => (await page.evaluate("document.body.textContent")) as string
    expect(await told()).not.toContain("Lovelace")
    await button("Show personal data…").click()
    expect(await yes("Show it")).toMatch(/relay explain seq_\d+ --reveal/)
    await says(/not Ada Lovelace/)
    await button("Mask personal data").click()
    await page.getByText(/not Ada Lovelace/).waitFor({ state: "detached" })
    expect(await told()).not.toContain("Lovelace")
    site.answers.delete("/crm")
    await button("Replay…").click()
    await yes("Replay")
    await lane("crm", ({ deadLetters, backlog }) => deadLetters + backlog === 0)
    await page.reload()
    await page.getByRole("row", { name: /crm delivered by attempt 2/ }).waitFor()
  })

  test("shows an erased event as erased, and offers no replay of it", async () => {
    site.answers.set("/crm", () => new Response(`not ${personal}`, { status: 422 }))
    await site.deliver({ id: "evt_erased", type: "client.updated", account: "acct_8", object: { name: personal } })
    await lane("crm", ({ deadLetters }) => deadLetters === 1)
    // The other sinks have the event, but the journal learns that a moment later.
    while (
      JSON.parse(await site.run("events", "--account", "acct_8", "--outcome", "pending", "--json")).events.length > 0
    )
      await Bun.sleep(50)
    await site.run("events", "erase", "--account", "acct_8")
    await show("events?account=acct_8")
    await page.getByRole("row", { name: /evt_erased erased/ }).waitFor()
    await page.getByRole("link", { name: "evt_erased" }).click()
    await says("body, signature and answers are gone")
    await says(/its body was erased on/)
    expect(await page.getByText(/Replay(…| this)/).count()).toBe(0)
    site.answers.delete("/crm")
    await show("dead-letters")
    await page.getByRole("row", { name: /evt_erased erased/ }).waitFor()
    await site.run("dlq", "drop", "--all")
  })

  test("finds events by type and outcome, and one by its id", async () => {
    await show("events")
    await page.getByRole("combobox", { name: "Type" }).fill("block.*")
    await page.getByLabel("Outcome").selectOption("delivered")
    await button("Search").click()
    await page.waitForURL(/type=block/)
    await page.getByRole("link", { name: "evt_live" }).waitFor()
    await page.getByText("client.updated").first().waitFor({ state: "detached" })
    await page.getByLabel("Any id").fill("evt_kept")
    await button("Find").click()
    await page.getByRole("heading", { level: 1, name: "evt_kept" }).waitFor()
    await says("appointment.created")
  })

  test("replays by query: a dry run counts, then as many are sent", async () => {
    await show("replay")
    await page.getByRole("combobox", { name: "Types" }).fill("appointment.*")
    await page.getByLabel("To").selectOption("lake")
    await page.getByLabel("Sink").selectOption("audit")
    await page.getByLabel("Events a second").fill("100")
    await button("Dry run").click()
    await says("2 events would be sent")
    await page.getByText("These events").first().click()
    await page.getByRole("link", { name: "evt_kept" }).first().waitFor()
    const before = site.received.filter((path) => path === "/lake").length
    await button("Send 2…").click()
    expect(await yes(/^Send 2$/)).toMatch(/Send 2 events again\?.*--sink audit.*--rate 100/s)
    await says("2 events queued")
    await lane("lake", ({ backlog }) => backlog === 0)
    expect(site.received.filter((path) => path === "/lake").length).toBe(before + 2)
  })

  test("cancels a waiting replay, after showing the queued events", async () => {
    await site.run("lanes", "pause", "lake")
    const config = site.config()
    const { lake } = config.sinks as Record<string, object>
    site.writeConfig({ ...config, sinks: { ...(config.sinks as object), lake: { ...lake, backlog: { max: 2 } } } })
    await site.run("reload")
    await site.deliver({ id: "evt_fills", type: "appointment.created" })
    await show("replay")
    await page.getByRole("combobox", { name: "Types" }).fill("appointment.*")
    await page.getByLabel("To").selectOption("lake")
    await button("Dry run").click()
    await says("1 of these is still pending or retrying at a sink, which will receive it twice.")
    await button(/^Send \d+…$/)
      .first()
      .click()
    await yes(/^Send/)
    await says("waiting")
    await button("Cancel…").click()
    expect(await yes("Cancel the replay")).toContain("no others will be")
    await says("cancelled")
    site.writeConfig(site.config())
    await site.run("reload")
    await site.run("lanes", "resume", "lake")
  })

  test("shows text in backticks as code, in all messages", async () => {
    await site.run("lanes", "pause", "lake")
    await site.deliver({ id: "evt_paused", type: "appointment.created" })
    for (const view of ["", "sink/lake", "event/evt_paused"]) {
      await show(view)
      await page.locator("code", { hasText: "relay lanes resume lake" }).first().waitFor()
      expect(await page.evaluate("document.body.innerText")).not.toContain("`")
    }
    await site.run("lanes", "resume", "lake")
    await show("")
    await button("Reload…").click()
    await page.route("**/api/v1/reload", (route) =>
      route.fulfill({ status: 409, json: { message: "compare `headers.signature`: it is `odd" } }),
    )
    await page.getByRole("dialog").getByRole("button", { name: "Reload" }).click()
    const alert = page.getByRole("dialog").getByRole("alert")
    await alert.locator("code", { hasText: /^headers\.signature$/ }).waitFor()
    expect(await alert.textContent()).toBe("compare headers.signature: it is `odd")
    await page.unroute("**/api/v1/reload")
  })

  test("says that the audit log is empty", async () => {
    await page.route("**/api/v1/audit*", (route) => route.fulfill({ json: { records: [] } }))
    await show("audit")
    await says("No operation is recorded.")
    expect(await page.getByText("The newest").count()).toBe(0)
    await page.unroute("**/api/v1/audit*")
    await site.run("lanes", "pause", "old")
    await site.run("lanes", "resume", "old")
    await show("audit")
    await says("The newest")
    const [sentence, table] = [page.getByText("What was changed"), page.locator(".scroll")]
    const [above, below] = [await sentence.boundingBox(), await table.boundingBox()]
    expect((below?.y ?? 0) - (above?.y ?? 0) - (above?.height ?? 0)).toBeGreaterThanOrEqual(8)
  })

  test("says that the view doesn't exist, and links to the overview", async () => {
    await show("nope")
    await page.getByRole("heading", { level: 1, name: "No such view" }).waitFor()
    await says("#/nope")
    await page.getByRole("main").getByRole("link", { name: "Overview" }).click()
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor()
  })

  test("explains a type as it is typed", async () => {
    await show("routes")
    await says("since the start".replace("s", "S"))
    await page.getByRole("combobox").first().pressSequentially("client.created")
    await says("client.created →")
    await page.getByText("audit, crm").waitFor()
    await page.getByRole("combobox").first().fill("client.creatd")
    await says("not in the sender’s catalogue")
    await button("client.created").click()
    await page.getByText("not in the sender’s catalogue").waitFor({ state: "detached" })
    await says("client.created →")
  })

  test("does not warn of a route that takes only the relay's own events, which are not counted", async () => {
    const route = { match: ["client.*"], except: [], where: {}, to: ["audit"], count: 0 }
    const routes = [
      { ...route, name: "busy", count: 7 },
      { ...route, name: "idle" },
      { ...route, name: "own", match: ["relay.*", "relay.dead_letter"] },
      { ...route, name: "both", match: ["relay.*", "client.*"] },
    ]
    await page.route("**/api/v1/routes", (asked) => asked.fulfill({ json: routes }))
    await show("routes")
    await page.getByRole("row", { name: /^own/ }).waitFor()
    const shown = await page.locator("tbody tr td:last-child").allTextContents()
    expect(shown).toEqual(["7", "none yet", "–", "none yet"])
    await show("")
    await page.getByTitle("takes only the relay’s own events").waitFor()
    expect(await page.getByRole("meter", { name: /events since the start/ }).count()).toBe(3)
    await page.unroute("**/api/v1/routes")
  })

  test("reloads the config, or shows why it is unchanged; moves and drops events of a removed sink", async () => {
    await site.run("lanes", "pause", "old")
    for (const number of [1, 2]) await site.deliver({ id: `evt_old${number}`, type: "service.created" })
    await lane("old", ({ backlog }) => backlog === 2)
    const config = site.config()
    const { old: _, ...sinks } = config.sinks as Record<string, unknown>
    site.writeConfig({ ...config, sinks })
    await show("")
    await button("Reload…").click()
    await page.getByRole("dialog").getByRole("button", { name: "Reload" }).click()
    await page.getByRole("dialog").getByRole("alert").waitFor()
    expect(await page.getByRole("dialog").textContent()).toContain("old")
    await page.keyboard.press("Escape")
    await says("the last reload was refused")
    const routes = (config.routes as ReadonlyArray<{ name: string }>).filter(({ name }) => name !== "services")
    site.writeConfig({ ...config, sinks, routes })
    await button("Reload…").first().click()
    await yes("Reload")
    await says(/Reloaded: sink old removed/)
    await button("Move old").first().click()
    await page.getByRole("dialog").getByLabel("To the sink").selectOption("lake")
    await says("relay lanes move old lake")
    expect(await yes("Move 2 events")).toContain("2 events will be sent to another sink")
    await says("2 events moved to lake.")
    expect(await laneOf("old")).toBeUndefined()
  })

  test("drops the events of a removed sink, and shows how many are lost", async () => {
    await site.run("lanes", "pause", "crm")
    await site.deliver({ id: "evt_dropped", type: "client.created" })
    await lane("crm", ({ backlog }) => backlog === 1)
    const config = site.config()
    const { crm: _, ...sinks } = config.sinks as Record<string, unknown>
    const routes = (config.routes as ReadonlyArray<{ name: string }>).filter(({ name }) => name !== "clients")
    site.writeConfig({ ...config, sinks, routes })
    await site.run("reload")
    await show("")
    await button("Drop crm").first().click()
    expect(await yes("Drop 1")).toContain("1 event will never be delivered there")
    await says("crm is dropped, with 1 event.")
    expect(await laneOf("crm")).toBeUndefined()
  })

  test("acknowledges the journal's losses, after showing them again", async () => {
    const status = JSON.parse(await site.run("status", "--json"))
    const journal = { ...status.journal, health: "red", message: "3 events were lost\nby a damaged page" }
    await page.route("**/api/v1/status", (route) => route.fulfill({ json: { ...status, journal } }))
    await show("")
    await button("Acknowledge…").click()
    const asked = page.waitForResponse(/journal\/acknowledge$/)
    expect(await yes("Acknowledge")).toContain("3 events were lost")
    expect((await asked).ok()).toBe(true)
    await page.unroute("**/api/v1/status")
  })

  test("calls a digest that waits collecting, and not retrying", async () => {
    const config = site.config()
    const sinks = config.sinks as Record<string, object>
    const routes = config.routes as ReadonlyArray<object>
    const digest = { format: "template", body: "{{count}} events", digest: { wait: "10 minutes" } }
    site.writeConfig({
      ...config,
      sinks: { ...sinks, chat: { ...sinks.lake, ...digest } },
      routes: [...routes, { name: "providers", match: "provider.*", to: ["chat"] }],
    })
    await site.run("reload")
    await site.deliver({ id: "evt_collected", type: "provider.created" })
    while (!(await site.run("events")).includes("chat collecting")) await Bun.sleep(100)
    expect(await laneOf("chat")).toMatchObject({ backlog: 1, retrying: 0, collecting: 1 })
    await show("events?type=provider.*")
    await page.getByRole("row", { name: /chat collecting/ }).waitFor()
    await page.getByRole("link", { name: "evt_collected" }).click()
    await says("What would be sent of this event alone, by the active config")
    await says("A digest of several events has another body and idempotency key.")
    await show("")
    await page.getByRole("row", { name: /^chat http running 1 \(1 collecting\)/ }).waitFor()
    await page.getByRole("link", { name: "chat", exact: true }).click()
    await page.getByRole("definition").filter({ hasText: "1 (1 collecting)" }).waitFor()
    site.writeConfig(config)
    await site.run("reload")
    await site.run("lanes", "drop", "chat")
  })

  test("leads from an event to all events of its digest", async () => {
    const config = site.config()
    const sinks = config.sinks as Record<string, object>
    const digest = { format: "template", body: "{{count}} events", digest: { wait: "1 second", maxEvents: 2 } }
    site.writeConfig({
      ...config,
      sinks: { ...sinks, chat: { ...sinks.lake, ...digest } },
      routes: [...(config.routes as ReadonlyArray<object>), { name: "providers", match: "provider.*", to: ["chat"] }],
    })
    await site.run("reload")
    for (const id of ["evt_one", "evt_two"]) await site.deliver({ id, type: "provider.created" })
    await lane("chat", ({ backlog }) => backlog === 0)
    await show("event/evt_one")
    await page.getByRole("link", { name: "All events of its digest" }).click()
    for (const name of ["evt_one", "evt_two"]) await page.getByRole("link", { name }).waitFor()
    site.writeConfig(config)
    await site.run("reload")
  })

  test("works in more tabs than a browser opens connections to a host, all of them live", async () => {
    // Tabs of the same context share its connections.
    const context = await browser.newContext()
    const tabs = await Promise.all(Array.from({ length: 8 }, () => context.newPage()))
    await Promise.all(tabs.map((tab) => tab.goto(`${site.url}/#/live`)))
    for (const tab of tabs) await tab.getByText("Listening").waitFor()
    await site.deliver({ id: "evt_tabs", type: "block.created" })
    for (const tab of tabs) await tab.getByRole("link", { name: "evt_tabs" }).waitFor()
    await context.close()
  })

  test("says that the relay is silent when it hangs, and continues with it", async () => {
    await show("")
    await says("Live")
    site.freeze()
    await says("the relay is silent")
    await page.locator("main.stale").waitFor()
    expect(await page.title()).toBe("Disconnected · All is well · relay")
    site.thaw()
    await page.locator("main:not(.stale)").waitFor()
    expect(await page.title()).toBe("All is well · relay")
  })

  test("shows no error of a time without the relay once it answers again", async () => {
    await show("")
    await says("Live")
    await page.route("**/api/**", (route) => route.abort())
    await page.getByRole("link", { name: "Events" }).click()
    // The connection's error and the view's error.
    await page.getByRole("alert").nth(1).waitFor()
    await page.unroute("**/api/**")
    await page.locator("main:not(.stale)").waitFor()
    await page.getByRole("alert").first().waitFor({ state: "detached" })
    await page.getByRole("table").waitFor()
  })

  test("is right across a restart of the relay: old data is marked as old, and then replaced", async () => {
    await show("")
    await says("Live")
    // The text is shown for a few seconds only, so the wait starts before it appears.
    const said = says("The relay has restarted.")
    await site.restart(async () => {
      await says("Not connected")
      await page.locator("main.stale").waitFor()
    })
    await Promise.all([said, page.locator("main:not(.stale)").waitFor()])
  })
})
