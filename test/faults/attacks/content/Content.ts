/** A hostile event as data: its content, its sink, and its required outcome. */
import { dead, delivered, type Fate, quarantined, refused, settled } from "../Attack.ts"
import type { Request, SinkName } from "../Stage.ts"

export { dead, delivered, quarantined, refused, settled }

export interface Content {
  readonly name: string
  readonly to: SinkName
  readonly bodies: ReadonlyArray<string | Uint8Array>
  /** Id of the bodies, or empty if they have none. */
  readonly id: string
  readonly fate: Fate
  readonly webhook: string
  readonly headers: Readonly<Record<string, string>>
  /** Returns a fault of the requests that the sink got for the event. */
  readonly looks: (requests: ReadonlyArray<Request>) => string | undefined
  /** Seconds until its fate must be there. */
  readonly within: number
}

export interface Changes {
  readonly id?: string
  readonly account?: string
  readonly type?: string
  readonly webhook?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly looks?: Content["looks"]
  readonly within?: number
  /** Further fields of the envelope, as JSON. */
  readonly envelope?: string
}

let ids = 0

/** An event whose object is this JSON text, which need not be what `JSON.stringify` would write. */
export const event = (to: SinkName, object: string, changes: Changes = {}): { id: string; body: string } => {
  const id = changes.id ?? `evtBad${++ids}x`
  const type = JSON.stringify(changes.type ?? "appointment.created")
  const head = `"id":${JSON.stringify(id)},"account_id":${JSON.stringify(changes.account ?? `acct_${to}`)}`
  const rest = changes.envelope ?? '"version":"1","created_at":"2026-11-21T00:00:00Z"'
  return { id, body: `{${head},${rest},"data":{"type":${type},"object":${object}}}` }
}

const nothing = () => undefined

/** Makes a case of one event from its object. */
export const content = (name: string, to: SinkName, object: string, fate: Fate, changes: Changes = {}): Content => {
  const { id, body } = event(to, object, changes)
  return of(name, to, [body], fate, { ...changes, id })
}

/** Makes a case from whole bodies. */
export const of = (
  name: string,
  to: SinkName,
  bodies: Content["bodies"],
  fate: Fate,
  { id = "", webhook = "scheduling", headers = {}, looks = nothing, within = 15 }: Changes = {},
): Content => ({ name, to, bodies, id, fate, webhook, headers, looks, within })

/** Objects or arrays nested this deep. `JSON.parse` accepts them; `JSON.stringify` and other recursive code may not. */
export const objects = (depth: number): string => `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`
export const arrays = (depth: number): string => `${"[".repeat(depth)}${"]".repeat(depth)}`
/** The whole of the default `maxBody`: what fails at 40,000 fails here on any stack. */
export const deep = 150_000
export const long = (bytes: number, character = "x"): string => character.repeat(bytes)
