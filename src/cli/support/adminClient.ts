/**
 * Calls the admin API of the running relay. It reads only the admin section of the
 * config, because `relay status` may be run by a user who can't read the signing
 * secrets.
 */
import { Duration, Effect, FileSystem, Option, Terminal } from "effect"
import { TerminalCapabilities } from "effect/cli"
import { FetchHttpClient, HttpClient, type HttpClientError } from "effect/http"
import type { Client } from "../../admin/AdminClient.ts"
import type {
  BadRequest,
  Forbidden,
  Invalid,
  NotFound,
  Refused,
  TooMany,
  Unavailable,
} from "../../admin/api/ApiParts.ts"
import { onlyToken, tokensOf } from "../../config/Config.ts"
import { readerOf } from "../../config/load/References.ts"
import { CommandError, failed, misconfigured, unreachable } from "./CommandError.ts"
import { As, Config, Json } from "./flags.ts"
import { ofHost } from "./loadConfig.ts"
import { plain } from "./output.ts"
import { lazily, Program, withDeadline } from "./Program.ts"

// Distinguishes a relay that is working from one that hangs.
//
// Some requests take long by design: an erasure, a move, a reload, a replay of many dead letters. So a
// request has no deadline. `/healthz` is requested before it and while it lasts, because the relay
// answers `/healthz` even while it works.

/** The interval of heartbeats while a request lasts. */
const every = Duration.seconds(10)
/** The time limit of a heartbeat, which is also the unit's watchdog interval. */
const whileWorking = Duration.seconds(30)

const advice = "Look at its log, and restart it if it stays silent."

/** Ends when the relay answers. Also ends if nothing listens, because the request itself then reports the error. */
const heartbeatOf = (url: string): Effect.Effect<void> =>
  HttpClient.get(`${url}/healthz`).pipe(Effect.ignore, Effect.provide(FetchHttpClient.layer))

/** Sends a request if the relay is alive, and waits for the answer while it stays alive. */
export const whileAlive =
  (heartbeat: Effect.Effect<void>) =>
  <A, E, R>(request: Effect.Effect<A, E, R>): Effect.Effect<A, E | CommandError, R> => {
    const before = withDeadline((time) =>
      unreachable(`the relay does not answer within ${time}: it may hang\n  ${advice}`),
    )(heartbeat)
    const meanwhile = withDeadline(
      (time) =>
        unreachable(
          `the relay has not answered for ${time}: it may hang, and may have done what it was asked, or a part of it\n  ${advice}`,
        ),
      whileWorking,
    )(heartbeat)
    const watch = Effect.forever(Effect.andThen(Effect.sleep(every), meanwhile))
    return Effect.andThen(before, Effect.raceFirst(request, watch))
  }

type Answered = BadRequest | Forbidden | Invalid | NotFound | Refused | TooMany | Unavailable
/** An answer that is not from this API, because another program or version listens there. */
type Unexpected = HttpClientError.HttpClientError | { readonly _tag: "SchemaError" | "HttpBodyError" }

interface Asked {
  readonly url: string
  /** The source of the address, for messages. */
  readonly config: string
  /** The name of the token that was sent. */
  readonly token: string | undefined
  /** Whether the token is a credential of the service, which this command can't read. */
  readonly lacksToken: boolean
}

const rejection = (config: string, token: string | undefined): string => {
  if (token === undefined) return `wants a token, and ${config} has none (admin.token)`
  return token === onlyToken
    ? `rejects the token of ${config} (admin.token)`
    : `rejects the token ${plain(token)} of ${config} (admin.tokens)`
}

const toCommandError = (error: Answered | Unexpected, { url, config, token, lacksToken }: Asked): CommandError => {
  switch (error._tag) {
    case "Invalid":
      return misconfigured(`the relay keeps its current config:\n\n${error.message}`)
    case "BadRequest":
    case "Forbidden":
    case "NotFound":
    case "Refused":
    case "TooMany":
    case "Unavailable":
      return failed(error.message)
    case "HttpClientError": {
      if (error.reason._tag === "TransportError") {
        return unreachable(
          `no relay answers at ${url}\n  Is it running? \`relay run\` starts it. The address is admin.listen of ${config}; \`--config\` chooses another.`,
        )
      }
      const status = error.response?.status
      if (status === 401 && lacksToken)
        return new CommandError({
          reason: "unreachable",
          isDenied: true,
          message: `the relay at ${url} wants a token, and that of ${config} can't be read here: it is a credential of the service\n  Run this as root. If the unit loads it from another directory than /etc/relay/secrets, set CREDENTIALS_DIRECTORY to that.`,
        })
      if (status === 401) return unreachable(`the relay at ${url} ${rejection(config, token)}`)
      if (status !== undefined)
        return unreachable(
          `${url} answers ${status}, so it is not the admin API of a relay\n  The address is admin.listen of ${config}; \`--config\` chooses another.`,
        )
      break
    }
  }
  return unreachable(
    `what answers at ${url} is not a relay of this version: another program, or another version\n  The address is admin.listen of ${config}; \`--config\` chooses another.`,
  )
}

/** Runs `call` with a client of the config's relay while that relay is alive. */
export const ask = Effect.fnUntraced(function* <A, E extends Answered | Unexpected>(
  call: (client: Client) => Effect.Effect<A, E>,
) {
  const file = Option.getOrUndefined(yield* Config)
  const { env } = yield* Program
  const readFile = readerOf(yield* FileSystem.FileSystem)
  const [{ loadAdmin }, { make, urlOf }] = yield* Effect.all([
    lazily(() => import("../../config/load/Load.ts")),
    lazily(() => import("../../admin/AdminClient.ts")),
  ])
  const as = Option.getOrUndefined(yield* As)
  const options = { env, readFile, ...ofHost, as }
  const { file: config, admin, lacksToken, names } = yield* loadAdmin(file, options)
  if (as !== undefined && !names.includes(as)) {
    const has = names.length === 0 ? "it has none" : `it has ${names.join(", ")}`
    return yield* misconfigured(`${config} has no admin token called ${plain(as)}: ${has}`)
  }
  const [token] = tokensOf(admin)
  const asked = { url: urlOf(admin), config, token: token?.name, lacksToken }
  const client = yield* make(admin)
  const answer = Effect.mapError(call(client), (error) => toCommandError(error, asked))
  return yield* whileAlive(heartbeatOf(asked.url))(answer)
})

// The progress of long work. A terminal shows a bar, which is erased at the end. Otherwise lines are
// printed, or nothing with `--json`.

const redrawEvery = "300 millis"
const barWidth = 30

/** Returns a bar, such as `[###------] 33 %  replay to lake`. */
export const barOf = (what: string, share: number): string => {
  const done = Math.round(share * barWidth)
  return `[${"#".repeat(done)}${"-".repeat(barWidth - done)}] ${String(Math.floor(share * 100)).padStart(3)} %  ${plain(what)}`
}

/** Clears the line. */
const erase = "\r\u001b[K"

export const progressBar = Effect.gen(function* () {
  const { canAnimate } = yield* TerminalCapabilities.TerminalCapabilities
  const { display } = yield* Terminal.Terminal
  const isJson = yield* Json
  const isDrawn = canAnimate && !isJson
  const shown = (text: string) => (isDrawn ? Effect.ignore(display(text)) : Effect.void)
  return {
    isDrawn,
    /** Shows the progress. `inWords` runs instead if no bar is drawn. */
    show: (what: string, share: number, inWords: Effect.Effect<void> = Effect.void) =>
      isDrawn || isJson ? shown(`${erase}${barOf(what, share)}`) : inWords,
    erasedAfter: <A, E, R>(work: Effect.Effect<A, E, R>) => Effect.ensuring(work, shown(erase)),
  }
})

/** Waits for `answer` and shows the progress of `what`, which is its name in the relay's status. */
export const withProgressBar = Effect.fnUntraced(function* <A, E, R>(what: string, answer: Effect.Effect<A, E, R>) {
  const { isDrawn, show, erasedAfter } = yield* progressBar
  if (!isDrawn) return yield* answer
  const draw = Effect.gen(function* () {
    yield* Effect.sleep(redrawEvery)
    const { work } = yield* ask((client) => client.status())
    const current = work.find((item) => item.what === what)
    if (current !== undefined) yield* show(what, current.share)
  })
  return yield* erasedAfter(Effect.raceFirst(answer, Effect.forever(Effect.ignore(draw))))
})
