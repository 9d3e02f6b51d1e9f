/**
 * The ports of this process. `relay run` keeps them open while a restart closes
 * the relay behind them and another process, or this one again, opens it.
 */
import { Context, Effect, Scope } from "effect"
import { type Door, type DoorOptions, openDoor, type ServeError } from "./Runtime.ts"

/** Opens a port, or returns the port that is kept open under the same key. */
type Open = (key: string, options: DoorOptions) => Effect.Effect<Door, ServeError, Scope.Scope>

/** Unless ports are kept, each closes with its caller's scope. */
export const Doors = Context.Reference<Open>("relay/runtime/Doors", {
  defaultValue: () => (key, options) => openDoor({ ...options, key }),
})

/** Ports that are kept open. */
export interface KeptDoors {
  readonly open: Open
  /** The ports that are open, by the key of the config that names the address. */
  readonly all: ReadonlyMap<string, Door>
}

/** Keeps ports open until the scope closes. */
export const keep: Effect.Effect<KeptDoors, never, Scope.Scope> = Effect.gen(function* () {
  const scope = yield* Scope.Scope
  const all = new Map<string, Door>()
  const open: Open = Effect.fnUntraced(function* (key, options) {
    const kept = all.get(key)
    if (kept !== undefined) return kept
    const door = yield* Scope.provide(openDoor({ ...options, key }), scope)
    all.set(key, door)
    return door
  })
  return { open, all }
})
