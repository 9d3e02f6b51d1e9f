/**
 * The screenshots of the README: a relay with some trouble, in both themes.
 * They need Chromium.
 *
 *   bun test/page/screenshots.ts
 */
import { join } from "node:path"
import { root } from "../lib/programs.ts"
import { openChromium } from "../parts/Chromium.ts"
import { startSite } from "./site.ts"

const site = await startSite()
const browser = await openChromium()

/** Some minutes of ordinary traffic, with a sink that rejects some events and one that is away for a while. */
const seconds = 285

const traffic = async () => {
  const types = [
    "appointment.created",
    "appointment.confirmed",
    "client.updated",
    "booking_intent.created",
    "block.updated",
  ]
  site.answers.set(
    "/crm",
    () => new Response("no such client", { status: site.received.length % 97 === 0 ? 422 : 200 }),
  )
  for (let second = 0; second < seconds; second++) {
    if (second === seconds - 25) site.answers.set("/lake", () => new Response("maintenance", { status: 503 }))
    const many = Math.round(14 + 8 * Math.sin(second / 29) + 4 * Math.sin(second / 7))
    for (let each = 0; each < many; each++) {
      await site.deliver({
        id: `evt_${second}x${each}`,
        type: types[(second + each * 3) % types.length] ?? "",
        account: `acct_${each}`,
      })
    }
    if (second % 41 === 0) await site.deliverUnsigned("/hooks")
    await Bun.sleep(1_000)
  }
}
await traffic()

for (const colorScheme of ["light", "dark"] as const) {
  const page = await browser.newPage({ colorScheme, viewport: { width: 1280, height: 1180 }, deviceScaleFactor: 1 })
  await page.goto(site.url)
  await page.getByText("Live", { exact: true }).first().waitFor()
  await page.waitForTimeout(1_500)
  await page.screenshot({ path: join(root, `config/images/page.${colorScheme}.png`) })
  await page.close()
}
await browser.close()
await site.stop()
