/** How sinks misbehave. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { lacking, makeAuthority } from "../../lib/authority.ts"
import type { Line } from "../Line.ts"
import { skipped } from "../relay/Subject.ts"
import { Receiver } from "../relay/Traffic.ts"
import { line, type Trial } from "./Trial.ts"

const answers = (status: number, headers: Record<string, string> = {}) => ({
  misbehave: (bad: Receiver) => {
    bad.answer = () => new Response(null, { status, headers })
  },
  behave: (bad: Receiver) => {
    bad.answer = () => undefined
  },
})

/** Seconds that a throttled sink asks for, and the relay's own wait if the sink doesn't ask. */
const asked = 2
const unasked = 5

/** A throttled sink is left alone for the time that it asked for: a burst at first, then one probe per wait. */
const leftAlone = (wait: number): NonNullable<Trial["meanwhile"]> => {
  const atOnce = 32
  return ({ bad, seconds, sent }) => {
    const probes = bad.requests - bad.times.size
    const most = atOnce + Math.ceil(seconds / wait) * 2
    return probes > most ? [`it was asked ${probes} times for ${sent} events, and ${most} would have done`] : []
  }
}

/** A body that never ends, with a chunk every `every` milliseconds. */
const endless = (chunk: Uint8Array, every: number): Response =>
  new Response(
    new ReadableStream({
      async pull(controller) {
        if (every > 0) await Bun.sleep(every)
        controller.enqueue(chunk)
      },
    }),
  )

const always500: Trial = { name: "sink-500", fault: "a sink answers 500 to everything", ...answers(500) }

const throttledUntil: Trial = {
  name: "sink-429-retry-after",
  fault: "a sink throttles and says until when",
  ...answers(429, { "retry-after": String(asked) }),
  meanwhile: leftAlone(asked),
}

const throttled: Trial = {
  name: "sink-429",
  fault: "a sink throttles and says no more",
  ...answers(429),
  meanwhile: leftAlone(unasked),
}

/** A server of bytes, because no server of requests can do this to its clients. */
const raw = (port: number, onData: (socket: Bun.Socket) => void) =>
  Bun.listen({ hostname: "127.0.0.1", port, socket: { data: (socket) => onData(socket), error: () => {} } })

const atTheSocket = (name: string, fault: string, says: string, onData: (socket: Bun.Socket) => void): Trial => {
  let server: ReturnType<typeof raw> | undefined
  return {
    name,
    fault,
    misbehave: async (bad) => {
      await bad.goAway()
      server = raw(bad.port, onData)
    },
    meanwhile: async ({ subject }) => {
      const lane = (await subject.status()).lanes.find(({ name }) => name === "bad")
      return lane?.message.includes(says) === true ? [] : [`the status says "${lane?.message}", not "${says}"`]
    },
    behave: (bad) => {
      server?.stop(true)
      bad.comeBack()
    },
  }
}

const resets = atTheSocket("sink-resets", "a sink resets every connection", "closed before an answer", (socket) =>
  socket.terminate(),
)

/** Its first line comes letter by letter; no delivery waits for the end of it. */
const slow = atTheSocket("sink-slow", "a sink answers one byte a second", "no answer within 1s", (socket) => {
  const text = "HTTP/1.1 204 No Content\r\n\r\n"
  let place = 0
  const timer = setInterval(() => {
    if (socket.readyState <= 0 || place >= text.length) clearInterval(timer)
    else socket.write(text.charAt(place++))
  }, 1_000)
})

/** The answer has come: what follows is cut off, and the event is delivered. */
const endlessAnswers: Trial = {
  name: "sink-endless",
  fault: "a sink's answers never end",
  misbehave: (bad) => {
    const chunk = new Uint8Array(64 * 1024)
    bad.answer = (number) => endless(number % 2 === 0 ? chunk : chunk.subarray(0, 1), number % 2 === 0 ? 0 : 200)
  },
  behave: (bad) => {
    bad.answer = () => undefined
  },
}

/** Redirects must not be followed, neither to a file nor to another server. */
const redirects = (): Trial => {
  const elsewhere = new Receiver()
  const targets = ["file:///etc/passwd", elsewhere.url, "ftp://127.0.0.1/", "//[::1]/"]
  const statuses = [301, 302, 303, 307, 308]
  return {
    name: "sink-redirects",
    fault: "a sink redirects to file: and elsewhere",
    misbehave: (bad) => {
      bad.answer = (number) =>
        new Response(null, {
          status: statuses[number % statuses.length] ?? 302,
          headers: { location: targets[number % targets.length] ?? "" },
        })
    },
    meanwhile: async ({ subject }) => {
      const lane = (await subject.status()).lanes.find(({ name }) => name === "bad")
      return [
        ...(elsewhere.requests > 0 ? [`${elsewhere.requests} deliveries followed it`] : []),
        ...(lane?.condition === "misconfigured" ? [] : [`the lane is ${lane?.condition}, not misconfigured`]),
      ]
    },
    behave: async (bad) => {
      await elsewhere.goAway()
      bad.answer = () => undefined
    },
  }
}

/** One event in a hundred never succeeds. It becomes a dead letter, and delays no other event. */
const poison: Trial = {
  name: "sink-poison",
  fault: "a sink refuses one event in a hundred",
  misbehave: (bad) => {
    bad.answer = (number) => (number % 100 === 0 ? new Response(null, { status: 422 }) : undefined)
  },
  behave: () => {},
  meanwhile: async ({ subject, sent }) => {
    await subject.drained(10)
    const [letters, expected] = [(await subject.deadLetters("bad")).length, Math.floor((sent - 1) / 100)]
    return letters === expected ? [] : [`${letters} dead letters for ${expected} poisoned events`]
  },
  dead: (number) => number % 100 === 0,
}

/** Its certificate runs out, and is renewed. */
const expiredTls: Line = {
  name: "sink-tls-expired",
  fault: "a sink's certificate has expired",
  run: async (options) => {
    if (lacking !== undefined) return skipped(lacking)
    const directory = mkdtempSync(join(tmpdir(), "relay-faults-tls-"))
    try {
      const authority = makeAuthority(directory)
      const names = "DNS:localhost,IP:127.0.0.1"
      const fresh = authority.issue("fresh", names).pem
      const expired = authority.issue("expired", names, -1).pem
      const trial: Trial = {
        name: "",
        fault: "",
        config: { tls: { ca: authority.ca } },
        receiver: () => new Receiver(fresh),
        misbehave: async (bad) => {
          await bad.goAway()
          bad.comeBack(expired)
        },
        meanwhile: async ({ subject, bad, sent }) => {
          const lane = (await subject.status()).lanes.find(({ name }) => name === "bad")
          return [
            ...(bad.times.size >= sent ? ["it was trusted all the same"] : []),
            ...(lane?.message.includes("expired") === true ? [] : [`the status says "${lane?.message}"`]),
          ]
        },
        behave: async (bad) => {
          await bad.goAway()
          bad.comeBack()
        },
      }
      return await line(trial).run(options)
    } finally {
      rmSync(directory, { recursive: true })
    }
  },
}

const redirected: Line = {
  name: "sink-redirects",
  fault: "a sink redirects to file: and elsewhere",
  run: (options) => line(redirects()).run(options),
}

export const trials: ReadonlyArray<Line> = [
  ...[always500, throttledUntil, throttled, resets, slow, endlessAnswers, poison].map(line),
  redirected,
  expiredTls,
]
