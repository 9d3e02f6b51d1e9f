/**
 * Tests of the whole program that the sinks of services share. The program runs as a process. RELAY_UNDER selects the
 * runtime, or the binary, which must contain the service's client library.
 */
import { expect, test } from "bun:test"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { bodies, deliver, writeConfig } from "../lib/kit.ts"
import { freePort } from "../lib/port.ts"
import { root } from "../lib/programs.ts"
import { relay, startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"

type Sinks = Readonly<Record<string, object>>
type Env = Readonly<Record<string, string>>

/** Waits until the target has all of `sent`. Returns the signed bodies that the sink delivered. */
type Received = (sent: ReadonlyArray<string>) => Promise<ReadonlyArray<string>>

export interface ProgramContract {
  /** The name of the service, for titles. */
  readonly service: string
  /** The environment of each process. */
  readonly env?: Env
  /** Sinks that deliver. */
  readonly delivers?: {
    /** The manner of their delivery, for the title. */
    readonly how: string
    readonly make: (cwd: string) => Promise<{
      readonly sinks: Sinks
      /** Expected advice of `relay validate`. */
      readonly advises?: string
      readonly received: Readonly<Record<string, Received>>
      /** Sinks that keep the order of their events. */
      readonly ordered?: ReadonlyArray<string>
      /** Texts that must not be printed. */
      readonly secrets: ReadonlyArray<string>
      readonly stop?: () => Promise<unknown>
    }>
  }
  /** Sinks that can't work. */
  readonly refuses?: {
    /** The fault of these sinks, for the title. */
    readonly what: string
    readonly make: (cwd: string) => Promise<{
      readonly sinks: Sinks
      readonly env?: Env
      /** `relay validate` says this of each. */
      readonly says: Readonly<Record<string, string>>
    }>
  }
  /** A sink whose service is unavailable when the relay starts. */
  readonly waits?: () => Promise<{
    readonly sink: object
    /** The failure in the messages of `relay validate` and `relay run`. */
    readonly failure: string
    readonly start: () => Promise<unknown>
    readonly received: Received
    readonly stop?: () => Promise<unknown>
  }>
  /** The example in config/examples. */
  readonly example?: {
    readonly file: string
    /** The events that it sends, for the title. */
    readonly sends: string
    readonly make: () => Promise<{
      readonly env: Env
      /** The types of the events to accept. */
      readonly types: ReadonlyArray<string>
      /** Waits until the events are at the target, and checks them. */
      readonly check: () => Promise<void>
    }>
  }
}

const sendAll = async (url: string, sent: ReadonlyArray<string>): Promise<void> => {
  for (const body of sent) expect(await deliver(url, body)).toBe(202)
}

export const programContract = ({ service, env = {}, delivers, refuses, waits, example }: ProgramContract): void => {
  const cwd = temporaryDirectory("program-")

  if (delivers !== undefined) {
    test(`relay run delivers to ${service} ${delivers.how}, and shows no secret`, async () => {
      const { sinks, advises, received, ordered = [], secrets, stop } = await delivers.make(cwd)
      const { config, url } = await writeConfig(cwd, sinks)
      const validated = await relay(["validate", "-c", config], { cwd, env })
      expect([validated.code, validated.stderr]).toEqual([0, expect.stringContaining(advises ?? "")])
      const running = await startRelay(config, { cwd, env })
      const sent = bodies(20)
      await sendAll(url, sent)
      for (const [name, all] of Object.entries(received)) {
        const bodies = await all(sent)
        if (ordered.includes(name)) expect([name, ...bodies]).toEqual([name, ...sent])
        else expect([name, ...bodies.toSorted()]).toEqual([name, ...sent.toSorted()])
      }
      expect(await running.kill()).toBe(0)
      const printed = running.stdout() + running.stderr() + validated.stdout + validated.stderr
      for (const secret of secrets) expect(printed).not.toContain(secret)
      await stop?.()
    }, 60_000)
  }

  if (refuses !== undefined) {
    test(`relay validate reports for ${service} sinks ${refuses.what}`, async () => {
      const { sinks, env: own, says } = await refuses.make(cwd)
      const { config } = await writeConfig(cwd, sinks)
      const { code, stdout } = await relay(["validate", "-c", config], { cwd, env: { ...env, ...own } })
      expect(code).toBe(1)
      const lines = stdout.split("\n").map((line) => line.trimStart())
      for (const [sink, text] of Object.entries(says)) {
        expect(lines.find((line) => line.startsWith(sink))).toContain(text)
      }
    }, 60_000)
  }

  if (waits !== undefined) {
    test(`relay run starts and accepts while ${service} is unavailable, and delivers when it is back`, async () => {
      const { sink, failure, start, received, stop } = await waits()
      const delivery = { retry: { initial: "200 millis", max: "1 second" } }
      const { config, url } = await writeConfig(cwd, { late: { ...sink, delivery } })
      const validated = await relay(["validate", "-c", config], { cwd, env })
      expect([validated.code, validated.stdout]).toEqual([1, expect.stringContaining(failure)])
      const running = await startRelay(config, { cwd, env })
      const sent = bodies(20)
      await sendAll(url, sent)
      await running.prints(`sink late does not deliver: ${failure}`)
      await start()
      await running.prints("sink late is resumed")
      expect((await received(sent)).toSorted()).toEqual(sent.toSorted())
      expect(await running.kill()).toBe(0)
      await stop?.()
    }, 60_000)
  }

  if (example !== undefined) {
    test(`config/examples/${example.file}.json sends ${example.sends} when only its addresses are changed`, async () => {
      const { env: own, types, check } = await example.make()
      const text = readFileSync(join(root, `config/examples/${example.file}.json`), "utf8")
      const [deliveries, admin] = [await freePort(), await freePort()]
      const listens = `"listen": "127.0.0.1:${deliveries}", "admin": { "listen": "127.0.0.1:${admin}" },`
      const config = "example.json"
      writeFileSync(join(cwd, config), text.replace(/^\{/m, `{ ${listens}`))
      const validated = await relay(["validate", "-c", config], { cwd, env: own })
      expect(validated.stdout).toContain("all reached")
      const running = await startRelay(config, { cwd, env: own })
      for (const type of types) {
        expect((await relay(["trigger", type, "-c", config], { cwd, env: own })).code).toBe(0)
      }
      await check()
      expect(await running.kill()).toBe(0)
    }, 60_000)
  }
}
