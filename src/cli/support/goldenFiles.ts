/**
 * The golden files of `tests`: the payload that a sink must be sent, stored
 * beside the config and reviewed like code.
 *
 * A test without a webhook uses the first one, because a payload holds its name.
 */
import { Effect, FileSystem, Path, Predicate, Redacted, Result } from "effect"
import type { LaneConfig, RelayConfig } from "../../config/Config.ts"
import type { Loaded } from "../../config/load/Load.ts"
import * as Envelope from "../../event/Envelope.ts"
import { isRelayEvent } from "../../event/EventType.ts"
import * as Numbers from "../../event/Numbers.ts"
import { type CommandError, failed, io } from "./CommandError.ts"
import { diff } from "./diff.ts"
import { plain } from "./output.ts"
import { lazily } from "./Program.ts"
import { fixedBody, payloadOf } from "./previewPayload.ts"

export interface Compared {
  readonly event: string
  readonly sink: string
  /** The golden file, as the config names it. */
  readonly file: string
  readonly ok: boolean
  /** Whether `--update` wrote it. */
  readonly written: boolean
  /** The keys that are absent here and show in the payload, so that it can't be compared. */
  readonly absent: ReadonlyArray<string>
  /** Whether there is no such file yet. */
  readonly missing: boolean
  /** The lines that differ begin with `-` (golden file), `+` (payload) or a blank. */
  readonly diff: ReadonlyArray<string>
}

type Test = RelayConfig["tests"][number]

/** Files beside the config at `config`. */
export const beside = Effect.fnUntraced(function* (config: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const at = (file: string) => path.resolve(path.dirname(config), file)
  return {
    /** `undefined` when there is no such file. */
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

/** The event of each test: its `sample`, or one that is always the same. */
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

/** The absent keys of a sink that its payloads may show; secrets are masked there. */
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

/** Compares each payload with its golden file; with `update`, writes the files that differ. */
export const compare = Effect.fnUntraced(function* (
  { config, absent }: Pick<Loaded, "config" | "absent">,
  samples: ReadonlyArray<Sampled>,
  files: Files,
  update: boolean,
) {
  const { sinkTypes } = yield* lazily(() => import("../../sinks/SinkTypes.ts"))
  const compared: Array<Compared> = []
  for (const { test, body } of samples) {
    const webhook = isRelayEvent(test.event) ? "relay" : (test.webhook ?? config.webhooks[0]?.name ?? "")
    for (const [sink, file] of Object.entries(test.payloads)) {
      const lane = config.sinks.find(({ name }) => name === sink)
      const payload = lane && payloadOf(lane, sinkTypes[lane.type], webhook, body)
      if (lane === undefined || payload === undefined)
        return yield* failed(`the sink ${plain(sink)} can't show what it would be sent`)
      const golden = yield* files.read(file)
      const lines = diff(textOf(golden), payload)
      const one = { event: test.event, sink, file, missing: golden === undefined }
      const hidden = lines.length === 0 ? [] : shownOf(lane, absent)
      if (hidden.length > 0) {
        compared.push({ ...one, ok: true, written: false, absent: hidden, diff: [] })
        continue
      }
      const written = update && lines.length > 0
      if (written) yield* files.write(file, `${payload}\n`)
      compared.push({ ...one, ok: written || lines.length === 0, written, absent: [], diff: lines })
    }
  }
  return compared
})

/** Editors and checkouts may change line ends. */
const textOf = (golden: Uint8Array | undefined): string =>
  Buffer.from(golden ?? "")
    .toString("utf8")
    .replaceAll("\r\n", "\n")
    .trimEnd()
