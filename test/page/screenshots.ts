/**
 * Screenshots of a relay with some trouble. They need Chromium and dist/relay.
 *
 *   bun test/page/screenshots.ts            every view, light and dark, at 375, 1,024, 1,440 and 1,920: dist/screenshots
 *   bun test/page/screenshots.ts --readme   the two of the README: docs/images, after five minutes of traffic
 */
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import type { Page } from "playwright-core"
import { root } from "../lib/programs.ts"
import { openChromium } from "../parts/Chromium.ts"
import { startSite, token } from "./site.ts"

const isReadme = process.argv.includes("--readme")
const [site, browser] = await Promise.all([startSite(), openChromium()])
const themes = ["light", "dark"] as const

const types = ["appointment.created", "appointment.meeting.create_failed", "client.updated", "booking_intent.created"]

/** Ordinary traffic. One sink rejects some events, and another is unavailable at the end. */
const traffic = async (seconds: number) => {
  site.answers.set("/crm", () =>
    site.received.length % 97 === 0
      ? Response.json({ error: "no such client", field: "email" }, { status: 422 })
      : new Response(),
  )
  for (let second = 0; second < seconds; second++) {
    if (second === Math.floor(seconds * 0.9)) {
      site.answers.set("/lake", () => new Response("maintenance until 04:00", { status: 503 }))
    }
    const many = Math.round(14 + 8 * Math.sin(second / 29) + 4 * Math.sin(second / 7))
    for (let each = 0; each < many; each++) {
      await site.deliver({
        id: `evt_${second}x${each}`,
        type: types[(second + each * 3) % types.length] ?? "",
        account: `acct_${each}8sZ2kQ4vB`,
        object: {
          id: `obj_${each}`,
          name: "Ada Lovelace",
          email: "ada@example.com",
          starts_at: "2026-11-25T09:00:00Z",
        },
      })
    }
    if (second % 41 === 0) await site.deliverUnsigned("/hooks")
    await Bun.sleep(1_000)
  }
}

const settled = async (page: Page, view: string) => {
  await page.goto(`${site.url}/#/${view}`)
  await page.reload()
  await page.getByText("Live", { exact: true }).first().waitFor()
  await page.locator("[aria-busy=true]").waitFor({ state: "detached" })
}

const readme = async () => {
  await traffic(285)
  for (const colorScheme of themes) {
    const page = await browser.newPage({ colorScheme, viewport: { width: 1280, height: 1180 }, deviceScaleFactor: 1 })
    await settled(page, "")
    await page.screenshot({ path: join(root, `docs/images/page.${colorScheme}.png`) })
    await page.close()
  }
}

const folder = join(root, "dist/screenshots")

/** The steps in each view before its screenshot. */
const views: Readonly<Record<string, { readonly view: string; readonly act?: (page: Page) => Promise<unknown> }>> = {
  overview: { view: "" },
  live: {
    view: "live",
    act: async (page) => {
      await page.getByText("Listening").waitFor()
      for (const type of types) await site.deliver({ id: `evt_${crypto.randomUUID()}`, type })
      await site.deliverUnsigned("/hooks")
      await page.getByText("refused 401").waitFor()
    },
  },
  events: { view: "events" },
  "event-dead": {
    view: "dead-letters",
    act: async (page) => {
      await page.getByRole("link", { name: /^evt_/ }).first().click()
      await page.getByText("What happened").first().waitFor()
    },
  },
  "event-waiting": {
    view: "events?type=appointment.created",
    act: async (page) => {
      await page.getByRole("link", { name: /^evt_/ }).first().click()
      await page.getByText("What happened").first().waitFor()
    },
  },
  "dead-letters": { view: "dead-letters" },
  sink: { view: "sink/lake" },
  question: {
    view: "dead-letters",
    act: (page) => page.getByRole("button", { name: /^Replay all/ }).click(),
  },
  replay: { view: "replay" },
  routes: { view: "routes" },
  audit: { view: "audit" },
  explained: {
    view: "routes",
    act: async (page) => {
      await page.getByRole("combobox").first().fill("appointment.meeting.creat_failed")
      await page.locator(".answer").waitFor()
    },
  },
}

const everyView = async () => {
  mkdirSync(folder, { recursive: true })
  await traffic(40)
  await site.run("replay", "--routed", "--type", "client.*", "--dry-run")
  const guarded = await startSite({ admin: { token } })
  for (const colorScheme of themes) {
    for (const width of [375, 1024, 1440, 1920]) {
      const page = await browser.newPage({
        colorScheme,
        viewport: { width, height: 900 },
        reducedMotion: "reduce",
        timezoneId: "Europe/Berlin",
      })
      const shoot = (name: string) =>
        page.screenshot({ path: join(folder, `${name}.${width}.${colorScheme}.png`), fullPage: true })
      for (const [name, { view, act }] of Object.entries(views)) {
        await settled(page, view)
        await act?.(page)
        await shoot(name)
      }
      await page.goto(guarded.url)
      await page.getByLabel("Admin token").waitFor()
      await shoot("token")
      await page.close()
    }
  }
  await guarded.stop()
  console.log(folder)
}

await (isReadme ? readme() : everyView())
await browser.close()
await site.stop()
