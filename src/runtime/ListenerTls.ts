/**
 * The certificate of the listener for deliveries, which a reload renews.
 *
 * **Guarantee.** No delivery is refused when it is: connections that are open
 * stay, and new ones get the new certificate.
 */
import { Context, Effect, Layer } from "effect"
import type { Tls } from "../config/Config.ts"
import type { ServeError } from "./Runtime.ts"

type Renew = (tls: Tls) => Effect.Effect<void, ServeError>

/** The listener's certificate. `renew` fails with `ServeError`, and the old certificate stays. */
export class ListenerTls extends Context.Service<
  ListenerTls,
  {
    /** The one to listen with; absent where it is HTTP. */
    readonly current: Effect.Effect<Tls | undefined>
    readonly renew: Renew
    /** Says how the listener takes another. It opens after all that can ask for it. */
    readonly listening: (renew: Renew) => Effect.Effect<void>
  }
>()("relay/runtime/ListenerTls") {
  static readonly layer = (tls: Tls | undefined): Layer.Layer<ListenerTls> =>
    Layer.sync(ListenerTls, () => {
      let current = tls
      let take: Renew = () => Effect.void
      return ListenerTls.of({
        current: Effect.sync(() => current),
        renew: (tls) =>
          Effect.tap(
            Effect.suspend(() => take(tls)),
            () => Effect.sync(() => (current = tls)),
          ),
        listening: (renew) => Effect.sync(() => (take = renew)),
      })
    })
}
