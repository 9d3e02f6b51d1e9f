/**
 * The golden files of the config's `tests`. Each has the expected payload for a sink,
 * is stored beside the config and reviewed like code.
 *
 * A test without a webhook uses the first one, because a payload contains its name.
 */
import { Effect, FileSystem, Path, Predicate, Redacted, Result, TextDiff } from "effect"
import { render } from "../../admin/api/EventReport.ts"
import { changesOf, type LaneConfig, type RelayConfig } from "../../config/Config.ts"
import type { Path as ConfigPath } from "../../config/Fields.ts"
import type { Loaded } from "../../config/load/Load.ts"
import * as Envelope from "../../event/Envelope.ts"
import type { AlertAction, Entry } from "../../event/Event.ts"
import { failureEndedBy, isRelayEvent, recoveryOf } from "../../event/EventType.ts"
import * as Numbers from "../../event/Numbers.ts"
import { sample } from "../../event/SampleEvent.ts"
import { attempt } from "../../formats/Rendering.ts"
import { orderKey } from "../../formats/Template.ts"
import { type CommandError, failed, io } from "./CommandError.ts"
import { plain } from "./output.ts"

// A line diff of two texts with context around each change.

/** Unchanged lines shown before and after a change. */
const around = 2

/** With more changed lines than this, the diff may not be the shortest. */
const maxEdits = 1_000

const signs = { Equal: " ", Delete: "-", Insert: "+" } as const

/** Returns lines that begin with `- ` (expected), `+ ` (actual) or `  ` (both); empty if the texts are equal. */
export const diff = (expected: string, actual: string): ReadonlyArray<string> => {
  if (expected === actual) return []
  const edits = TextDiff.diff(expected.split("\n"), actual.split("\n"), { maxEdits })
  const lines = edits.flatMap(({ _tag, items }) => items.map((text) => ({ sign: signs[_tag], text })))
  const isNear = (index: number) =>
    lines.slice(Math.max(0, index - around), index + around + 1).some(({ sign }) => sign !== " ")
  return lines.flatMap(({ sign, text }, index) => {
    if (isNear(index)) return [`${sign} ${text}`]
    return index > 0 && isNear(index - 1) ? ["  …"] : []
  })
}

// Renders the payload that a sink would receive, for `explain --payload` and the golden files of `test`.

/** The time of samples, fixed so that golden files don't change. */
export const fixedTime = Date.UTC(2026, 0, 15, 12)

/** Returns the body of a sample event that is always the same. */
export const fixedBody = (type: string, object?: Readonly<Record<string, unknown>>): Uint8Array =>
  new TextEncoder().encode(JSON.stringify(sample(type, fixedTime, { isFixed: true, ...(object && { object }) })))

/** Makes a journal entry with this body. It has no signature, because no request brought it. */
const entryOf = (webhook: string, sink: string, body: Uint8Array): Entry => {
  const envelope = Result.getOrUndefined(Envelope.decode(body))
  return {
    sequence: 1,
    sinks: [sink],
    replayed: false,
    event: {
      id: envelope?.id ?? "",
      type: envelope?.data.type ?? "",
      accountId: envelope?.account_id ?? "",
      webhook,
      webhookId: "",
      signature: "",
      secret: "",
      receivedAt: fixedTime,
      body,
    },
  }
}

const replaced = (value: unknown, [key, ...rest]: ConfigPath, text: string): unknown => {
  if (key === undefined) return typeof value === "string" ? text : value
  if (Array.isArray(value)) return value.map((item, index) => (index === key ? replaced(item, rest, text) : item))
  return Predicate.isObject(value) && !Redacted.isRedacted(value) && Object.hasOwn(value, key)
    ? { ...value, [key]: replaced(value[key], rest, text) }
    : value
}

/** Returns the sink with absent values as `${NAME} (not set)`. An expression keeps its sample, because it must stay valid. */
export const withAbsent = (lane: LaneConfig, absent: Loaded["absent"]): LaneConfig => {
  const config = absent.reduce<unknown>((config, { path: [first, sink, ...rest], shown }) => {
    const isShown = first === "sinks" && sink === lane.name && rest.at(-1) !== "jmespath"
    return isShown && shown !== undefined ? replaced(config, rest, shown) : config
  }, lane.config)
  return { ...lane, config }
}

/** Returns the type whose event does an action: for `resolve` the recovery, if a failure is given. */
export const typeFor = (type: string, action: AlertAction): string | undefined =>
  action !== "resolve" || failureEndedBy(type) !== undefined ? type : recoveryOf(type)

/** Says why a sink sends no message of an action. Returns `undefined` if it does. */
export const actionProblem = (lane: LaneConfig, action: AlertAction): string | undefined => {
  const policy = changesOf(lane)
  if (action === "update" && policy?.update === undefined) {
    return `the sink ${plain(lane.name)} sends no updates: it needs "alert", and to be an http sink with "update" or a slack sink with "token"`
  }
  return action === "reminder" && policy?.repeat === undefined
    ? `the sink ${plain(lane.name)} sends no reminders: it needs "alert" with "repeat"`
    : undefined
}

/** Returns the entry as a lane with a policy of alerts sends it. */
const noted = (lane: LaneConfig, entry: Entry, asked: AlertAction): Entry => {
  const policy = changesOf(lane)
  if (policy === undefined) return entry
  const isRecovery = policy.resolves && failureEndedBy(entry.event.type) !== undefined
  const action = isRecovery ? "resolve" : asked
  const status = action === "resolve" ? "resolved" : "firing"
  const count = policy.after.count + (action === "trigger" ? 0 : 1)
  const key = Result.getOrElse(
    attempt(() => orderKey(lane)(entry)),
    () => "",
  )
  return { ...entry, alert: { key, action, status, count, first: fixedTime, last: fixedTime } }
}

/** Returns the payload as JSON text, or `undefined` if the sink's type has no preview. */
export const payloadOf = (
  lane: LaneConfig,
  webhook: string,
  body: Uint8Array,
  action: AlertAction = "trigger",
): string | undefined => {
  const payload = render(lane, noted(lane, entryOf(webhook, lane.name, body), action))
  return payload && JSON.stringify(payload, null, 2)
}

export interface Compared {
  readonly event: string
  readonly sink: string
  /** The golden file's name in the config. */
  readonly file: string
  readonly ok: boolean
  /** Whether `--update` wrote it. */
  readonly written: boolean
  /** The keys whose values are absent here and are part of the payload, so that it can't be compared. */
  readonly absent: ReadonlyArray<string>
  /** Whether the file doesn't exist yet. */
  readonly missing: boolean
  /** The result of `diff` between the golden file and the payload. */
  readonly diff: ReadonlyArray<string>
}

type Test = RelayConfig["tests"][number]

/** Opens the directory of the config, to read and write files by their names. */
export const beside = Effect.fnUntraced(function* (config: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const at = (file: string) => path.resolve(path.dirname(config), file)
  return {
    /** Returns `undefined` if the file doesn't exist. */
    read: (file: string) =>
      fs
        .readFile(at(file))
        .pipe(
          Effect.catch(({ reason }) =>
            reason._tag === "NotFound"
              ? Effect.succeed(undefined)
              : Effect.fail(io(`${plain(file)} can't be read (${reason._tag})`)),
          ),
        ),
    write: (file: string, text: string) =>
      fs.makeDirectory(path.dirname(at(file)), { recursive: true }).pipe(
        Effect.andThen(fs.writeFileString(at(file), text)),
        Effect.mapError(({ reason }) => io(`${plain(file)} can't be written (${reason._tag})`)),
      ),
  }
})

type Files = Effect.Success<ReturnType<typeof beside>>

export interface Sampled {
  readonly test: Test
  readonly body: Uint8Array
  readonly envelope: Envelope.Envelope
}

/** Returns the event of each test: its `sample` or a fixed sample event. */
export const sampled = (config: RelayConfig, files: Files) =>
  Effect.forEach(
    config.tests,
    Effect.fnUntraced(function* (test): Effect.fn.Return<Sampled, CommandError> {
      const { event, object, sample } = test
      const body =
        sample === undefined
          ? fixedBody(event, Predicate.isObject(object) ? object : undefined)
          : yield* files.read(sample)
      const envelope = body && Result.getOrUndefined(Envelope.decode(body, Numbers.parse))
      if (body !== undefined && envelope?.data.type === event) return { test, body, envelope }
      const fault =
        body === undefined
          ? "does not exist; its path is relative to the config"
          : envelope === undefined
            ? "is not an event: it must be the body of a delivery"
            : `is a ${plain(envelope.data.type)}`
      return yield* failed(`the sample ${plain(sample ?? "")} of a test of ${plain(event)} ${fault}`)
    }),
  )

/** Returns the absent keys of a sink that its payloads may contain. Secrets are masked in payloads. */
const shownOf = (lane: LaneConfig, absent: Loaded["absent"]): ReadonlyArray<string> =>
  absent.flatMap(({ path: [first, sink, ...rest], key }) => {
    if (first !== "sinks" || sink !== lane.name) return []
    let at: unknown = { ...lane, ...(Predicate.isObject(lane.config) && lane.config) }
    for (const part of rest) {
      if (Redacted.isRedacted(at)) break
      at = Predicate.hasProperty(at, part) ? at[part] : undefined
    }
    return Redacted.isRedacted(at) ? [] : [key]
  })

/** Returns the event of a test's payloads: with `resolve`, the recovery of its failure. */
const shownBody = Effect.fnUntraced(function* ({ event, action = "trigger", object, sample }: Test, body: Uint8Array) {
  const type = typeFor(event, action)
  if (type === event) return body
  if (type === undefined) return yield* failed(`no event ends a ${plain(event)}, so nothing resolves it`)
  if (sample !== undefined) {
    return yield* failed(
      `the test of ${plain(event)} has a sample, so "resolve" needs a sample of ${plain(type)} instead`,
    )
  }
  return fixedBody(type, Predicate.isObject(object) ? object : undefined)
})

/** Compares each payload with its golden file. With `update`, writes the files that differ. */
export const compare = Effect.fnUntraced(function* (
  { config, absent }: Pick<Loaded, "config" | "absent">,
  samples: ReadonlyArray<Sampled>,
  files: Files,
  update: boolean,
) {
  const compared: Array<Compared> = []
  for (const { test, body } of samples) {
    const webhook = isRelayEvent(test.event) ? "relay" : (test.webhook ?? config.webhooks[0]?.name ?? "")
    const shown = yield* shownBody(test, body)
    for (const [sink, file] of Object.entries(test.payloads)) {
      const lane = config.sinks.find(({ name }) => name === sink)
      const problem = lane && actionProblem(lane, test.action ?? "trigger")
      if (problem !== undefined) return yield* failed(problem)
      const payload = lane && payloadOf(lane, webhook, shown, test.action)
      if (lane === undefined || payload === undefined)
        return yield* failed(`the sink ${plain(sink)} can't show its payload`)
      const golden = yield* files.read(file)
      const lines = diff(textOf(golden), payload)
      const base = { event: test.event, sink, file, missing: golden === undefined }
      const hidden = lines.length === 0 ? [] : shownOf(lane, absent)
      if (hidden.length > 0) {
        compared.push({ ...base, ok: true, written: false, absent: hidden, diff: [] })
        continue
      }
      const written = update && lines.length > 0
      if (written) yield* files.write(file, `${payload}\n`)
      compared.push({ ...base, ok: written || lines.length === 0, written, absent: [], diff: lines })
    }
  }
  return compared
})

/** Decodes a golden file. Editors and checkouts may have changed its line ends. */
const textOf = (golden: Uint8Array | undefined): string =>
  Buffer.from(golden ?? "")
    .toString("utf8")
    .replaceAll("\r\n", "\n")
    .trimEnd()
