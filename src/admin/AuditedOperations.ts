/** The operations of the admin API that the audit log records, with the content of each record. */
import { sha256 } from "../event/IdempotencyKey.ts"
import type { EpochMillis } from "../event/Quantities.ts"
import { count, instant } from "../formats/Texts.ts"
import type { Selection } from "./api/DeadLetterApi.ts"
import type { Erasure, ErasureRequest } from "./api/ErasureApi.ts"
import { type EventSelection, sequenceOf } from "./api/EventSelection.ts"
import { letterWords, replayWords, selectionWords } from "./replay/ReplayCommand.ts"
import type { ReplayRequest } from "./replay/ReplayReport.ts"

/** The content of an operation's audit record. */
interface RecordContent<Asked, Answer> {
  /** Returns names and selectors from the request's `params` and `payload`, without secrets or data of events. */
  readonly on?: (asked: Asked) => string
  /** Describes the result. */
  readonly note?: (answer: Answer) => string
  /** Reports whether the request is not recorded, such as a dry run. */
  readonly isLeftOut?: (asked: Asked) => boolean
  /** Whether consecutive requests are parts of one operation. */
  readonly inParts?: boolean
}

export type Operation = RecordContent<unknown, unknown> & {
  /** The equivalent command. */
  readonly what: string
}

/** Replaces an id, which may identify a person, because the audit log is kept longer than the event. */
const hashed = (id: string): string => `sha256:${sha256(id).slice(0, 16)}`

/** Returns the selection with the object's id hashed. */
const objectHashed = <S extends Pick<EventSelection, "object">>(selection: S): S =>
  selection.object === undefined ? selection : { ...selection, object: hashed(selection.object) }

/** Exported, because an erasure on a journal's file does not use the API. */
export const erasure = {
  what: "events erase",
  on: ({ payload: { event, place, dryRun: _, giveUp: __, ...selection } }: { payload: ErasureRequest }) => {
    if (place !== undefined) return `--place ${place}`
    if (event !== undefined) return `--event ${hashed(event)}`
    const { account } = selection
    const named = account === undefined ? selection : { ...selection, account: hashed(account) }
    return selectionWords(objectHashed(named)).join(" ")
  },
  note: ({ count: erased, undelivered }: Erasure) => `${erased} erased, ${undelivered} left undelivered`,
  isLeftOut: ({ payload }: { payload: ErasureRequest }) => payload.dryRun === true,
}

const operation = <Asked, Answer>(what: string, content: RecordContent<Asked, Answer> = {}) =>
  ({ what, ...content }) as Operation

interface Named {
  readonly params: { readonly name: string }
}
interface Selected {
  readonly payload: Selection
}
interface Counted {
  readonly count: number
}

const alerted = ({
  params: { sink, id },
}: {
  readonly params: { readonly sink: string; readonly id: number }
}): string => `${sink} ${id}`
const named = ({ params }: Named): string => params.name
const selected = ({ payload }: Selected): string =>
  letterWords("ids" in payload ? payload : objectHashed(payload)).join(" ")
const events = (answer: Counted): string => count(answer.count, "event")
const letters = (answer: Counted): string => count(answer.count, "dead letter")

/** The recorded operations by group and endpoint. Other operations of the API are not recorded. */
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
    note: ({ until, ending }: { until?: EpochMillis; ending?: string }) =>
      [
        ...(until === undefined ? [] : [`until ${instant(until)}`]),
        ...(ending === undefined ? [] : [`then ${ending}`]),
      ].join(", "),
  }),
  "lanes.resume": operation("lanes resume", { on: named }),
  "lanes.move": operation("lanes move", {
    on: ({ params, payload }: Named & { payload: { to: string } }) => `${params.name} ${payload.to}`,
    note: events,
  }),
  "lanes.drop": operation("lanes drop", { on: named, note: events }),
  "alerts.acknowledge": operation("alerts ack", { on: alerted }),
  "alerts.resolve": operation("alerts resolve", { on: alerted }),
  "alerts.mute": operation("alerts mute", {
    on: alerted,
    note: ({ until }: { until: EpochMillis }) => `until ${instant(until)}`,
  }),
  "deadLetters.replay": operation("dlq replay", { on: selected, note: letters }),
  "deadLetters.drop": operation("dlq drop", { on: selected, note: letters }),
  "events.erase": operation(erasure.what, erasure),
  "replays.start": operation("replay", {
    on: ({ payload }: { payload: ReplayRequest }) => {
      const { id } = payload.events
      const isId = id !== undefined && sequenceOf(id) === undefined
      const events = objectHashed(isId ? { ...payload.events, id: hashed(id) } : payload.events)
      return replayWords({ ...payload, events })
        .slice(1)
        .join(" ")
    },
    note: ({ id }: { id: string }) => `started as ${id}`,
    isLeftOut: ({ payload }: { payload: ReplayRequest }) => payload.dryRun === true,
  }),
  "replays.cancel": operation("replay cancel", { on: ({ params }: { params: { id: string } }) => params.id }),
}
