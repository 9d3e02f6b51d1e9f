/**
 * The configs in `config/monitoring/README.md`, used by Prometheus itself to scrape real relays. Only addresses are
 * replaced.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { copyFileSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { readPage } from "../lib/docs.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { freePort } from "../lib/port.ts"
import { root } from "../lib/programs.ts"
import { type Relay, startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"
import { ServerProcess } from "../parts/ServerProcess.ts"

const page = readPage("config/monitoring/README.md")
const [onThisMachine = "", withToken = ""] = [...page.matchAll(/^```yaml\n(.*?)^```/gms)].map(([, block = ""]) => block)
const token = "a-token-that-only-this-test-has"

interface Target {
  readonly labels: Readonly<Record<string, string>>
  readonly health: "unknown" | "up" | "down"
  readonly lastError: string
}
interface Rule {
  readonly name: string
  readonly health: "unknown" | "ok" | "err"
}
interface Panel {
  readonly targets?: ReadonlyArray<{ readonly expr: string }>
}

const reasonToSkip = (): string | undefined => {
  if (Bun.which("prometheus") === null) return "it needs prometheus (apt-get install prometheus)"
  return process.env.RELAY_PARTS === "1" ? undefined : "RELAY_PARTS=1 bun test runs Prometheus"
}

suiteUnless(reasonToSkip(), "relays that Prometheus scrapes", () => {
  const directory = temporaryDirectory("prometheus-")
  const running: Array<Relay | ServerProcess> = []
  afterAll(async () => {
    for (const one of running) await (one instanceof ServerProcess ? one.stop() : one.kill())
  })

  /** The address of its admin API. */
  const startOne = async (name: string, admin: object = {}): Promise<string> => {
    const cwd = join(directory, name)
    mkdirSync(cwd)
    const address = `127.0.0.1:${await freePort()}`
    const file = join(cwd, "relay.config.json")
    const config = {
      listen: `127.0.0.1:${await freePort()}`,
      admin: { listen: address, ...admin },
      journal: { path: "./journal.db" },
      webhooks: { scheduling: { path: "/hooks", secrets: [{ name: "main", value: "a-secret-of-this-test" }] } },
      sinks: { archive: { type: "file", path: "./events.ndjson" } },
      routes: [{ name: "everything", match: "**", to: ["archive"] }],
    }
    writeFileSync(file, JSON.stringify(config))
    running.push(await startRelay(file, { cwd }))
    return address
  }

  /** Queries Prometheus' own API. */
  const startPrometheus = async (config: string, token: string) => {
    const home = mkdtempSync(join(directory, "prometheus-"))
    // By default Prometheus scrapes a target once a minute.
    writeFileSync(join(home, "prometheus.yml"), `global: { scrape_interval: 1s, evaluation_interval: 1s }\n${config}`)
    writeFileSync(join(home, "relay-token"), `${token}\n`)
    copyFileSync(join(root, "config/monitoring/alerts.rules.yml"), join(home, "alerts.rules.yml"))
    const address = `127.0.0.1:${await freePort()}`
    const ask = async <A>(path: string): Promise<A> => {
      const response = await fetch(`http://${address}/api/v1/${path}`)
      const { data, error } = (await response.json()) as { readonly data: A; readonly error?: string }
      if (error !== undefined) throw new Error(`${path}: ${error}`)
      return data
    }
    const server = new ServerProcess({
      name: "Prometheus",
      home,
      command: [
        "prometheus",
        `--config.file=${join(home, "prometheus.yml")}`,
        `--storage.tsdb.path=${join(home, "data")}`,
        `--web.listen-address=${address}`,
      ],
      isUp: () =>
        fetch(`http://${address}/-/ready`).then(
          ({ ok }) => ok,
          () => false,
        ),
    })
    await server.start()
    running.push(server)
    const targets = async (): Promise<ReadonlyArray<Target>> => {
      for (;;) {
        const { activeTargets } = await ask<{ readonly activeTargets: ReadonlyArray<Target> }>("targets")
        if (activeTargets.length > 0 && activeTargets.every(({ health }) => health !== "unknown")) return activeTargets
        await Bun.sleep(50)
      }
    }
    return { ask, targets }
  }

  let open: Awaited<ReturnType<typeof startPrometheus>>
  let address = ""

  beforeAll(async () => {
    address = await startOne("open")
    open = await startPrometheus(onThisMachine.replace("127.0.0.1:9080", address), token)
  }, 60_000)

  test("are up on the same machine, without a token", async () => {
    const [target, ...others] = await open.targets()
    expect(others).toEqual([])
    expect(target).toMatchObject({ health: "up", lastError: "", labels: { job: "relay", instance: address } })
  }, 60_000)

  test("are watched by every rule", async () => {
    const rules = async (): Promise<ReadonlyArray<Rule>> => {
      for (;;) {
        const { groups } = await open.ask<{ readonly groups: ReadonlyArray<{ readonly rules: ReadonlyArray<Rule> }> }>(
          "rules",
        )
        const all = groups.flatMap(({ rules }) => rules)
        if (all.every(({ health }) => health !== "unknown")) return all
        await Bun.sleep(50)
      }
    }
    const named = [...readPage("config/monitoring/alerts.rules.yml").matchAll(/- alert: (\w+)/g)]
    expect((await rules()).map(({ name, health }) => [name, health])).toEqual(
      named.map(([, name = ""]) => [name, "ok"]),
    )
  }, 60_000)

  test("are queried as the dashboard does", async () => {
    const { panels } = JSON.parse(readPage("config/monitoring/grafana.json")) as {
      readonly panels: ReadonlyArray<Panel>
    }
    const queries = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
    expect(queries.length).toBeGreaterThan(20)
    for (const query of queries) {
      // Grafana fills in its variables like this when all values are selected.
      const filled = query
        .replaceAll("$__rate_interval", "1m")
        .replaceAll("$__range", "1h")
        .replaceAll(/"\$[a-z]+"/g, '".*"')
      expect(await open.ask(`query?query=${encodeURIComponent(filled)}`)).toHaveProperty("result")
    }
  }, 60_000)

  test("are up by a token that may only read, and down with another", async () => {
    const tokens = [
      { name: "ada", role: "operate", value: "a-token-that-may-change-something" },
      { name: "prometheus", role: "read", value: token },
    ]
    const addresses = [await startOne("first", { tokens }), await startOne("second", { tokens })]
    const config = withToken.replace(/"relay-1.*?"(?=\])/, addresses.map((address) => `"${address}"`).join(", "))
    const [right, wrong] = [await startPrometheus(config, token), await startPrometheus(config, "another")]
    expect((await right.targets()).map(({ health, labels }) => [labels.instance, health]).toSorted()).toEqual(
      addresses.map((address) => [address, "up"]).toSorted(),
    )
    const refused = { health: "down", lastError: expect.stringContaining("401 Unauthorized") }
    expect(await wrong.targets()).toMatchObject([refused, refused])
  }, 60_000)
})
