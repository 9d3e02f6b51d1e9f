/** Facts that do not change while the relay runs, for `status` and `/metrics`. */
import { Clock, Context, Effect, Layer } from "effect"
import type { EpochMillis } from "../event/Quantities.ts"

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
