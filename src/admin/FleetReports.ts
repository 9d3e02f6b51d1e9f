/** What the admin API says of the other relays on the journal. */
import type { FleetStatus, LaneCounts } from "../journal/FleetStatus.ts"
import type * as Api from "./Api.ts"
import type { Fleet } from "./FleetApi.ts"

const none: LaneCounts = { backlog: 0, retrying: 0, deadLetters: 0 }

const added = (a: LaneCounts, b: LaneCounts): LaneCounts => ({
  backlog: a.backlog + b.backlog,
  retrying: a.retrying + b.retrying,
  deadLetters: a.deadLetters + b.deadLetters,
})

/** What other relays' streams hold, by sink. */
const elsewhere = ({ members, streams }: FleetStatus): ReadonlyMap<string, LaneCounts> => {
  const self = members.find(({ isSelf }) => isSelf)?.name
  const counts = new Map<string, LaneCounts>()
  for (const { owner, lanes } of streams) {
    if (owner === self) continue
    for (const [name, lane] of Object.entries(lanes)) counts.set(name, added(counts.get(name) ?? none, lane))
  }
  return counts
}

/** The lanes of this relay's streams, with what those of the others hold; then the lanes that only others have. */
export const withOthers = (lanes: ReadonlyArray<Api.Lane>, fleet: FleetStatus): ReadonlyArray<Api.Lane> => {
  const others = elsewhere(fleet)
  const own = lanes.map((lane) => {
    const relays = fleet.members.filter(({ isSelf, lanes }) => !isSelf && lanes.some(({ name }) => name === lane.name))
    const isTheirs = lane.condition === "orphaned" && relays.length > 0
    return {
      ...lane,
      ...added(lane, others.get(lane.name) ?? none),
      ...(isTheirs && {
        message: `its sink is in the config of ${relays.map(({ name }) => name).join(", ")}, not here`,
      }),
    }
  })
  const known = new Set(lanes.map(({ name }) => name))
  const theirs = [...others].filter(([name]) => !known.has(name))
  return [
    ...own,
    ...theirs.flatMap(([name, counts]): ReadonlyArray<Api.Lane> => {
      const [lane] = fleet.members.flatMap(({ lanes }) => lanes.filter((lane) => lane.name === name))
      // What nobody has a sink for is listed by the relay that owns its stream.
      if (lane === undefined && counts.backlog + counts.deadLetters === 0) return []
      return [
        {
          name,
          type: lane?.type ?? "",
          condition: lane?.condition ?? "orphaned",
          message: lane?.message ?? "no relay's config has this sink",
          ...counts,
          oldestAt: 0,
        },
      ]
    }),
  ]
}

export const fleetOf = ({ members, streams }: FleetStatus): Fleet => ({
  relays: members.map(({ lanes: _, ...member }) => {
    const owned = streams.filter(({ owner }) => owner === member.name)
    const waiting = owned.flatMap(({ lanes }) => Object.values(lanes)).reduce((sum, { backlog }) => sum + backlog, 0)
    return { ...member, streams: owned.map(({ id }) => id), shared: owned.some(({ isShared }) => isShared), waiting }
  }),
  unowned: streams.flatMap(({ id, owner }) => (members.some(({ name }) => name === owner) ? [] : [id])),
})
