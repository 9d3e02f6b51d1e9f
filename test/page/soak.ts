/**
 * A page left open while events arrive: its memory in the browser, minute by minute. It needs Chromium and dist/relay.
 *
 *   bun test/page/soak.ts --minutes 60 --rate 1000 --view live
 */
import { existsSync, readFileSync } from "node:fs"
import { parseArgs } from "node:util"
import { openChromium } from "../parts/Chromium.ts"
import { startSite } from "./site.ts"

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "60" },
    rate: { type: "string", default: "1000" },
    view: { type: "string", default: "live" },
  },
})

const mebi = 1024 * 1024
const site = await startSite()
const browser = await openChromium()
const page = await browser.newPage()
const devtools = await page.context().newCDPSession(page)
await devtools.send("Performance.enable")
await devtools.send("HeapProfiler.enable")
await page.goto(`${site.url}/#/${values.view}`)
await page.getByText("Live", { exact: true }).first().waitFor()

let isOver = false
let sent = 0
const types = ["block.created", "service.updated", "provider.updated"]
const send = async () => {
  const started = performance.now()
  while (!isOver) {
    const due = Math.floor(((performance.now() - started) * Number(values.rate)) / 1_000) - sent
    const batch = Array.from({ length: Math.min(due, 64) }, () => {
      sent += 1
      return site.deliver({
        id: `evt_soak${sent}`,
        type: types[sent % types.length] ?? "",
        account: `acct_${sent % 100}`,
      })
    })
    await Promise.all(batch)
    await Bun.sleep(due > 64 ? 0 : 5)
  }
}
const sending = send()

/** Private memory of each renderer process of the browser, in bytes. */
const renderers = (): ReadonlyArray<number> =>
  Bun.spawnSync(["ps", "-eo", "pid,args"])
    .stdout.toString()
    .split("\n")
    .filter((line) => line.includes("--type=renderer"))
    .map((line) => {
      const rollup = `/proc/${line.trim().split(" ")[0]}/smaps_rollup`
      const [, kibi = "0"] =
        /^Private_Dirty:\s+(\d+)/m.exec(existsSync(rollup) ? readFileSync(rollup, "utf8") : "") ?? []
      return Number(kibi) * 1024
    })

for (let minute = 1; minute <= Number(values.minutes); minute++) {
  await Bun.sleep(60_000)
  const before = await devtools.send("Performance.getMetrics")
  await devtools.send("HeapProfiler.collectGarbage")
  const after = await devtools.send("Performance.getMetrics")
  const metric = ({ metrics }: typeof before, name: string) => metrics.find((one) => one.name === name)?.value ?? 0
  const heap = (of: typeof before) => (metric(of, "JSHeapUsedSize") / mebi).toFixed(1)
  const largest = (Math.max(0, ...renderers()) / mebi).toFixed(0)
  console.log(
    `${minute} min, ${sent} events: heap ${heap(before)} MiB (${heap(after)} after collection), ${metric(after, "Nodes")} nodes, the renderer has ${largest} MiB`,
  )
}
isOver = true
await sending
await browser.close()
await site.stop()
