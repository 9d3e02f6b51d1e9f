/** What a receiver may do to one event, and what must become of that event. */
import { gzipSync } from "node:zlib"
import { dead, delivered, type Fate, settled } from "./Attack.ts"
import { drip, type Misdeed, ok, pour, sayAndDrip } from "./Wild.ts"

/**
 * `waits`: it asks for a wait, or says that the sink must be mended; the status
 * says so, and when the receiver is healed and a person resumes the lane, all
 * of it is delivered. `alone`: where others pass, the event may as well wait by
 * itself for as long as was asked, and its lane runs.
 */
export type End = Fate | { readonly waits: RegExp; readonly alone?: true }

export interface Case {
  readonly name: string
  readonly does: Misdeed
  readonly end: End
  /** Of another type than `http`. */
  readonly sink?: object
  /** What it answers to honest events, where that is not 204. */
  readonly taken?: string
}

const waits = (message: RegExp): End => ({ waits: message })
const waitsAlone = (message: RegExp): End => ({ waits: message, alone: true })

/** Says one thing to each attempt. */
const says =
  (text: string): Misdeed =>
  (socket) =>
    void socket.write(Buffer.from(text, "latin1"))
/** Says it and ends the connection. */
const saysAndEnds =
  (text: string): Misdeed =>
  (socket) =>
    void socket.end(Buffer.from(text, "latin1"))
const status = (line: string, headers = "", body = "") =>
  `HTTP/1.1 ${line}\r\n${headers}content-length: ${body.length}\r\n\r\n${body}`

const slack = { type: "slack" }
const pager = { type: "pagerduty", routingKey: "R", headers: { "x-relay-event-id": "{{id}}" } }
const bomb = gzipSync(Buffer.alloc(32 * 1024 * 1024))

/** An event that the receiver can't be asked about any more is charged, as item 4 of the campaign's list says. */
const lostConnection = dead(/closed|reached|failed|answer/)
const tooSlow = dead(/no answer within/)
/** The runtime's HTTP client refuses it, or takes it: either way it ends. */
const ends = settled

export const cases: ReadonlyArray<Case> = [
  // Connections.
  { name: "closes the connection", does: (socket) => void socket.destroy(), end: lostConnection },
  { name: "resets the connection", does: (socket) => void socket.resetAndDestroy(), end: lostConnection },
  { name: "closes in the middle of the status line", does: saysAndEnds("HTTP/1.1 2"), end: lostConnection },
  {
    name: "closes in the middle of the headers",
    does: saysAndEnds("HTTP/1.1 200 OK\r\ncontent-le"),
    end: lostConnection,
  },
  {
    name: "takes the event and then resets",
    does: (socket) => void socket.write(ok, () => socket.resetAndDestroy()),
    end: settled,
  },
  { name: "says nothing", does: () => {}, end: tooSlow },
  { name: "says a byte a second", does: (socket) => drip(socket, "H", 1_000), end: tooSlow },
  {
    name: "says headers for ever",
    does: (socket) => sayAndDrip(socket, "HTTP/1.1 200 OK\r\n", "x-more: 1\r\n", 50),
    end: settled,
  },
  // Lengths and bodies: the status is all that counts.
  {
    name: "promises more than it sends",
    does: saysAndEnds(status("200 OK", "", "short").replace("5\r", "500\r")),
    end: delivered,
  },
  { name: "sends less and waits", does: says("HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\nshort"), end: delivered },
  {
    name: "drips its body",
    does: (socket) => sayAndDrip(socket, "HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n", "x", 200),
    end: delivered,
  },
  {
    name: "sends a body without end",
    does: (socket) => pour(socket, "HTTP/1.1 200 OK\r\n\r\n", Buffer.alloc(65_536)),
    end: delivered,
  },
  {
    name: "sends chunks without end",
    does: (socket) =>
      pour(socket, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", `1000\r\n${"x".repeat(4_096)}\r\n`),
    end: delivered,
  },
  {
    name: "breaks a chunk",
    does: saysAndEnds("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nx"),
    end: settled,
  },
  {
    name: "answers with a gzip bomb",
    does: (socket) =>
      void socket.end(
        Buffer.concat([
          Buffer.from(`HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: ${bomb.length}\r\n\r\n`),
          bomb,
        ]),
      ),
    end: delivered,
  },
  {
    name: "says gzip and sends none",
    does: says(status("200 OK", "content-encoding: gzip\r\n", "not gzip")),
    end: delivered,
  },
  {
    name: "answers 204 with a body",
    does: saysAndEnds("HTTP/1.1 204 No Content\r\ncontent-length: 4\r\n\r\nbody"),
    end: delivered,
  },
  {
    name: "answers twice, the second time 400",
    does: says(`${status("200 OK")}${status("400 Bad Request")}`),
    end: delivered,
  },
  {
    name: "says two lengths",
    does: says("HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nabc"),
    end: ends,
  },
  { name: "says a length below nought", does: saysAndEnds("HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n"), end: ends },
  // Heads.
  {
    name: "sends a header of a megabyte",
    does: says(status("200 OK", `x-long: ${"x".repeat(1_000_000)}\r\n`)),
    end: ends,
  },
  { name: "sends 10,000 headers", does: says(status("200 OK", "x-many: 1\r\n".repeat(10_000))), end: ends },
  {
    name: "sets 1,000 cookies",
    does: says(
      status("200 OK", Array.from({ length: 1_000 }, (_, n) => `set-cookie: c${n}=${"x".repeat(20)}\r\n`).join("")),
    ),
    end: ends,
  },
  {
    name: "says a hundred times that it goes on",
    does: says(`${"HTTP/1.1 100 Continue\r\n\r\n".repeat(100)}${ok}`),
    end: ends,
  },
  {
    name: "says for ever that it goes on",
    does: (socket) => drip(socket, "HTTP/1.1 100 Continue\r\n\r\n", 20),
    end: dead(/./),
  },
  {
    name: "switches protocols",
    does: says("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"),
    end: dead(/./),
  },
  { name: "speaks something else", does: saysAndEnds("220 mail.example ESMTP\r\n"), end: dead(/./) },
  { name: "speaks HTTP/2", does: saysAndEnds("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), end: dead(/./) },
  { name: "answers status 999", does: says(status("999 Odd")), end: ends },
  { name: "answers status 000", does: says(status("000 Odd")), end: dead(/./) },
  { name: "puts NUL into a header", does: says(status("200 OK", "x-nul: a\0b\r\n")), end: ends },
  // Statuses.
  { name: "answers 500", does: says(status("500 Internal Server Error")), end: dead(/500/) },
  { name: "answers 400", does: says(status("400 Bad Request")), end: dead(/400/) },
  {
    name: "answers 422 with what it was sent",
    does: says(status("422 No", "", '{"secret":"evtBad-echo"}')),
    end: dead(/422$/),
  },
  { name: "answers 304", does: says("HTTP/1.1 304 Not Modified\r\n\r\n"), end: waits(/304/) },
  {
    name: "redirects to itself",
    does: says(status("307 Temporary Redirect", "location: /redirects-to-itself\r\n")),
    end: waits(/307/),
  },
  {
    name: "redirects to a file",
    does: says(status("302 Found", "location: file:///etc/passwd\r\n")),
    end: waits(/302/),
  },
  {
    name: "redirects to another path",
    does: says(status("308 Permanent Redirect", "location: /nobody-asks-for-this\r\n")),
    end: waits(/308/),
  },
  {
    name: "asks for a wait of 300,000 years",
    does: says(status("429 Too Many Requests", "retry-after: 9999999999999\r\n")),
    end: waitsAlone(/429/),
  },
  {
    name: "asks for a wait until the year 9999",
    does: says(status("503 Busy", "retry-after: Fri, 31 Dec 9999 23:59:59 GMT\r\n")),
    end: waitsAlone(/503/),
  },
  {
    name: "asks once for a wait below nought",
    does: (socket, attempt) => void socket.write(attempt > 1 ? ok : status("429 Busy", "retry-after: -5\r\n")),
    end: delivered,
  },
  {
    name: "asks once for a wait of nonsense",
    does: (socket, attempt) => void socket.write(attempt > 1 ? ok : status("503 Busy", "retry-after: soon\r\n")),
    end: delivered,
  },
  {
    name: "wants credentials for one event",
    does: says(status("401 Unauthorized", "www-authenticate: Basic\r\n")),
    end: waits(/401/),
  },
  // Alert services.
  {
    name: "is Slack and says 200 to an error",
    sink: slack,
    taken: status("200 OK", "", "ok"),
    does: says(status("200 OK", "", "invalid_blocks")),
    end: dead(/invalid/),
  },
  {
    name: "is Slack and is a login page",
    sink: slack,
    taken: status("200 OK", "", "ok"),
    does: says(status("200 OK", "", "<html>sign in</html>")),
    end: dead(/200/),
  },
  {
    name: "is Slack and is gone",
    sink: slack,
    taken: status("200 OK", "", "ok"),
    does: says(status("404 Not Found", "", "no_service")),
    end: waits(/404|Slack/),
  },
  {
    name: "is PagerDuty and refuses the alert",
    sink: pager,
    taken: status("202 Accepted", "", "{}"),
    does: says(status("400 Bad Request", "", '{"status":"invalid event"}')),
    end: dead(/400/),
  },
  {
    name: "is PagerDuty and answers 200",
    sink: pager,
    taken: status("202 Accepted", "", "{}"),
    does: says(status("200 OK", "", "{}")),
    end: waits(/200/),
  },
]
