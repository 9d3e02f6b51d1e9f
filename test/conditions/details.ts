/** The API for client details under each condition. Each event is about another client. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { type Column, never } from "./Column.ts"
import { addresses, answer, certificates, clock, idle, json, late, moves, page, restarts } from "./HttpRows.ts"
import { answers, HttpService, type Kind, steps } from "./HttpService.ts"

const email = "ada@example.com"
const clients = (url: string) => ({
  clients: { baseUrl: url, timeout: "500 millis", events: { "appointment.**": "/data/object/id" } },
})

const details: Kind = {
  receives: () => {
    const receiver = new HttpService()
    receiver.answer = ({ body }) => (body.includes(email) ? undefined : answer(500, "no details"))
    return receiver
  },
  accepted: ({ path }) => json(200, { id: path.split("/").at(-1), first_name: "Ada", email }),
  sink: (_, __, receiver) => ({
    type: "http",
    url: `${receiver?.url}/hooks`,
    format: "template",
    body: { id: "{{id}}", email: "{{/client/email}}" },
    enrich: "wait",
  }),
  config: (url) => clients(url),
  says: {
    refused: /waiting: .*API can't be reached: nothing listens there/,
    late: /waiting: .*API did not answer within 500ms/,
    upgraded: /waiting: .*API answers 502/,
    expired: /misconfigured: .*no TLS with the API \(expired certificate\)/,
    untrusted: /misconfigured: .*no TLS with the API \(untrusted certificate\).*NODE_EXTRA_CA_CERTS/,
    elsewhere: /misconfigured: .*no TLS with the API \(certificate of another host\)/,
    older: /misconfigured: .*no TLS with the API \(failed handshake\)/,
  },
}

const replacedKey = steps(
  details,
  "the key in a file is replaced; after a reload the new one is sent",
  (service, { directory, reload }) => {
    const write = (key: string) => writeFileSync(join(directory, "key"), key)
    write("first")
    const only = (key: string) => {
      service.answer = ({ headers }) => (headers.get("x-api-key") === key ? undefined : answer(401))
    }
    only("first")
    const headers = { "x-api-key": `\${file:${join(directory, "key")}}` }
    return {
      config: { clients: { ...clients(service.url).clients, headers } },
      breaks: () => only("second"),
      heals: () => {
        write("second")
        return reload()
      },
    }
  },
  { says: /misconfigured: .*API answers 401; check "clients\.headers"/ },
)

const throttled = (what: string, response: () => Response, wait: number) =>
  answers(details, what, () => response, {
    says: /waiting: .*API answers (429|503)/,
    bound: { wait, because: "the API asks for this wait, or five seconds if it names none" },
  })

const refuses = (what: string, response: () => Response, says: RegExp) =>
  answers(details, what, () => response, { says })

const noClient = /waiting: .*the API's answer is no client; check "clients\.baseUrl"/

export const column: Column = {
  cells: {
    a: idle(details),
    b: moves(details),
    c: [replacedKey],
    d: [
      answers(details, "the API is in maintenance for a while", () => () => answer(503, "maintenance"), {
        says: /waiting: .*API answers 503/,
        isQuick: true,
      }),
    ],
    e: late(details),
    f: never("a request is for one client", "https://www.rfc-editor.org/rfc/rfc9110#section-9.3.1"),
    g: [
      refuses("this machine is not allowed; the lane waits", () => answer(403), /misconfigured: .*API answers 403/),
      refuses("a quota is used up; the lane waits", () => answer(402), /waiting: .*API answers 402/),
    ],
    h: [
      refuses("a sign-in page comes with 200", () => page(200, "Sign in"), noClient),
      refuses("an error comes with 200", () => json(200, { error: "internal" }), noClient),
    ],
    i: clock(details, "the clock is wrong; the lifetime of details is not counted by it, and deliveries go on"),
    j: [
      throttled("429 with a time", () => answer(429, "", { "retry-after": "2" }), 2_000),
      throttled("429 without a time", () => answer(429), 5_000),
      throttled("503 with a time", () => answer(503, "", { "retry-after": "1" }), 1_000),
    ],
    k: addresses(details),
    l: restarts(details),
    m: certificates(details),
    n: [
      steps(
        details,
        "a record of 60 KiB is read",
        (service) => {
          service.answer = ({ path }) => json(200, { id: path.split("/").at(-1), email, note: "n".repeat(60 * 1024) })
          return { breaks: () => {}, heals: () => {} }
        },
        {},
      ),
    ],
  },
}
