/** The conditions that every alert service meets. Each service is held to its documented limits. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { type Name, own, services } from "../sinks/alerts/services.ts"
import type { Cell, Row, Scenario } from "./Column.ts"
import { addresses, answer, certificates, clock, idle, late, moves, ofSize, restarts } from "./HttpRows.ts"
import { type Kind, steps } from "./HttpService.ts"

/** Bytes of the largest event that the relay accepts by default. */
const largest = 1024 * 1024

/** An alert service by its type; `accepted` is its documented answer. */
export const kindOf = (type: Name, accepted: () => Response): Kind => ({
  sink: (url, tls) => ({ type, ...own[type], url: `${url}/hooks/first`, ...(tls && { tls }) }),
  accepted,
})

/** Row n: a message that shows the largest event stays within the service's limits. */
const fits = (type: Name, kind: Kind) =>
  steps(
    kind,
    "events of 1 MiB are shown within the limits of the service",
    (service) => ({
      sink: { ...kind.sink(service.url), details: { Note: "{{/data/object/note}}", Object: "{{/data/object}}" } },
      breaks: () => {
        service.answer = ({ body }) => {
          const problems = services[type].problems(Buffer.from(body))
          return problems.length === 0 ? undefined : answer(500, problems.join())
        }
      },
      heals: () => {},
    }),
    { body: ofSize(largest) },
  )

/** Row c: the URL, which is the credential, is in a file; `refused` is the answer at a URL that was revoked. */
export const revoked = (kind: Kind, refused: () => Response, says: RegExp): Scenario =>
  steps(
    kind,
    "the webhook is revoked, and the file has the URL of another; after a reload that is used",
    (service, { directory, reload }) => {
      const write = (name: string) => writeFileSync(join(directory, "url"), `${service.url}/hooks/${name}`)
      write("first")
      return {
        sink: { ...kind.sink(service.url), url: `file:${join(directory, "url")}` },
        breaks: () => {
          service.answer = ({ path }) => (path === "/hooks/second" ? undefined : refused())
        },
        heals: () => {
          write("second")
          return reload()
        },
      }
    },
    { says },
  )

export const alertRows = (type: Name, kind: Kind) =>
  ({
    a: idle(kind),
    b: moves(kind),
    e: late(kind),
    i: clock(kind, "the clock is wrong; the service does not look at it, and deliveries go on"),
    k: addresses(kind),
    l: restarts(kind),
    m: certificates(kind),
    n: [fits(type, kind)],
  }) satisfies Partial<Record<Row, Cell>>
