/**
 * Two senders at one relay, the scheduling service and GitHub, with deliveries of equal ids, types, accounts and bytes.
 * Each delivers half of the rate, and every tenth delivery repeats an earlier one. Then the second webhook gets only
 * forged deliveries, at the whole rate, while the first goes on.
 */
import { createHmac } from "node:crypto"
import { Console, Effect } from "effect"
import * as Load from "./Load.ts"
import * as Paced from "./Paced.ts"
import * as Program from "./Program.ts"
import type * as Report from "./Report.ts"
import * as Requests from "./Requests.ts"
import * as Sink from "./Sink.ts"
import * as Target from "./Target.ts"

const rate = 2_000
const codePath = "/hooks/code"
const secrets = [{ name: "benchmark", value: Requests.secret }]

/** Makes the request that delivers an event's body. */
type Deliver = (id: string, body: string) => string

const scheduled: Deliver = (_, body) => Requests.signed(body)

const github =
  (secret: string): Deliver =>
  (id, body) => {
    const signature = `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`
    const headers = { "X-GitHub-Event": "appointment.created", "X-GitHub-Delivery": id }
    return Requests.post(codePath, { "X-Hub-Signature-256": signature, ...headers }, body)
  }

/** Every tenth delivery of a connection repeats the ninth, byte for byte. */
const turn = 10 * Load.connections
const isRepeated = (place: number): boolean => place % turn >= turn - Load.connections
const distinct = (places: number): number =>
  Array.from({ length: places }, (_, place) => place).filter((place) => !isRepeated(place)).length

/** Makes the function that sends numbered events in a sender's deliveries. */
const sender = (port: number) => {
  const run = Requests.newRun()
  const stamps = new Map<number, Requests.Stamp>()
  return (pace: Paced.Pace, first: number, deliver: Deliver) => {
    const request = (place: number): string => {
      const number = first + (isRepeated(place) ? place - Load.connections : place)
      const stamp = stamps.get(number) ?? { number, sentAt: Date.now() }
      stamps.set(number, stamp)
      return deliver(Requests.id(run, stamp), Requests.body(run, stamp))
    }
    return Paced.paced(port, { ...pace, request })
  }
}

const accepted = (who: string, { requests, refused }: Load.Load): Report.Verdict => ({
  requirement: `${who}: every delivery is accepted`,
  measured: `${requests} sent, ${refused} refused`,
  ok: refused === 0,
})

const arrived = (sink: Sink.Sink, sender: Sink.Sender, expected: number): Report.Verdict => {
  const { count, surplus, disordered } = sink.of(sender)
  return {
    requirement: `sink ${sink.name}: ${expected === 0 ? `nothing of ${sender}` : `each event of ${sender} once, in the order of its key`}`,
    measured: `${count} of ${expected}, ${surplus} more than once, ${disordered} after a later one`,
    ok: count === expected && surplus + disordered === 0,
  }
}

export const senders = Effect.fnUntraced(function* (setup: Target.Setup, seconds: number) {
  const sinks = yield* Effect.forEach([...Sink.senders, "all"], (name) => Sink.open(name, true))
  const relay = yield* Target.relay(setup, "relay", {
    webhooks: {
      scheduling: { path: Requests.path, secrets },
      code: { path: codePath, secrets, verify: "github", event: { account: "/account_id" } },
    },
    sinks: Object.fromEntries(sinks.map((sink) => [sink.name, sink.config])),
    routes: [
      { name: "everything", match: "**", to: ["all"] },
      ...Sink.senders.map((name) => ({ name, match: "appointment.created", webhook: name, to: [name] })),
    ],
  })
  yield* Console.log(
    `${Program.machine}; two senders of ${rate / 2} deliveries/s for ${seconds} s, then ${rate} forged ones/s beside one of them`,
  )
  const send = sender(relay.port)
  const pace = { rate: rate / 2, seconds }
  const sent = pace.rate * seconds
  const together = { concurrency: "unbounded" } as const
  const real = [send(pace, 0, scheduled), send(pace, 0, github(Requests.secret))] as const
  const [scheduling, code] = yield* Effect.all(real, together)
  // Forged events have other numbers, because an event has the time of its first delivery, and these are sent at twice
  // the pace.
  const forging = send({ rate, seconds }, 2 * sent, github("another secret"))
  const flooded = [send(pace, sent, scheduled), forging] as const
  const [beside, forged] = yield* Effect.all(flooded, together)
  const expected = { scheduling: 2 * distinct(sent), code: distinct(sent) }
  const total = 2 * (expected.scheduling + expected.code)
  const everywhere = Effect.sync(() => sinks.reduce((sum, { arrived }) => sum + arrived, 0))
  yield* Target.awaitDelivered({ ...relay, delivered: everywhere }, total)
  const lags = sinks[0]?.of("scheduling").lags.slice(expected.code) ?? []
  return [
    accepted("scheduling", scheduling),
    accepted("code", code),
    accepted("scheduling, beside forged deliveries of code", beside),
    {
      requirement: "code: every forged delivery is refused",
      measured: `${forged.requests} sent, ${forged.refused} refused`,
      ok: forged.refused === forged.requests,
    },
    ...sinks.flatMap((sink) =>
      Sink.senders.map((sender) =>
        arrived(sink, sender, sink.name === "all" || sink.name === sender ? expected[sender] : 0),
      ),
    ),
    Sink.onTime("scheduling, beside forged deliveries of code", lags),
  ]
})
