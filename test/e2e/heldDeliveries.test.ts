/**
 * A relay that is stopped and started under 300 deliveries a second. The proxies in front hold deliveries meanwhile, by
 * the lines in `config/deploy/proxies.md`. RESTARTS is the number of restarts.
 */
import { afterEach, expect, test } from "bun:test"
import { join } from "node:path"
import { bodyOf } from "../faults/relay/Traffic.ts"
import { readPage } from "../lib/docs.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"
import * as DeliveryClients from "../parts/DeliveryClients.ts"
import { configOf } from "../parts/FrontProxies.ts"
import { secret, startTarget } from "./http/fixture.ts"
import { keepsAll } from "./restarting.ts"

const restarts = Number(process.env.RESTARTS ?? 2)
const [, section = ""] = readPage("config/deploy/proxies.md").split("## Holding deliveries while the relay stops")
const blockOf = (language: string) => new RegExp(`\`\`\`${language}\\n(.*?)\`\`\``, "s").exec(section)?.[1] ?? ""
const [caddysDrain, haproxysDrain] = [...section.matchAll(/`"drain": (\{.*?\})`/g)].map(([, text = ""]) =>
  JSON.parse(text),
)

const proxies = {
  caddy: {
    config: configOf("caddy").replace(/(health_timeout .*\n)/, `$1${blockOf("caddyfile")}`),
    drain: caddysDrain,
  },
  haproxy: {
    config: configOf("haproxy").replace(/^backend relay\n.*/ms, blockOf("haproxy")),
    drain: haproxysDrain,
  },
} as const

const atEnd: Array<() => unknown> = []
afterEach(async () => {
  for (const end of atEnd.splice(0).reverse()) await end()
})

suiteUnless(DeliveryClients.reasonToSkip(), "a relay that is stopped and started", () => {
  for (const name of ["caddy", "haproxy"] as const) {
    test(
      `loses and refuses no delivery behind ${name} (restarts: ${restarts})`,
      async () => {
        const { config, drain } = proxies[name]
        const home = temporaryDirectory("held-")
        const target = await startTarget({ drain })
        atEnd.push(target.stop)
        let { relay } = target
        atEnd.push(() => relay.kill("SIGINT"))
        const addresses = { deliveries: `127.0.0.1:${target.port}`, admin: `127.0.0.1:${target.admin}` }
        const proxy = await DeliveryClients.startProxy(name, config, { ...addresses, home })
        atEnd.push(proxy.stop)
        const sender = await DeliveryClients.startSender({ [name]: proxy.address }, secret, { home })
        atEnd.push(sender.stop)
        const more = async (count: number) => {
          const before = target.kept().length
          while (target.kept().length < before + count) await Bun.sleep(50)
        }
        for (let count = 0; count < restarts; count++) {
          await more(300)
          expect(await relay.kill("SIGTERM")).toBe(0)
          relay = await startRelay(join(target.directory, "relay.config.json"), { cwd: target.directory })
        }
        await more(300)
        const { counts, longest, accepted } = await sender.end()
        console.log(`${name}: ${accepted.length} deliveries, ${restarts} restarts, slowest response ${longest} ms`)
        expect(Object.keys(counts[name] ?? {})).toEqual(["202"])
        await keepsAll(target, accepted.map(bodyOf))
      },
      60_000 + restarts * 30_000,
    )
  }
})
