/** RELAY_UNDER runs it under another runtime, or in a binary. */
import { beforeAll, expect } from "bun:test"
import { Effect } from "effect"
import { Http } from "../../../src/sinks/http/Http.ts"
import type { HttpConfig } from "../../../src/sinks/http/HttpConfig.ts"
import { type SinkContract, sinkContract, type Wrong } from "../../contract/sinkContract.ts"
import { canary } from "../../contract/sinkEntries.ts"
import { serve } from "../receiver.ts"
import { openThere, startThere } from "../thereSink.ts"
import { client, tokenEndpoint } from "./tokenEndpoint.ts"

type Written = typeof HttpConfig.Encoded

const config = (url: string): Written => ({
  url,
  headers: { authorization: `Bearer ${canary}` },
  sign: { secret: canary },
})

const open = (written: Written) => openThere("http", Http, () => ({ ...written }))

beforeAll(startThere, 300_000)

/** A receiver that keeps the bodies posted to it. `signed` extracts the signed bytes from each. */
const receiver = (
  more: Partial<Written> = {},
  signed: (body: Uint8Array) => ReadonlyArray<Uint8Array> = (body) => [body],
  authorization: RegExp = /^Bearer canary-3f9a1c$/,
): SinkContract["make"] =>
  Effect.gen(function* () {
    const bodies: Array<Uint8Array> = []
    let wake: Array<() => void> = []
    const { url } = yield* serve(({ method, headers, body }, response) => {
      if (method === "POST" && !authorization.test(headers.authorization ?? "")) {
        response.writeHead(401).end()
        return
      }
      if (method === "POST") bodies.push(...signed(body))
      for (const waiter of wake.splice(0)) waiter()
      response.writeHead(204).end()
    })
    return {
      open: open({ ...config(`${url}/${canary}?key=${canary}`), ...more }),
      received: (count) =>
        Effect.promise(async () => {
          while (bodies.length < count) await new Promise<void>((resolve) => wake.push(resolve))
          wake = []
          return bodies
        }),
    }
  })

/** The signed bytes in a structured CloudEvent. `data` holds them unchanged, so they are cut out of the document. */
const dataOf = (body: Uint8Array): Uint8Array => {
  const document = Buffer.from(body)
  const { data_base64 } = JSON.parse(document.toString())
  if (typeof data_base64 === "string") return Buffer.from(data_base64, "base64")
  return document.subarray(document.indexOf(',"data":') + ',"data":'.length, -1)
}

sinkContract("the HTTP sink", {
  ofType: {
    type: "http",
    carriesTrace: true,
    config: {
      url: `https://example.com/${canary}?key=${canary}`,
      headers: { Authorization: canary },
      sign: { secret: canary },
      tls: { certificate: "cert.pem", key: canary },
    },
  },
  make: receiver(),
  wrong: {
    ...Object.fromEntries(
      Object.entries({
        401: /credentials/,
        403: /credentials/,
        404: /path/,
        405: /method/,
        410: /gone/,
        307: /redirect/,
      }).map(([status, says]): [string, Wrong] => {
        const opened = Effect.flatMap(
          serve((_, response) => response.writeHead(Number(status), { location: "file:///" }).end(canary)),
          ({ url }) => open(config(`${url}/${canary}`)),
        )
        const message = [/POST http:\/\/127\.0\.0\.1:\d+ answered/, status, says]
        return [`an answer of ${status}`, [opened, "SinkMisconfigured", message]]
      }),
    ),
    "a receiver that is not there": [
      open(config(`http://127.0.0.1:1/${canary}`)),
      "SinkUnavailable",
      ["http://127.0.0.1:1", /can't be reached/],
    ],
    "a certificate file that is not there": [
      open({ ...config(`https://127.0.0.1:1/${canary}`), tls: { ca: "no-such.pem" } }),
      "SinkMisconfigured",
      ["no-such.pem", /read/],
    ],
  },
})

sinkContract("the HTTP sink, CloudEvents", { make: receiver({ format: "cloudevents" }) })

sinkContract("the HTTP sink, structured CloudEvents", {
  make: receiver({ format: "cloudevents", mode: "structured" }, (body) => [dataOf(body)]),
})

/** The documents of an array, cut out with all bytes of their strings and numbers. */
const documentsOf = (body: Uint8Array): ReadonlyArray<Uint8Array> => {
  const array = Buffer.from(body)
  expect(Array.isArray(JSON.parse(array.toString()))).toBe(true)
  const documents: Array<Uint8Array> = []
  let [depth, from, inString] = [0, 1, false]
  for (let at = 1; at < array.length; at++) {
    const byte = String.fromCharCode(array[at] ?? 0)
    if (inString && byte === "\\") at += 1
    else if (byte === '"') inString = !inString
    else if (!inString && "[{".includes(byte)) depth += 1
    else if (!inString && depth > 0 && "]}".includes(byte)) depth -= 1
    else if (!inString && depth === 0 && ",]".includes(byte)) {
      documents.push(array.subarray(from, at))
      from = at + 1
    }
  }
  return documents
}

/** The signed bytes in a value or line of the `raw` format. */
const ofRaw = (value: Uint8Array): Uint8Array => {
  if (!Buffer.from(value).toString().startsWith('{"relay_base64":')) return value
  return Buffer.from(JSON.parse(Buffer.from(value).toString()).relay_base64, "base64")
}

const linesOf = (body: Uint8Array): ReadonlyArray<Uint8Array> => {
  const lines = Buffer.from(body).toString("utf8").split("\n")
  expect(lines.pop()).toBe("")
  return lines.map((line) => ofRaw(Buffer.from(line)))
}

const batch = { maxEvents: 7, linger: "1 millis" }

sinkContract("the HTTP sink, batches of CloudEvents", {
  make: receiver({ format: "cloudevents", mode: "batched", batch }, (body) => documentsOf(body).map(dataOf)),
})

sinkContract("the HTTP sink, arrays of JSON", {
  make: receiver({ format: "json", batch }, (body) => documentsOf(body).map(ofRaw)),
})

sinkContract("the HTTP sink, lines of JSON", { make: receiver({ format: "ndjson", batch }, linesOf) })

const oauth = (tokenUrl: string, clientSecret = client.secret) => ({
  headers: {},
  oauth: { tokenUrl, clientId: client.id, clientSecret },
})

sinkContract("the HTTP sink, OAuth 2.0", {
  make: Effect.flatMap(tokenEndpoint(), ({ tokenUrl }) =>
    receiver(oauth(tokenUrl), undefined, /^Bearer canary-token-\d+$/),
  ),
  wrong: {
    "a client that the token endpoint does not know": [
      Effect.flatMap(tokenEndpoint(), ({ tokenUrl }) =>
        open({ ...config("http://127.0.0.1:1"), ...oauth(`${tokenUrl}/${canary}`, canary) }),
      ),
      "SinkMisconfigured",
      [/token endpoint http:\/\/127\.0\.0\.1:\d+/, "invalid_client", '"oauth.clientSecret"'],
    ],
    "a token endpoint that is not there": [
      open({ ...config("http://127.0.0.1:1"), ...oauth(`http://127.0.0.1:1/${canary}`) }),
      "SinkUnavailable",
      ["token endpoint http://127.0.0.1:1", /can't be reached/],
    ],
    "a token that the receiver refuses, and another one too": [
      Effect.gen(function* () {
        const { tokenUrl } = yield* tokenEndpoint()
        const { url } = yield* serve((_, response) => response.writeHead(401).end(canary))
        return yield* open({ ...config(url), ...oauth(tokenUrl) })
      }),
      "SinkMisconfigured",
      ["401", '"oauth"'],
    ],
  },
})
