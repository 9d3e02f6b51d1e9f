/** The token endpoint of the HTTP sink under each condition. Each attempt needs a token of its own. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { type Column, never } from "./Column.ts"
import { addresses, answer, certificates, clock, idle, json, late, moves, page, restarts } from "./HttpRows.ts"
import { answers, HttpService, type Kind, steps } from "./HttpService.ts"

const token = (access_token: string) => json(200, { access_token, token_type: "Bearer", expires_in: 0 })
const error = (status: number, error: string, error_description: string) => json(status, { error, error_description })

const oauth: Kind = {
  receives: () => new HttpService(),
  accepted: () => token("a-token"),
  sink: (url, tls, receiver) => ({
    type: "http",
    url: `${receiver?.url}/hooks`,
    oauth: { tokenUrl: `${url}/token`, clientId: "relay", clientSecret: "a-secret", ...(tls && { tls }) },
  }),
  says: { untrusted: /misconfigured: .*no authority that is trusted.*"oauth\.tls": \{ "ca"/ },
}

const rfc6749 = "https://www.rfc-editor.org/rfc/rfc6749"

const otherSecret = steps(
  oauth,
  "the client's secret is replaced at the endpoint; the file follows, and a reload",
  (service, { directory, reload }) => {
    const receiver = new HttpService()
    const file = join(directory, "secret")
    const write = (secret: string) => writeFileSync(file, secret)
    const only = (secret: string) => {
      service.answer = ({ headers }) =>
        headers.get("authorization") === `Basic ${btoa(`relay:${secret}`)}`
          ? undefined
          : error(401, "invalid_client", "The provided client secret is expired")
    }
    write("one")
    only("one")
    return {
      sink: {
        type: "http",
        url: `${receiver.url}/hooks`,
        oauth: { tokenUrl: `${service.url}/token`, clientId: "relay", clientSecret: `file:${file}` },
      },
      arrived: () => receiver.numbers,
      breaks: () => only("two"),
      heals: () => {
        write("two")
        return reload()
      },
      close: () => Promise.all([service.stop(), receiver.stop()]),
    }
  },
  {
    says: /misconfigured: .*gives no token: invalid_client; it says "The provided client secret is expired".*"oauth\.clientSecret"/,
  },
)

const revoked = steps(
  oauth,
  "the receiver revokes a token that still lives; another one is fetched",
  (service) => {
    const receiver = new HttpService()
    let valid = "one"
    receiver.answer = ({ headers }) => (headers.get("authorization") === `Bearer ${valid}` ? undefined : answer(401))
    service.answer = () => json(200, { access_token: valid, token_type: "Bearer", expires_in: 3_600 })
    return {
      sink: oauth.sink(service.url, undefined, receiver),
      arrived: () => receiver.numbers,
      breaks: () => {
        valid = "two"
      },
      heals: () => {},
      close: () => Promise.all([service.stop(), receiver.stop()]),
    }
  },
  {},
)

const throttled = (what: string, response: () => Response, wait: number) =>
  answers(oauth, what, () => response, {
    says: /waiting: the token endpoint .*answered 429/,
    bound: { wait, because: "the endpoint asks for this wait, or five seconds if it names none" },
  })

export const column: Column = {
  cells: {
    a: idle(oauth),
    b: moves(oauth),
    c: [otherSecret, revoked],
    d: [
      answers(oauth, "the endpoint's path is gone for a while", () => () => page(404, "Not Found"), {
        says: /misconfigured: .*answered 404.*; it says "Not Found".*check "oauth\.tokenUrl"/,
        isQuick: true,
      }),
      answers(
        oauth,
        "the client was never registered, until it is",
        () => () => error(401, "invalid_client", "No client with requested id: relay"),
        {
          says: /misconfigured: .*invalid_client; it says "No client with requested id: .*"oauth\.clientId"/,
          isThereAtStart: true,
        },
      ),
    ],
    e: late(oauth, 6_000, {
      says: /waiting: the token endpoint .*no answer within 5 seconds/,
      delivery: { timeout: "10 seconds" },
    }),
    f: never("a request is for one token", `${rfc6749}#section-4.4`),
    g: [
      answers(
        oauth,
        "the client may not ask for this scope; the lane waits",
        () => () => error(400, "invalid_scope", "The scope 'events' is not allowed for this client"),
        { says: /misconfigured: .*invalid_scope; it says "The scope 'events' is not allowed.*"oauth\.scope"/ },
      ),
      answers(
        oauth,
        "the tenant is blocked; the lane waits",
        () => () => error(403, "access_denied", "The tenant is suspended"),
        { says: /misconfigured: .*access_denied; it says "The tenant is suspended"/ },
      ),
    ],
    h: [
      answers(oauth, "a sign-in page comes with 200", () => () => page(200, "Sign in"), {
        says: /misconfigured: .*answered 200, without a bearer token/,
      }),
      answers(oauth, "an error comes with 200", () => () => error(200, "invalid_client", "unknown"), {
        says: /misconfigured: .*answered 200, without a bearer token; check "oauth\.tokenUrl"/,
      }),
      answers(
        oauth,
        "a CDN blocks this machine",
        () => () => answer(403, "error code: 1010", { server: "cloudflare" }),
        { says: /misconfigured: .*Cloudflare, in front of the service, blocks this machine/ },
      ),
    ],
    i: clock(oauth, "the clock is wrong; a token's lifetime counts from its answer, and deliveries go on"),
    j: [
      throttled("429 with a time", () => answer(429, "", { "retry-after": "2" }), 2_000),
      throttled("429 without a time", () => answer(429), 5_000),
    ],
    k: addresses(oauth),
    l: restarts(oauth),
    m: certificates(oauth),
    n: [
      steps(
        oauth,
        "a token of 6,000 bytes is sent as it came",
        (service) => {
          const receiver = new HttpService()
          const long = "t".repeat(6_000)
          service.answer = () => token(long)
          receiver.answer = ({ headers }) =>
            headers.get("authorization") === `Bearer ${long}` ? undefined : answer(500)
          return {
            sink: oauth.sink(service.url, undefined, receiver),
            arrived: () => receiver.numbers,
            breaks: () => {},
            heals: () => {},
            close: () => Promise.all([service.stop(), receiver.stop()]),
          }
        },
        {},
      ),
    ],
  },
}
