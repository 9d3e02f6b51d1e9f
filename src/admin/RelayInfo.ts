/** The relay that answers, and the caller of the current request. */
import { Clock, Context, Effect, Layer } from "effect"
import { onlyToken, type Role } from "../config/Config.ts"
import type { EpochMillis } from "../event/Quantities.ts"

/** Facts that do not change while the relay runs, for `status` and `/metrics`. */
export class RelayInfo extends Context.Service<
  RelayInfo,
  {
    readonly version: string
    /** The path of the config as the user gave it. */
    readonly configFile: string
    readonly startedAt: EpochMillis
  }
>()("relay/admin/RelayInfo") {
  static readonly layer = ({ version, configFile }: { readonly version: string; readonly configFile: string }) =>
    Layer.effect(
      RelayInfo,
      Effect.map(Clock.currentTimeMillis, (startedAt) => RelayInfo.of({ version, configFile, startedAt })),
    )
}

export interface CallerFacts {
  /** The token's name, or `local` if no token is required. */
  readonly name: string
  readonly role: Role
  /** The program: the page, the command line, the admin API. */
  readonly by: string
}

/** The service that identifies the sender of the current request. */
export const Caller = Context.Reference<CallerFacts>("relay/admin/Caller", {
  defaultValue: () => ({ name: "local", role: "operate", by: "the admin API" }),
})

/** Returns the caller as events record it. A shared token identifies no person. */
export const operatorOf = ({ name, by }: CallerFacts): string =>
  name === onlyToken || name === "local" ? by : `${name} (${by})`
