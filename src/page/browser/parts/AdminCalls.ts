/**
 * Requests to the admin API, typed by its schemas.
 *
 * The token is only in this variable, so it is gone when the tab closes, and no
 * other page can read it.
 */
import { signal } from "@preact/signals"
import type { AlertDetails, AlertReport, AuditPage, Reloaded, Route, TypeReport } from "../../../admin/api/Api.ts"
import type { Count } from "../../../admin/api/ApiParts.ts"
import type { DeadLetter, Replayed, Selection } from "../../../admin/api/DeadLetterApi.ts"
import type { EventPage, EventReports } from "../../../admin/api/EventApi.ts"
import type { Tap } from "../../../admin/api/LiveTail.ts"
import type { DeadLettersPreview, Replay, ReplayRequest } from "../../../admin/replay/ReplayReport.ts"
import type { LaneHistory, RelayHistory, Status } from "../../../admin/status/Status.ts"

export const token = signal("")

/** An error response of the API. */
export class Refusal extends Error {
  readonly status: number
  readonly lines: ReadonlyArray<string>
  constructor(status: number, message: string, lines: ReadonlyArray<string> = []) {
    super(message)
    this.status = status
    this.lines = lines
  }
}

/** The message of a failed call, for people. */
export const problemOf = (error: unknown): string => (error instanceof Refusal ? error.message : String(error))

type Query = Readonly<Record<string, string | number | undefined>>

/** Relative to the page, which a proxy may serve below a path. */
const urlOf = (path: string, query: Query): string => {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "")
  const text = new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString()
  return `api/v1${path}${text === "" ? "" : `?${text}`}`
}

/** The fields of any error's body. */
interface Problem {
  readonly message?: string
  readonly title?: string
  readonly detail?: string
  readonly diagnostics?: ReadonlyArray<{ readonly path?: string; readonly message?: string }>
}

const refusalOf = async (response: Response): Promise<Refusal> => {
  const { message, title, detail, diagnostics = [] }: Problem = await response.json().catch(() => ({}))
  const lines = diagnostics.map((one) => [one.path, one.message].filter((_) => _ !== undefined && _ !== "").join(": "))
  const words = message ?? [title, detail].filter((_) => _ !== undefined).join(": ")
  return new Refusal(response.status, words === "" ? `the relay answered ${response.status}` : words, lines)
}

const ask = async (method: string, url: string, body?: unknown, abort?: AbortSignal): Promise<Response> => {
  const response = await fetch(url, {
    method,
    headers: {
      ...(token.value !== "" && { authorization: `Bearer ${token.value}` }),
      ...(body !== undefined && { "content-type": "application/json" }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    ...(abort && { signal: abort }),
    cache: "no-store",
    credentials: "omit",
    redirect: "error",
  }).catch((error: unknown) => {
    if (abort?.aborted === true) throw error
    throw new Refusal(0, "the relay does not answer")
  })
  if (response.ok) return response
  throw await refusalOf(response)
}

const get = async <A>(path: string, query: Query = {}, abort?: AbortSignal): Promise<A> =>
  (await ask("GET", urlOf(path, query), undefined, abort)).json()

const post = async <A = unknown>(path: string, body?: unknown, query: Query = {}): Promise<A> => {
  const text = await (await ask("POST", urlOf(path, query), body)).text()
  return JSON.parse(text === "" ? "null" : text)
}

interface TapQuery {
  readonly type: string
  readonly webhook: string
  readonly sink: string
}

interface EventQuery {
  readonly types?: string
  readonly account?: string
  readonly object?: string
  readonly webhook?: string
  readonly since?: number
  readonly until?: number
  readonly endedSince?: number
  readonly endedUntil?: number
  readonly deliveredAfter?: number | undefined
  readonly attemptsOver?: string
  readonly alert?: string
  readonly outcome?: string
  readonly sink?: string
  readonly before?: string
  readonly limit: number
}

const lane = (name: string, what: string): string => `/lanes/${encodeURIComponent(name)}/${what}`

const alert = (sink: string, id: number, what: string): string => `/alerts/${encodeURIComponent(sink)}/${id}/${what}`

export const admin = {
  /** Returns the events since the last answer, or none if there was no answer yet. */
  tap: (query: TapQuery, last: Tap | undefined, abort: AbortSignal) =>
    get<Tap>("/tap/since", { ...query, ...last?.next }, abort),
  status: (abort?: AbortSignal) => get<Status>("/status", {}, abort),
  history: () => get<RelayHistory>("/history"),
  reload: () => post<typeof Reloaded.Type>("/reload"),
  acknowledge: () => post("/journal/acknowledge"),
  laneHistory: (name: string) => get<LaneHistory>(lane(name, "history")),
  /** `for` is in milliseconds. */
  pause: (name: string, query: { readonly for?: number; readonly ending?: string }) =>
    post<{ readonly until?: number }>(lane(name, "pause"), undefined, query),
  resume: (name: string) => post(lane(name, "resume")),
  move: (name: string, to: string) => post<typeof Count.Type>(lane(name, "move"), { to }),
  drop: (name: string) => post<typeof Count.Type>(lane(name, "drop")),
  alerts: () => get<ReadonlyArray<AlertReport>>("/alerts"),
  acknowledgeAlert: (sink: string, id: number) => post(alert(sink, id, "acknowledge")),
  alert: (sink: string, id: string) => get<AlertDetails>(`/alerts/${encodeURIComponent(sink)}/${id}`),
  muteAlert: (sink: string, id: number, length: number) =>
    post<{ readonly until: number }>(alert(sink, id, "mute"), undefined, { for: length }),
  resolveAlert: (sink: string, id: number) => post(alert(sink, id, "resolve")),
  events: (query: EventQuery) => get<typeof EventPage.Type>("/events", { ...query }),
  /** Finds an event by its id, or by its place in the log: `seq_42`. */
  explain: (id: string, reveal: boolean) =>
    get<EventReports>(`/events/${encodeURIComponent(id)}`, reveal ? { reveal: "true" } : {}),
  deadLetters: (query: Omit<EventQuery, "deliveredAfter" | "attemptsOver" | "alert" | "outcome">) =>
    get<ReadonlyArray<DeadLetter>>("/dead-letters", { ...query }),
  previewDeadLetters: (selection: Selection) => post<DeadLettersPreview>("/dead-letters/preview", selection),
  replayDeadLetters: (selection: Selection & Pick<ReplayRequest, "rate">) =>
    post<Replayed>("/dead-letters/replay", selection),
  dropDeadLetters: (selection: Selection) => post<typeof Count.Type>("/dead-letters/drop", selection),
  replays: () => get<ReadonlyArray<Replay>>("/replays"),
  replay: (id: string) => get<Replay>(`/replays/${encodeURIComponent(id)}`),
  startReplay: (request: ReplayRequest) => post<Replay>("/replays", request),
  cancelReplay: (id: string) => post<Replay>(`/replays/${encodeURIComponent(id)}/cancel`),
  audit: (before: string) => get<AuditPage>("/audit", { before }),
  routes: () => get<ReadonlyArray<Route>>("/routes"),
  explainType: (type: string, webhook: string) => get<TypeReport>("/routes/explain", { type, webhook }),
}
