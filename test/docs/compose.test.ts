/**
 * The file for Docker Compose. It starts the image that the container file builds, and its config loads with the
 * mounted secrets.
 */
import { expect, test } from "bun:test"
import { dirname } from "node:path"
import { Duration } from "effect"
import manifest from "../../package.json" with { type: "json" }
import { stopDeadline } from "../../src/config/Config.ts"
import { load } from "../../src/config/load/Load.ts"
import { journalTypes } from "../../src/journal/Journals.ts"
import { sinkTypes } from "../../src/sinks/SinkTypes.ts"
import { readFile } from "../config/fixture.ts"
import { readPage } from "../lib/docs.ts"
import { it } from "../lib/effect.ts"

interface Compose {
  readonly services: {
    readonly relay: {
      readonly image: string
      readonly stop_grace_period: string
      readonly read_only: boolean
      readonly ports: ReadonlyArray<string>
      readonly volumes: ReadonlyArray<string>
      readonly healthcheck: { readonly test: ReadonlyArray<string> }
    }
  }
  readonly volumes: object
}

const { services, volumes } = Bun.YAML.parse(readPage("config/deploy/compose.yaml")) as Compose
const { relay } = services
const page = readPage("config/deploy/containers.md")
const container = readPage("config/deploy/Containerfile")
const text = readPage("config/deploy/relay/relay.config.json")
const secrets = [...text.matchAll(/"file:\/run\/(secrets\/.*?)"/g)].map(([, path = ""]) => path)
const inContainer = (pattern: RegExp): string => pattern.exec(container)?.[1] ?? ""

test("the file for Compose starts the image as it is built", () => {
  const [entry] = JSON.parse(inContainer(/^ENTRYPOINT (.*)$/m)) as ReadonlyArray<string>
  const command = JSON.parse(inContainer(/^CMD (.*)$/m)) as ReadonlyArray<string>
  expect(relay.healthcheck.test).toEqual(["CMD", entry ?? "", "status", ...command.slice(1)])
  const images = page.match(/\brelay:\d\S*/g) ?? []
  expect(new Set([relay.image, ...images])).toEqual(new Set([`relay:${manifest.version}`]))
  expect(relay.read_only).toBe(true)
  const [volume = ""] = JSON.parse(inContainer(/^VOLUME (.*)$/m)) as ReadonlyArray<string>
  // The config and the secrets are mounted as directories, so that a reload sees a replaced file.
  const config = dirname(command.at(-1) ?? "")
  const data = Object.keys(volumes).map((name) => `${name}:${volume}`)
  expect(relay.volumes).toEqual([`./relay:${config}:ro`, "./secrets:/run/secrets:ro", ...data])
})

test("the page for Compose creates each secret for the image's user", () => {
  expect(secrets).toHaveLength(2)
  const user = inContainer(/^USER (\d+):/m)
  for (const path of secrets) expect(page).toMatch(new RegExp(`install -m 400 -o ${user} \\S+ ${path}$`, "m"))
})

it.effect("the config for Compose loads with its secrets, has its journal outside, and has time to stop", function* () {
  const mounted = secrets.map((path) => [`/run/${path}`, "a-secret-of-this-test"] as const)
  const read = readFile({ ...Object.fromEntries(mounted), "relay.config.json": text })
  const { config, warnings } = yield* load("relay.config.json", {
    sinkTypes,
    journalTypes,
    env: {},
    readFile: read,
  })
  expect(config.drain.delay).toEqual(Duration.seconds(5))
  expect(Number.parseInt(relay.stop_grace_period, 10)).toBeGreaterThan(Duration.toSeconds(stopDeadline(config.drain)))
  // The page explains both warnings.
  expect(warnings.map(({ key }) => key)).toEqual(["listen", "admin.listen"])
  const ports = [config.listen.port, config.admin.listen.port]
  expect(relay.ports).toEqual(ports.map((port) => `127.0.0.1:${port}:${port}`))
  expect(ports.join(" ")).toBe(inContainer(/^EXPOSE (.*)$/m))
  expect(String(Reflect.get(config.journal, "path"))).toStartWith("/data/")
})
