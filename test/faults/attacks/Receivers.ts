/** A receiver's misdeeds towards one event, and the required outcome of that event. */
import { gzipSync } from "node:zlib"
import { dead, delivered, type Fate, settled } from "./Attack.ts"
import { drip, type Misdeed, ok, pour, sayAndDrip } from "./Wild.ts"

/**
 * `waits`: the receiver asks for a wait, or says that the sink must be fixed, and the status reports it. Once the
 * receiver is healed and an operator resumes the lane, every event is delivered. `alone`: if other events succeed, this
 * event may also wait by itself for the requested time, and its lane runs.
 */
export type End = Fate | { readonly waits: RegExp; readonly alone?: true }

export interface Case {
  readonly name: string
  readonly does: Misdeed
  readonly end: End
  /** A sink of another type than `http`. */
  readonly sink?: object
  /** Its answer to honest events, if that is not 204. */
  readonly taken?: string
}

/** Cases by their names. */
const casesOf = (
  all: Readonly<Record<string, readonly [does: Misdeed, end: End, more?: Pick<Case, "sink" | "taken">]>>,
): ReadonlyArray<Case> => Object.entries(all).map(([name, [does, end, more]]) => ({ name, does, end, ...more }))

const waits = (message: RegExp): End => ({ waits: message })
const waitsAlone = (message: RegExp): End => ({ waits: message, alone: true })

/** Answers each attempt with a text. */
const says =
  (text: string): Misdeed =>
  (socket) =>
    void socket.write(Buffer.from(text, "latin1"))
/** Answers each attempt with a text, and ends the connection. */
const saysAndEnds =
  (text: string): Misdeed =>
  (socket) =>
    void socket.end(Buffer.from(text, "latin1"))
const status = (line: string, headers = "", body = "") =>
  `HTTP/1.1 ${line}\r\n${headers}content-length: ${body.length}\r\n\r\n${body}`

const slack = { type: "slack" }
const pager = { type: "pagerduty", routingKey: "R", headers: { "x-relay-event-id": "{{id}}" } }
const bomb = gzipSync(Buffer.alloc(32 * 1024 * 1024))

/** The receiver can no longer report the outcome of its event, so the attempt counts as failed. */
const lostConnection = dead(/closed|reached|failed|answer/)
const tooSlow = dead(/no answer within/)
/** The runtime's HTTP client may refuse or accept the answer. Either way the event is settled. */
const ends = settled

export const cases = casesOf({
  // Connections.
  "closes the connection": [(socket) => void socket.destroy(), lostConnection],
  "resets the connection": [(socket) => void socket.resetAndDestroy(), lostConnection],
  "closes in the middle of the status line": [saysAndEnds("HTTP/1.1 2"), lostConnection],
  "closes in the middle of the headers": [saysAndEnds("HTTP/1.1 200 OK\r\ncontent-le"), lostConnection],
  "takes the event and then resets": [(socket) => void socket.write(ok, () => socket.resetAndDestroy()), settled],
  "says nothing": [() => {}, tooSlow],
  "says a byte a second": [(socket) => drip(socket, "H", 1_000), tooSlow],
  "says headers for ever": [(socket) => sayAndDrip(socket, "HTTP/1.1 200 OK\r\n", "x-more: 1\r\n", 50), settled],
  // Lengths and bodies: the status is all that counts.
  "promises more than it sends": [saysAndEnds(status("200 OK", "", "short").replace("5\r", "500\r")), delivered],
  "sends less and waits": [says("HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\nshort"), delivered],
  "drips its body": [
    (socket) => sayAndDrip(socket, "HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n", "x", 200),
    delivered,
  ],
  "sends a body without end": [(socket) => pour(socket, "HTTP/1.1 200 OK\r\n\r\n", Buffer.alloc(65_536)), delivered],
  "sends chunks without end": [
    (socket) =>
      pour(socket, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", `1000\r\n${"x".repeat(4_096)}\r\n`),
    delivered,
  ],
  "breaks a chunk": [saysAndEnds("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nx"), settled],
  "answers with a gzip bomb": [
    (socket) =>
      void socket.end(
        Buffer.concat([
          Buffer.from(`HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: ${bomb.length}\r\n\r\n`),
          bomb,
        ]),
      ),
    delivered,
  ],
  "says gzip and sends none": [says(status("200 OK", "content-encoding: gzip\r\n", "not gzip")), delivered],
  "answers 204 with a body": [saysAndEnds("HTTP/1.1 204 No Content\r\ncontent-length: 4\r\n\r\nbody"), delivered],
  "answers twice, the second time 400": [says(`${status("200 OK")}${status("400 Bad Request")}`), delivered],
  "says two lengths": [says("HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nabc"), ends],
  "says a length below nought": [saysAndEnds("HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n"), ends],
  // Heads.
  "sends a header of a megabyte": [says(status("200 OK", `x-long: ${"x".repeat(1_000_000)}\r\n`)), ends],
  "sends 10,000 headers": [says(status("200 OK", "x-many: 1\r\n".repeat(10_000))), ends],
  "sets 1,000 cookies": [
    says(status("200 OK", Array.from({ length: 1_000 }, (_, n) => `set-cookie: c${n}=${"x".repeat(20)}\r\n`).join(""))),
    ends,
  ],
  "says a hundred times that it goes on": [says(`${"HTTP/1.1 100 Continue\r\n\r\n".repeat(100)}${ok}`), ends],
  "says for ever that it goes on": [(socket) => drip(socket, "HTTP/1.1 100 Continue\r\n\r\n", 20), dead(/./)],
  "switches protocols": [
    says("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"),
    dead(/./),
  ],
  "speaks something else": [saysAndEnds("220 mail.example ESMTP\r\n"), dead(/./)],
  "speaks HTTP/2": [saysAndEnds("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), dead(/./)],
  "answers status 999": [says(status("999 Odd")), ends],
  "answers status 000": [says(status("000 Odd")), dead(/./)],
  "puts NUL into a header": [says(status("200 OK", "x-nul: a\0b\r\n")), ends],
  // Statuses.
  "answers 500": [says(status("500 Internal Server Error")), dead(/500/)],
  "answers 400": [says(status("400 Bad Request")), dead(/400/)],
  "answers 422 with what it was sent": [says(status("422 No", "", '{"secret":"evtBad-echo"}')), dead(/422$/)],
  "answers 304": [says("HTTP/1.1 304 Not Modified\r\n\r\n"), waits(/304/)],
  "redirects to itself": [says(status("307 Temporary Redirect", "location: /redirects-to-itself\r\n")), waits(/307/)],
  "redirects to a file": [says(status("302 Found", "location: file:///etc/passwd\r\n")), waits(/302/)],
  "redirects to another path": [
    says(status("308 Permanent Redirect", "location: /nobody-asks-for-this\r\n")),
    waits(/308/),
  ],
  "asks for a wait of 300,000 years": [
    says(status("429 Too Many Requests", "retry-after: 9999999999999\r\n")),
    waitsAlone(/429/),
  ],
  "asks for a wait until the year 9999": [
    says(status("503 Busy", "retry-after: Fri, 31 Dec 9999 23:59:59 GMT\r\n")),
    waitsAlone(/503/),
  ],
  "asks once for a wait below nought": [
    (socket, attempt) => void socket.write(attempt > 1 ? ok : status("429 Busy", "retry-after: -5\r\n")),
    delivered,
  ],
  "asks once for a wait of nonsense": [
    (socket, attempt) => void socket.write(attempt > 1 ? ok : status("503 Busy", "retry-after: soon\r\n")),
    delivered,
  ],
  "wants credentials for one event": [says(status("401 Unauthorized", "www-authenticate: Basic\r\n")), waits(/401/)],
  // Alert services.
  "is Slack and says 200 to an error": [
    says(status("200 OK", "", "invalid_blocks")),
    dead(/invalid/),
    { sink: slack, taken: status("200 OK", "", "ok") },
  ],
  "is Slack and is a login page": [
    says(status("200 OK", "", "<html>sign in</html>")),
    dead(/200/),
    { sink: slack, taken: status("200 OK", "", "ok") },
  ],
  "is Slack and is gone": [
    says(status("404 Not Found", "", "no_service")),
    waits(/404|Slack/),
    { sink: slack, taken: status("200 OK", "", "ok") },
  ],
  "is PagerDuty and refuses the alert": [
    says(status("400 Bad Request", "", '{"status":"invalid event"}')),
    dead(/400/),
    { sink: pager, taken: status("202 Accepted", "", "{}") },
  ],
  "is PagerDuty and answers 200": [
    says(status("200 OK", "", "{}")),
    waits(/200/),
    { sink: pager, taken: status("202 Accepted", "", "{}") },
  ],
})
