/**
 * Calls the admin API of the running relay. Only the admin part of the config is
 * read: `relay status` may be run by a user who can't read the signing secrets.
 */
import { Effect, FileSystem, Option } from "effect"
import type { HttpClientError } from "effect/http"
import type { Client } from "../../admin/AdminClient.ts"
import type { BadRequest, Forbidden, Invalid, NotFound, Refused, TooMany, Unavailable } from "../../admin/Api.ts"
import { onlyToken, tokensOf } from "../../config/Config.ts"
import { readerOf } from "../../config/load/ReadFile.ts"
import { CommandError, failed, misconfigured, unreachable } from "./CommandError.ts"
import { As, Config } from "./flags.ts"
import { heartbeatOf, whileAlive } from "./liveness.ts"
import { ofHost } from "./loadConfig.ts"
import { plain } from "./output.ts"
import { lazily, Program } from "./Program.ts"

type Answered = BadRequest | Forbidden | Invalid | NotFound | Refused | TooMany | Unavailable
/** An answer that is not of the API: another program or another version listens there. */
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

/** Runs `call` with a client of the relay that the config names, for as long as that relay is alive. */
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
