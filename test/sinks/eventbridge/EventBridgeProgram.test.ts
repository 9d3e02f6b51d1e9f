/**
 * The whole program with EventBridge sinks, as a process: RELAY_UNDER chooses the
 * runtime, or the binary, which must find the AWS SDK inside itself.
 */
import { afterAll, expect, test } from "bun:test"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect } from "effect"
import { freePort } from "../../lib/port.ts"
import { relay, startRelay } from "../../lib/relay.ts"
import { makeBus, type Topic } from "../../parts/Queues.ts"
import { bodies, deliver, writeConfig } from "../program.ts"
import { credentials, withMoto } from "./eventBridgeSink.ts"

withMoto("relay run with EventBridge sinks", (shared) => {
  const cwd = mkdtempSync(join(tmpdir(), "relay-eventbridge-run-"))
  afterAll(() => rmSync(cwd, { recursive: true }))

  /** Nothing of the machine that the tests run on: no metadata service, no files of a user. */
  const nothing = { AWS_EC2_METADATA_DISABLED: "true", AWS_CONFIG_FILE: "none", AWS_SHARED_CREDENTIALS_FILE: "none" }
  const eventbridge = (eventBusArn: string, more: object = {}) => ({
    type: "eventbridge",
    eventBusArn,
    endpoint: shared().url,
    ...more,
  })
  const detailsOf = async ({ received }: Topic) =>
    (await Effect.runPromise(received(20))).map(({ body }) => JSON.parse(body).detail)

  test("validates, delivers to buses, as the envelope and as CloudEvents, and shows no secret", async () => {
    const [plain, events] = [await makeBus(shared().url), await makeBus(shared().url)]
    const { config, url } = await writeConfig(cwd, {
      plain: eventbridge(plain.arn, { credentials }),
      events: eventbridge(events.arn, { credentials, format: "cloudevents" }),
    })
    const validated = await relay(["validate", "-c", config], { cwd, env: nothing })
    expect(validated.code).toBe(0)
    expect(validated.stderr).toContain("sink plain: EventBridge takes 1048575 bytes")
    const running = await startRelay(config, { cwd, env: nothing })
    const sent = bodies(20)
    for (const one of sent) expect(await deliver(url, one)).toBe(202)
    const written = (values: ReadonlyArray<unknown>) => values.map((value) => JSON.stringify(value)).toSorted()
    expect(written(await detailsOf(plain))).toEqual(sent.toSorted())
    expect(written((await detailsOf(events)).map(({ data }) => data))).toEqual(sent.toSorted())
    expect(await running.kill()).toBe(0)
    expect(running.stdout() + running.stderr()).not.toContain(credentials.secretAccessKey)
  }, 60_000)

  test("validate says where credentials are missing, and which bus is not there", async () => {
    const { arn } = await makeBus(shared().url)
    const { config } = await writeConfig(cwd, {
      keyless: eventbridge(arn),
      nowhere: eventbridge(`${arn}-nowhere`, { credentials }),
    })
    const { code, stdout } = await relay(["validate", "-c", config], { cwd, env: nothing })
    expect(code).toBe(1)
    const line = (sink: string) => stdout.split("\n").find((line) => line.trimStart().startsWith(sink))
    expect(line("keyless")).toContain('no credentials were found: set "credentials" or "profile"')
    expect(line("nowhere")).toContain('there is no such event bus: make it, or correct "eventBusArn"')
  }, 60_000)

  test("config/examples/eventbridge.json sends everything, as it is but for its addresses", async () => {
    const bus = await makeBus(shared().url)
    const example = readFileSync(join(import.meta.dir, "../../../config/examples/eventbridge.json"), "utf8")
    const [deliveries, admin] = [await freePort(), await freePort()]
    const listens = `"listen": "127.0.0.1:${deliveries}", "admin": { "listen": "127.0.0.1:${admin}" },`
    writeFileSync(join(cwd, "example.json"), example.replace(/^\{/m, `{ ${listens}`))
    const env = { EVENTBRIDGE_ENDPOINT: shared().url, EVENT_BUS: bus.arn }
    const running = await startRelay("example.json", { cwd, env })
    expect((await relay(["trigger", "appointment.created", "-c", "example.json"], { cwd, env })).code).toBe(0)
    const [sent] = await Effect.runPromise(bus.received(1))
    expect(JSON.parse(sent?.body ?? "")).toMatchObject({
      source: "com.example.scheduling",
      "detail-type": "appointment.created",
      detail: { specversion: "1.0" },
    })
    expect(await running.kill()).toBe(0)
  }, 60_000)
})
