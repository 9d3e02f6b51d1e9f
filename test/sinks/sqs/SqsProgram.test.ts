/**
 * The whole program with SQS sinks, as a process: RELAY_UNDER chooses the
 * runtime, or the binary, which must find the AWS SDK inside itself.
 */
import { afterAll, expect, test } from "bun:test"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect } from "effect"
import { freePort } from "../../lib/port.ts"
import { relay, startRelay } from "../../lib/relay.ts"
import { makeQueue, type Queue } from "../../parts/Queues.ts"
import { bodies, deliver, writeConfig } from "../program.ts"
import { credentials, region, withMoto } from "./sqsSink.ts"

withMoto("relay run with SQS sinks", (shared) => {
  const cwd = mkdtempSync(join(tmpdir(), "relay-sqs-run-"))
  afterAll(() => rmSync(cwd, { recursive: true }))

  /** Nothing of the machine that the tests run on: no metadata service, no files of a user. */
  const nothing = { AWS_EC2_METADATA_DISABLED: "true", AWS_CONFIG_FILE: "none", AWS_SHARED_CREDENTIALS_FILE: "none" }
  const sqs = (queueUrl: string, more: object = {}) => ({ type: "sqs", queueUrl, region, credentials, ...more })
  const bodiesOf = async ({ received }: Queue) => (await Effect.runPromise(received(20))).map(({ body }) => body)

  test("validates, delivers to queues, standard and FIFO, as text and as CloudEvents, and shows no secret", async () => {
    const [plain, ordered, events] = [
      await makeQueue(shared().url),
      await makeQueue(shared().url, { fifo: true }),
      await makeQueue(shared().url),
    ]
    const { config, url } = await writeConfig(cwd, {
      plain: sqs(plain.url),
      ordered: sqs(ordered.url, { order: "key" }),
      events: sqs(events.url, { format: "cloudevents" }),
    })
    const validated = await relay(["validate", "-c", config], { cwd, env: nothing })
    expect(validated.code).toBe(0)
    expect(validated.stderr).toContain(`sink plain: the queue ${plain.url} takes 1048576 bytes`)
    const running = await startRelay(config, { cwd, env: nothing })
    const sent = bodies(20)
    for (const one of sent) expect(await deliver(url, one)).toBe(202)
    expect((await bodiesOf(plain)).toSorted()).toEqual(sent.toSorted())
    expect(await bodiesOf(ordered)).toEqual([...sent])
    expect((await bodiesOf(events)).map((body) => JSON.stringify(JSON.parse(body).data)).toSorted()).toEqual(
      sent.toSorted(),
    )
    expect(await running.kill()).toBe(0)
    expect(running.stdout() + running.stderr()).not.toContain(credentials.secretAccessKey)
  }, 60_000)

  test("validate says where credentials are missing, and which queue is not there", async () => {
    const { url } = await makeQueue(shared().url)
    const { config } = await writeConfig(cwd, {
      keyless: { type: "sqs", queueUrl: url, region },
      nowhere: sqs(`${url}-nowhere`),
    })
    const { code, stdout } = await relay(["validate", "-c", config], { cwd, env: nothing })
    expect(code).toBe(1)
    const line = (sink: string) => stdout.split("\n").find((line) => line.trimStart().startsWith(sink))
    expect(line("keyless")).toContain('no credentials were found: set "credentials" or "profile"')
    expect(line("nowhere")).toContain(
      'there is no such queue, or the credentials may not see it: make it, correct "queueUrl"',
    )
  }, 60_000)

  test("config/examples/sqs.json sends failures, as it is but for its addresses", async () => {
    const queue = await makeQueue(shared().url, { fifo: true })
    const example = readFileSync(join(import.meta.dir, "../../../config/examples/sqs.json"), "utf8")
    const [deliveries, admin] = [await freePort(), await freePort()]
    const listens = `"listen": "127.0.0.1:${deliveries}", "admin": { "listen": "127.0.0.1:${admin}" },`
    writeFileSync(join(cwd, "example.json"), example.replace(/^\{/m, `{ ${listens}`))
    const env = { SQS_QUEUE: queue.url }
    const running = await startRelay("example.json", { cwd, env })
    for (const type of ["appointment.created", "appointment.meeting.create_failed"]) {
      expect((await relay(["trigger", type, "-c", "example.json"], { cwd, env })).code).toBe(0)
    }
    const sent = await Effect.runPromise(queue.received(1))
    expect(sent.map(({ attributes }) => attributes.type)).toEqual(["appointment.meeting.create_failed"])
    expect(await running.kill()).toBe(0)
  }, 60_000)
})
