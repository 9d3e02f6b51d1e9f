/** The whole program with email sinks, as a process. RELAY_UNDER selects the runtime, or the binary. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { bodies, deliver, writeConfig } from "../../lib/kit.ts"
import { relay, startRelay } from "../../lib/relay.ts"
import { temporaryDirectory } from "../../lib/temporaryRoot.ts"
import { type Mailbox, makeMailbox } from "../../parts/Mailbox.ts"
import { mailConfig } from "./emailSink.ts"

describe("relay run with email sinks", () => {
  const cwd = temporaryDirectory("email-run-")
  let box: Mailbox
  beforeAll(async () => {
    box = await makeMailbox()
  })
  afterAll(() => box.remove())
  const mail = (more: object) => ({ type: "email", server: box.server, security: "none", ...mailConfig, ...more })
  const delivery = { timeout: "500 millis", retry: { initial: "100 millis", max: "200 millis" } }
  /** The mails of a sink, identified by the prefix of its subjects. */
  const taken = async (subject: string, count: number): Promise<ReadonlyArray<string>> => {
    const found = () =>
      box
        .mails()
        .filter((one) => one.subject.startsWith(subject))
        .map(({ subject }) => subject)
    while (new Set(found()).size < count) await Bun.sleep(20)
    return found()
  }

  const start = async (subject: string, sinks: Record<string, object> = {}) => {
    const { config, url } = await writeConfig(cwd, {
      ...sinks,
      each: mail({ subject: `${subject} {{id}}`, delivery, concurrency: 2 }),
    })
    const sent = bodies(40)
    const send = async (from: number, to: number) => {
      for (const one of sent.slice(from, to)) expect(await deliver(url, one)).toBe(202)
    }
    return { config, send }
  }

  test("starts while the server is unavailable, delivers when it is back, and also after a kill", async () => {
    const digest = mail({
      subject: "digest {{count}}",
      delivery,
      digest: { by: ["type"], wait: "10 minutes", maxEvents: 10 },
    })
    const { config, send } = await start("killed", { digest })
    const validated = await relay(["validate", "-c", config], { cwd })
    expect(validated.code).toBe(1)
    expect(validated.stdout).toContain(`SMTP server ${box.server} can't be reached: nothing listens there`)
    const running = await startRelay(config, { cwd })
    await send(0, 10)
    await running.prints(/sink each does not deliver: SMTP server .* can't be reached/)
    await box.start()
    await taken("killed", 10)
    expect(await taken("digest", 1)).toEqual(["digest 10"])
    expect((await relay(["validate", "-c", config], { cwd })).code).toBe(0)
    await box.kill()
    await send(10, 40)
    await box.start()
    await taken("killed", 40)
    while (box.mails().filter(({ subject }) => subject === "digest 10").length < 4) await Bun.sleep(20)
    expect(await running.kill()).toBe(0)
  }, 60_000)

  test("delivers events that it accepted while the server was frozen; duplicates have one Message-ID", async () => {
    const { config, send } = await start("frozen")
    const running = await startRelay(config, { cwd })
    await send(0, 10)
    await taken("frozen", 10)
    box.signal("SIGSTOP")
    await send(10, 40)
    await running.prints("sink each does not deliver: no answer within 500ms")
    box.signal("SIGCONT")
    await taken("frozen", 40)
    const ids = Map.groupBy(box.mails(), ({ subject }) => subject)
    const frozen = [...ids].filter(([subject]) => subject.startsWith("frozen"))
    expect(frozen.map(([, mails]) => new Set(mails.map(({ messageId }) => messageId)).size)).toEqual(Array(40).fill(1))
    expect(await running.kill()).toBe(0)
  }, 60_000)
})
