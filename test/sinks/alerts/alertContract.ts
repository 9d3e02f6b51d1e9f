/**
 * The contract of every alert service: the contract of sinks, and the requests and answers that the service documents.
 */
import { describe, expect } from "bun:test"
import { Effect, Fiber, Schema } from "effect"
import type { Entry } from "../../../src/event/Event.ts"
import type { AnySinkType, Reason } from "../../../src/sinks/Sink.ts"
import * as sinks from "../../../src/sinks/Sinks.ts"
import { sinkContract, type Wrong } from "../../contract/sinkContract.ts"
import { canary } from "../../contract/sinkEntries.ts"
import { it } from "../../lib/effect.ts"
import { type Handler, type Received, serve } from "../receiver.ts"
import { bytes, entry, envelope, reasonOf } from "../samples.ts"
import { hostiles } from "./hostile.ts"
import { local, type Service } from "./localService.ts"

type Answer = readonly [status: number, body: string, headers?: Readonly<Record<string, string>>]

export interface AlertContract {
  /** The type's name in `Sinks.ts`. */
  readonly type: string
  readonly service: Service
  /** The keys that the local service requires in addition to `url`. All of them are secrets. */
  readonly config?: Readonly<Record<string, string>>
  /** The key that holds its credentials, if it is neither the URL nor a key of the service's own. */
  readonly credentials?: "headers"
  /** Answers that call for a person, and the text that the message must contain. */
  readonly wrong: ReadonlyArray<readonly [status: number, body: string, says: RegExp]>
  /** The documented answers, and what each means to the lane. */
  readonly documented: ReadonlyArray<readonly [Answer, Reason["_tag"] | undefined]>
}

const types: Readonly<Record<string, AnySinkType>> = sinks

/** Opens a sink of the type. With `digestKey` it is opened as in a lane of digests. */
export const openAlert = Effect.fnUntraced(function* (type: string, config: object, digestKey?: string) {
  const sinkType = types[type]
  if (sinkType === undefined) throw new Error(`there is no sink type ${type}`)
  const decoded = Schema.decodeUnknownSync(sinkType.config)(config)
  return yield* sinkType.open(digestKey === undefined ? decoded : sinkType.messages?.ofDigests?.(decoded, digestKey))
})

const say =
  ([status, body, headers = {}]: Answer): Handler =>
  (_, response) =>
    response.writeHead(status, headers).end(body)

export const alertContract = ({ type, service, config = {}, credentials, wrong, documented }: AlertContract): void => {
  const steady = service.steady ?? ((body) => body)
  const open = (url: string, more: object = {}) => openAlert(type, { ...config, url, ...more })

  /** Sends an alert to a service that answers with this handler. Returns the failure, if any. */
  const answered = Effect.fnUntraced(function* (handler: Handler, more: object = {}) {
    const { url } = yield* serve(handler)
    return yield* reasonOf((yield* open(`${url}/hook`, more)).send([entry(1)]))
  })

  const withCanary = (url: string) => open(`${url}/${canary}`, { headers: { authorization: canary } })

  /** The body sent for an event, as its preview shows it before secrets are masked. */
  const bytesOf = (entry: Entry): Uint8Array => {
    const sinkType = types[type]
    const decoded = sinkType && Schema.decodeUnknownSync(sinkType.config)({ ...config, url: "https://example.com" })
    return steady(bytes(JSON.stringify(sinkType?.preview(decoded, [entry])[0]?.body)))
  }

  sinkContract(`the ${type} sink`, {
    ofType: {
      type,
      carriesTrace: true,
      config: {
        url: `https://example.com/${canary}`,
        ...Object.fromEntries(Object.keys(config).map((key) => [key, canary])),
        headers: { authorization: canary },
      },
    },
    bytesOf,
    make: Effect.gen(function* () {
      const bodies: Array<Uint8Array> = []
      let wake: Array<() => void> = []
      const { url } = yield* local(service, ({ body }) => {
        bodies.push(steady(body))
        for (const waiter of wake.splice(0)) waiter()
      })
      return {
        open: withCanary(url),
        received: (count) =>
          Effect.promise(async () => {
            while (bodies.length < count) await new Promise<void>((resolve) => wake.push(resolve))
            wake = []
            return bodies
          }),
      }
    }),
    wrong: {
      ...Object.fromEntries(
        wrong.map(([status, body, says]): [string, Wrong] => {
          const opened = Effect.flatMap(
            serve((_, response) => response.writeHead(status).end(body)),
            ({ url }) => withCanary(url),
          )
          const message = [/POST http:\/\/127\.0\.0\.1:\d+ answered/, String(status), says]
          return [`an answer of ${status} ${body}`, [opened, "SinkMisconfigured", message]]
        }),
      ),
      "a service that is not there": [
        withCanary("http://127.0.0.1:1"),
        "SinkUnavailable",
        ["http://127.0.0.1:1", /can't be reached/],
      ],
    },
  })

  describe(`the ${type} sink: an answer`, () => {
    it.live("has the meaning in the service's documentation", function* () {
      const found: Array<readonly [Answer, Reason["_tag"] | undefined]> = []
      for (const [answer] of documented) found.push([answer, (yield* answered(say(answer)))?._tag])
      expect(found).toEqual([...documented])
    })

    it.live("with a wait makes the lane wait", function* () {
      const reason = yield* answered(say([429, "", { "retry-after": "30" }]))
      expect(reason).toMatchObject({ _tag: "SinkThrottled", retryAfter: 30_000 })
    })

    it.live("that refuses the credentials names the key that has them", function* () {
      for (const status of [401, 403]) {
        const reason = yield* answered(say([status, "no"]))
        expect(reason?.message).toMatch(credentials === undefined ? /"(url|routingKey)"|webhook/ : `"${credentials}"`)
        expect(reason?.message.includes('"headers"')).toBe(credentials === "headers")
      }
    })

    it.live("has the meaning in `classify` first", function* () {
      const reason = yield* answered(say([404, "no_service"]), { classify: { "404": "retry" } })
      expect(reason?._tag).toBe("DeliveryFailed")
    })

    it.live("is quoted without the sent text, and not at all if answers aren't kept", function* () {
      for (const status of [302, 400, 401, 404, 429, 500]) {
        const answer = say([status, "invalid_payload apt_1 of https://x.example/ by ada@example.com"])
        const reason = yield* answered(answer)
        expect(reason?.message).toContain('; it says "invalid_payload *** of https://x.example/ by ***"')
        expect((yield* answered(answer, { keepAnswers: false }))?.message).not.toContain("it says")
      }
    })

    it.live(
      "that is a connection reset means that the service can't be reached, so the event isn't charged",
      function* () {
        const reason = yield* answered((_, __, raw) => raw.socket.destroy())
        expect(reason).toMatchObject({ _tag: "SinkUnavailable" })
      },
    )

    it.live("that is slow is abandoned when the lane gives up, and its connection is closed", function* () {
      let begun = () => {}
      const hasBegun = new Promise<void>((resolve) => {
        begun = resolve
      })
      let closed = () => {}
      const hasClosed = new Promise<void>((resolve) => {
        closed = resolve
      })
      const { url } = yield* serve((_, __, raw) => {
        raw.socket.on("close", () => closed())
        begun()
      })
      const sink = yield* open(url)
      const sending = yield* Effect.forkChild(sink.send([entry(1)]), { startImmediately: true })
      yield* Effect.promise(() => hasBegun)
      yield* Fiber.interrupt(sending)
      yield* Effect.promise(() => hasClosed)
    })
  })

  describe(`the ${type} sink: an alert`, () => {
    it.live("is accepted by the service, whatever the event and the headers contain", function* () {
      const accepted: Array<Received> = []
      const { url } = yield* local(service, (request) => accepted.push(request))
      const text = "{{/data/object/text}}"
      const sink = yield* open(url, {
        summary: text,
        objectId: text,
        details: { Why: text },
        headers: { "x-why": text },
      })
      // Longer headers would only reach the limit of the server's own header parser.
      const all = ["plain\r\nx-evil: 1", ...hostiles(20).map((text) => text.slice(0, 200))]
      for (const [index, text] of all.entries()) {
        const event = { id: text, type: text, body: bytes(JSON.stringify(envelope(index, { text }))) }
        expect(yield* reasonOf(sink.send([entry(index, event)]))).toBeUndefined()
      }
      expect(accepted).toHaveLength(all.length)
      expect(accepted.filter(({ headers }) => "x-evil" in headers)).toEqual([])
      expect(accepted[0]?.headers["x-why"]).toBe("plain%0D%0Ax-evil: 1")
    })

    it.live("that could exceed the service's total limit is cut to it", function* () {
      const { url } = yield* local(service)
      const text = "{{/data/object/text}}"
      const own = Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`Detail ${index}`, text]))
      const shared = Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`Fact ${index}`, "x<".repeat(900)]))
      const sink = yield* open(url, { summary: text, details: { ...shared, ...own } })
      const large = (sequence: number) =>
        entry(sequence, { body: bytes(JSON.stringify(envelope(sequence, { text: `${sequence} & `.repeat(800) }))) })
      expect(yield* reasonOf(sink.send([large(1)]))).toBeUndefined()
      expect(yield* reasonOf(sink.send(Array.from({ length: 60 }, (_, index) => large(index + 1))))).toBeUndefined()
    })

    it.live("of a thousand events is one valid message with their number", function* () {
      const accepted: Array<string> = []
      const { url } = yield* local(service, ({ body }) => accepted.push(Buffer.from(body).toString("utf8")))
      const sink = yield* openAlert(type, { ...config, url: `${url}/hook` }, "{{type}}/{{account_id}}")
      const many = Array.from({ length: 1_000 }, (_, index) => entry(index + 1))
      expect(yield* reasonOf(sink.send(many))).toBeUndefined()
      expect(accepted).toHaveLength(1)
      expect(accepted[0]).toContain("1000 × ")
    })
  })
}
