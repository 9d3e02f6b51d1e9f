/** How a simulated fleet stands: printed when something is broken, so that a rare failure can be explained. */
import { Effect } from "effect"
import type { Relays } from "./Relays.ts"
import type { Shard } from "./Shards.ts"

/** The relays with their configs and streams, as each knows them, and the lanes of each stream as the database has them. */
export const report = async (relays: Relays, shards: ReadonlyArray<Shard>): Promise<ReadonlyArray<string>> => {
  const lives = [...relays.lives].flatMap(([name, life]) => {
    const { version, isReloading, machine, parts } = life
    const states = [
      `config ${version}`,
      ...(isReloading ? ["a reload is under way"] : []),
      ...(machine.isFrozen ? ["it stands still"] : []),
      ...(machine.network.isCut ? ["its network is cut"] : []),
      ...(parts.every(({ journal }) => journal === undefined) ? ["it has not started"] : []),
    ]
    const streams = parts.flatMap((_, place) =>
      relays.streamsOf(life, place).map((stream) => {
        const waiting = [...stream.backlogs.values()].map(({ lane, size }) => `${lane} ${size}`)
        const loss = stream.isLost ? ", lost" : ""
        return `  stream ${place}:${stream.id}, epoch ${stream.epoch}${loss}: ${waiting.join(", ")}`
      }),
    )
    return [`${name}: ${states.join(", ")}`, ...streams]
  })
  const stored = await Effect.runPromise(
    Effect.forEach([...shards.entries()], ([place, shard]) =>
      Effect.map(
        Effect.promise(() => shard.lanes("progress")),
        (rows) =>
          rows.map(({ stream, owner, lanes, names }) => {
            const others = Object.entries(names).map(([name, { to }]) => `${name} is ${to}`)
            return `in the database, stream ${place}:${stream} of ${owner}: ${[...lanes, ...others].join(", ")}`
          }),
      ),
    ),
  )
  return [...lives, ...stored.flat()]
}
