/**
 * The whole relay while its broker is frozen (SIGSTOP) under load: accepted events arrive, the other sink is not
 * affected, and memory stays flat. Prints the figures. RELAY_FREEZE sets the seconds of the freeze (the long one:
 * RELAY_FREEZE=30).
 */
import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { Effect } from "effect"
import { bodies, deliver, writeConfig } from "../../lib/kit.ts"
import { startRelay } from "../../lib/relay.ts"
import { temporaryDirectory } from "../../lib/temporaryRoot.ts"
import { follow, makeTopic } from "../../parts/Topics.ts"
import { withOwnBroker } from "./kafkaSink.ts"

const freeze = Number(process.env.RELAY_FREEZE ?? 4)
const perSecond = 500
const perTick = 10
/** Maximum growth of memory in megabytes. The backlog is on disk, so it needs no memory. */
const growth = 100

const numberOf = (body: string | Buffer): number => JSON.parse(body.toString()).data.object.n

/** Megabytes in memory. */
const residentSize = (pid: number): number =>
  Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024

const largest = (numbers: ReadonlyArray<number>): number => numbers.reduce((a, b) => Math.max(a, b), 0)

withOwnBroker("relay run while its broker is frozen", (broker) => {
  const cwd = temporaryDirectory("kafka-frozen-")

  test(
    `${freeze} s at ${perSecond} events/s: nothing is lost, the other sink does not wait, memory stays flat`,
    async () => {
      const topic = await makeTopic(broker().plain, 3)
      const sent = bodies(perSecond * (freeze + 4), 50)
      const due: Array<number> = []
      const arrived = new Map<number, number>()
      using other = Bun.serve({
        hostname: "127.0.0.1",
        port: 0,
        fetch: async (request) => {
          const n = numberOf(await request.text())
          arrived.set(n, performance.now() - (due[n] ?? Number.NaN))
          return new Response()
        },
      })
      const delivery = { retry: { initial: "200 millis", max: "1 second" } }
      const { config, url } = await writeConfig(cwd, {
        lake: { type: "kafka", brokers: [broker().plain], topic, order: "key", requestTimeout: "2 seconds", delivery },
        other: { type: "http", url: String(other.url) },
      })
      const relay = await startRelay(config, { cwd })
      const sizes: Array<number> = []

      let next = 0
      /** Sends at a fixed rate, and doesn't wait for answers. */
      const load = async (seconds: number): Promise<void> => {
        const under: Array<Promise<number>> = []
        const started = performance.now()
        for (let tick = 0; tick < (seconds * perSecond) / perTick; tick++) {
          const at = started + (tick * 1_000 * perTick) / perSecond
          if (at > performance.now()) await Bun.sleep(at - performance.now())
          for (let n = 0; n < perTick; n++) {
            due[next] = at
            under.push(deliver(url, sent[next++] ?? ""))
          }
          sizes.push(residentSize(relay.pid))
        }
        expect(new Set(await Promise.all(under))).toEqual(new Set([202]))
      }
      const everywhere = async (): Promise<void> => {
        while (arrived.size < next) await Bun.sleep(5)
      }
      const lag = (from: number, to: number): string =>
        `${largest([...arrived].filter(([n]) => n >= from && n < to).map(([, lag]) => lag)).toFixed(0)} ms`

      await load(2)
      await everywhere()
      const [before, sizeBefore] = [next, largest(sizes)]
      broker().signal("SIGSTOP")
      await load(freeze)
      // The other sink has everything while the broker is still frozen.
      await everywhere()
      const frozen = next
      broker().signal("SIGCONT")
      await load(2)
      await everywhere()

      const numbers = await Effect.runPromise(
        Effect.scoped(
          Effect.flatMap(follow(broker().plain, [topic]), (received) =>
            Effect.promise(async () => {
              const found = new Set<number>()
              for (let count = next; found.size < next; count++) {
                for (const { value } of await received(count)) found.add(numberOf(value))
              }
              return found
            }),
          ),
        ),
      )
      expect(numbers.size).toBe(next)
      console.log(
        `${next} events, the broker frozen for ${freeze} s: all came; lag of the other sink at most ${lag(0, before)} before, ${lag(before, frozen)} while frozen; memory at most ${sizeBefore.toFixed(0)} MB before, ${largest(sizes).toFixed(0)} MB in all`,
      )
      expect(largest(sizes) - sizeBefore).toBeLessThan(growth)
      expect(await relay.kill()).toBe(0)
    },
    (freeze + 60) * 1_000,
  )
})
