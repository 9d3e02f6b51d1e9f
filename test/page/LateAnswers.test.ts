/** Late answers of the API. The page never shows an answer to another request. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test"
import type { Browser, Page } from "playwright-core"
import { until } from "../lib/kit.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { openChromium, reasonToSkip } from "../parts/Chromium.ts"
import { personal, type Site, startSite, token } from "./site.ts"

setDefaultTimeout(120_000)

suiteUnless(reasonToSkip(), "late answers on the page in Chromium", () => {
  let browser: Browser
  let site: Site
  let page: Page

  beforeAll(async () => {
    ;[browser, site] = await Promise.all([openChromium(), startSite()])
    site.answers.set("/crm", () => new Response("", { status: 422 }))
    const object = { id: "cli_1", name: personal }
    await site.deliver({ id: "evt_failed", type: "client.updated", account: "acct_9", object })
    await until(async () => {
      const { lanes } = JSON.parse(await site.run("status", "--json"))
      return lanes.some((lane: { name: string; deadLetters: number }) => lane.name === "crm" && lane.deadLetters === 1)
    })
    page = await browser.newPage()
    page.setDefaultTimeout(60_000)
  }, 60_000)
  afterAll(async () => {
    await browser?.close()
    await site?.stop()
  })

  const show = async (view: string) => {
    await page.goto(`${site.url}/#/${view}`)
    await page.reload()
    await page.locator("[aria-busy=true]").waitFor({ state: "detached" })
  }
  /** Follows a link of the page without a reload. */
  const follow = (hash: string) => page.evaluate(`location.hash = ${JSON.stringify(hash)}`)
  const count = (text: string | RegExp) => page.getByText(text).count()
  /** Holds the answers whose URL matches. `release` waits until the page has drawn them. */
  const hold = async (url: RegExp) => {
    const asked = Promise.withResolvers<void>()
    const free = Promise.withResolvers<void>()
    await page.route(url, async (route) => {
      asked.resolve()
      await free.promise
      await route.continue()
    })
    return {
      asked: asked.promise,
      release: async () => {
        const answered = page.waitForResponse(url)
        free.resolve()
        await (await answered).finished()
        await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        await page.unroute(url)
      },
    }
  }

  test("shows that a list loads instead of the answer for the sink chosen before", async () => {
    await show("dead-letters?sink=lake")
    await page.getByText("No dead letters here.").waitFor()
    const held = await hold(/dead-letters\?.*sink=crm/)
    await follow("#/dead-letters?sink=crm")
    await held.asked
    await page.getByText("Loading…").waitFor()
    expect(await count("No dead letters here.")).toBe(0)
    await held.release()
    await page.getByRole("link", { name: "evt_failed" }).waitFor()
    expect(await count("Loading…")).toBe(0)
  })

  test("doesn't show the error of the sink chosen before", async () => {
    await page.route(/dead-letters\?.*sink=lake/, (route) =>
      route.fulfill({ status: 500, json: { detail: "too slow" } }),
    )
    await show("dead-letters?sink=lake")
    await page.getByRole("alert").waitFor()
    const held = await hold(/dead-letters\?.*sink=crm/)
    await follow("#/dead-letters?sink=crm")
    await held.asked
    await page.getByText("Loading…").waitFor()
    expect(await page.getByRole("alert").count()).toBe(0)
    await held.release()
    await page.unroute(/dead-letters\?.*sink=lake/)
  })

  test("shows the filter of the address after a step back", async () => {
    await show("dead-letters")
    await page.getByLabel("Type").fill("client.*")
    await page.getByRole("button", { name: "Filter" }).click()
    await page.waitForURL(/type=client/)
    await page.goBack()
    await page.waitForURL(/dead-letters$/)
    await until(async () => (await page.getByLabel("Type").inputValue()) === "")
    await page.goForward()
    await until(async () => (await page.getByLabel("Type").inputValue()) === "client.*")
  })

  test("doesn't ask to replay dead letters of the sink chosen before", async () => {
    await show("dead-letters?sink=crm&type=client.*")
    const held = await hold(/dead-letters(\/preview|\?.*limit=1000)/)
    await page.getByRole("button", { name: "Replay all of these…" }).click()
    await held.asked
    await follow("#/dead-letters?sink=lake")
    await page.getByText("No dead letters here.").waitFor()
    await held.release()
    expect(await page.getByRole("dialog").count()).toBe(0)
  })

  test("masks personal data at once, before the relay answers", async () => {
    await show("event/evt_failed")
    await page.getByRole("button", { name: "Show personal data…" }).click()
    await page.getByRole("dialog").getByRole("button", { name: "Show it" }).click()
    await page.getByText(personal).first().waitFor()
    const held = await hold(/events\/evt_failed/)
    await page.getByRole("button", { name: "Mask personal data" }).click()
    await held.asked
    expect(await count(personal)).toBe(0)
    await held.release()
    await page.getByRole("heading", { name: "What happened" }).waitFor()
  })

  test("shows the event searched last if the search before it ends later", async () => {
    await show("events")
    const find = async (id: string) => {
      await page.getByLabel("Any id").fill(id)
      await page.getByRole("button", { name: "Find" }).click()
    }
    const held = await hold(/account=acct_9&limit=1$/)
    await find("acct_9")
    await held.asked
    await find("evt_failed")
    await page.waitForURL(/#\/event\/evt_failed$/)
    await held.release()
    expect(new URL(page.url()).hash).toBe("#/event/evt_failed")
  })

  test("doesn't show the sinks of the type typed before if the relay can't answer for the new one", async () => {
    await show("routes")
    const type = page.getByLabel("Where would this type go?")
    await type.fill("client.updated")
    await page
      .getByText(/^client\.updated → crm|→/)
      .first()
      .waitFor()
    await page.getByRole("table").getByText("clients").waitFor()
    await page.route(/routes\/explain\?type=client\.merged/, (route) => route.abort())
    await type.fill("client.merged")
    await page.getByRole("alert").waitFor()
    expect(await page.locator(".answer").count()).toBe(0)
    await page.unroute(/routes\/explain/)
  })

  test("tries a token that was entered while an answer without it was on its way", async () => {
    const locked = await startSite({ admin: { token } })
    try {
      await page.goto(locked.url)
      await page.getByLabel("Admin token").fill(token)
      const held = await hold(/api\/v1\/status/)
      await page.evaluate("dispatchEvent(new Event('visibilitychange'))")
      await held.asked
      await page.getByRole("button", { name: "Continue" }).click()
      await held.release()
      await page.getByText("All is well").waitFor()
    } finally {
      await locked.stop()
    }
  })
})
