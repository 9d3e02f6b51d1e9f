/** Facts that do not change while the relay runs: for `status` and `/metrics`. */
import { Clock, Context, Effect, Layer } from "effect"

export class RelayInfo extends Context.Service<
  RelayInfo,
  {
    readonly version: string
    /** The config's file as it was named. */
    readonly configFile: string
    /** Epoch milliseconds. */
    readonly startedAt: number
  }
>()("relay/admin/RelayInfo") {
  static readonly layer = ({ version, configFile }: { readonly version: string; readonly configFile: string }) =>
    Layer.effect(
      RelayInfo,
      Effect.map(Clock.currentTimeMillis, (startedAt) => RelayInfo.of({ version, configFile, startedAt })),
    )
}
