/** The operations of the admin API that the audit log records, and what it is told of each. */
import { sha256 } from "../event/IdempotencyKey.ts"
import type { EpochMillis } from "../event/Quantities.ts"
import { count, instant } from "../formats/Amounts.ts"
import type { Selection } from "./Api.ts"
import type { Erasure, ErasureRequest } from "./ErasureApi.ts"
import { sequenceOf } from "./EventName.ts"
import type { ReplayRequest } from "./ReplayApi.ts"
import { letterWords, replayWords } from "./ReplayCommand.ts"

/** The audit log says this of an operation. */
interface Told<Asked, Answer> {
  /** Names and selectors, from the request's `params` and `payload`: no secret and nothing of an event's object. */
  readonly on?: (asked: Asked) => string
  /** Tells the outcome. */
  readonly note?: (answer: Answer) => string
  /** Whether requests like this one are not recorded, such as a dry run. */
  readonly isLeftOut?: (asked: Asked) => boolean
  /** Requests that follow each other are parts of one operation. */
  readonly inParts?: boolean
}

export type Operation = Told<unknown, unknown> & {
  /** The words of the command that does the same. */
  readonly what: string
}

/** Stands for an id, which may be a person's: the log keeps it for longer than the journal keeps the event. */
const hashed = (id: string): string => `sha256:${sha256(id).slice(0, 16)}`

/** An erasure is also made without the API, on a journal's file. */
export const erasure = {
  what: "events erase",
  on: ({ payload: { account, event = "", place } }: { payload: ErasureRequest }) => {
    if (place !== undefined) return `--place ${place}`
    return account === undefined ? `--event ${hashed(event)}` : `--account ${hashed(account)}`
  },
  note: ({ count: erased, undelivered }: Erasure) => `${erased} erased, ${undelivered} left undelivered`,
  isLeftOut: ({ payload }: { payload: ErasureRequest }) => payload.dryRun === true,
}

const operation = <Asked, Answer>(what: string, told: Told<Asked, Answer> = {}) => ({ what, ...told }) as Operation

interface Named {
  readonly params: { readonly name: string }
}
interface Selected {
  readonly payload: Selection
}
interface Counted {
  readonly count: number
}

const named = ({ params }: Named): string => params.name
const selected = ({ payload }: Selected): string => letterWords(payload).join(" ")
const events = (answer: Counted): string => count(answer.count, "event")
const letters = (answer: Counted): string => count(answer.count, "dead letter")

/** The operations by their group and endpoint. One of the API that is not here is not recorded. */
export const operations: Readonly<Record<string, Operation>> = {
  "relay.reload": operation("reload"),
  "relay.restart": operation("restart", { note: ({ pid }: { pid: number }) => `process ${pid} was started` }),
  "relay.import": operation("journal import", {
    on: ({ payload: { events } }: { payload: { events: ReadonlyArray<{ journal: string }> } }) =>
      [...new Set(events.map(({ journal }) => `journal ${journal}`))].join(" "),
    inParts: true,
  }),
  "relay.acknowledge": operation("journal acknowledge"),
  "lanes.pause": operation("lanes pause", {
    on: named,
    note: ({ until }: { until?: EpochMillis }) => (until === undefined ? "" : `until ${instant(until)}`),
  }),
  "lanes.resume": operation("lanes resume", { on: named }),
  "lanes.move": operation("lanes move", {
    on: ({ params, payload }: Named & { payload: { to: string } }) => `${params.name} ${payload.to}`,
    note: events,
  }),
  "lanes.drop": operation("lanes drop", { on: named, note: events }),
  "deadLetters.replay": operation("dlq replay", { on: selected, note: letters }),
  "deadLetters.drop": operation("dlq drop", { on: selected, note: letters }),
  "events.erase": operation(erasure.what, erasure),
  "replays.start": operation("replay", {
    on: ({ payload }: { payload: ReplayRequest }) => {
      const { id } = payload.events
      const isId = id !== undefined && sequenceOf(id) === undefined
      return replayWords(isId ? { ...payload, events: { ...payload.events, id: hashed(id) } } : payload)
        .slice(1)
        .join(" ")
    },
    note: ({ id }: { id: string }) => `started as ${id}`,
    isLeftOut: ({ payload }: { payload: ReplayRequest }) => payload.dryRun === true,
  }),
  "replays.cancel": operation("replay cancel", { on: ({ params }: { params: { id: string } }) => params.id }),
}
