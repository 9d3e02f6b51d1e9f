/** The admin API's report on all relays of the journal: figures over all streams, and conditions at all relays. */
import { laneConditions } from "../delivery/LaneStatus.ts"
import type { Millis } from "../event/Quantities.ts"
import type { FleetStatus, LaneCounts, MemberStatus, StreamStatus } from "../journal/FleetStatus.ts"
import type * as Api from "./Api.ts"
import type { Fleet } from "./FleetApi.ts"

const none: LaneCounts = { backlog: 0, retrying: 0, deadLetters: 0 }
/** Maximum duration of a takeover. A stream without a relay for longer is a problem. */
const takeoverWithin: Millis = 15_000

const added = (a: LaneCounts, b: LaneCounts): LaneCounts => ({
  backlog: a.backlog + b.backlog,
  retrying: a.retrying + b.retrying,
  deadLetters: a.deadLetters + b.deadLetters,
})

/** Returns the counts over all streams, by sink. */
const totals = (streams: ReadonlyArray<StreamStatus>): ReadonlyMap<string, LaneCounts> => {
  const counts = new Map<string, LaneCounts>()
  for (const { lanes } of streams) {
    for (const [name, lane] of Object.entries(lanes)) counts.set(name, added(counts.get(name) ?? none, lane))
  }
  return counts
}

const rank = ({ condition }: Pick<Api.Lane, "condition">): number => laneConditions.indexOf(condition)

type ConditionReport = Pick<Api.Lane, "condition" | "message">

/** Returns the worst condition of a sink at all relays. */
const worst = (own: ConditionReport, name: string, others: ReadonlyArray<MemberStatus>): ConditionReport =>
  others.reduce((worst: ConditionReport, { name: relay, lanes }) => {
    const lane = lanes.find((lane) => lane.name === name)
    if (lane === undefined || rank(lane) >= rank(worst)) return worst
    return { condition: lane.condition, message: `at ${relay}${lane.message && `: ${lane.message}`}` }
  }, own)

const oldest = (times: ReadonlyArray<number>): number => {
  const known = times.filter((at) => at > 0)
  return known.length === 0 ? 0 : Math.min(...known)
}

/** Returns why events of a sink wait in a stream without a relay. */
const abandoned = (name: string, streams: ReadonlyArray<StreamStatus>): ReadonlyArray<ConditionReport> =>
  streams.flatMap(({ id, unownedFor = 0, lanes }) =>
    unownedFor > takeoverWithin && (lanes[name]?.backlog ?? 0) > 0
      ? [{ condition: "stalled", message: `no relay has taken over the stream ${id}, in which events wait` }]
      : [],
  )

/** Returns the lanes of all relays: first this relay's lanes, then those that only others have. */
export const withOthers = (
  lanes: ReadonlyArray<Api.Lane>,
  { members, streams }: FleetStatus,
): ReadonlyArray<Api.Lane> => {
  const counts = totals(streams)
  // A relay that has ended still counts until another owns its streams.
  const others = members.filter(({ name, isSelf }) => !isSelf && streams.some(({ owner }) => owner === name))
  const own = lanes.map((lane) => {
    const { name, condition } = lane
    const relays = members.filter(({ isSelf, lanes }) => !isSelf && lanes.some((one) => one.name === name))
    const isTheirs = condition === "orphaned" && relays.length > 0
    const report: ConditionReport = isTheirs
      ? { condition, message: `its sink is in the config of ${relays.map(({ name }) => name).join(", ")}, not here` }
      : (abandoned(name, streams)[0] ?? worst(lane, name, condition === "orphaned" ? [] : others))
    return {
      ...lane,
      ...report,
      ...(counts.get(name) ?? none),
      oldestAt: oldest([lane.oldestAt, ...oldestAt(name, others)]),
    }
  })
  const known = new Set(lanes.map(({ name }) => name))
  const theirs = [...counts].filter(([name]) => !known.has(name))
  return [
    ...own,
    ...theirs.flatMap(([name, counts]): ReadonlyArray<Api.Lane> => {
      const [lane] = members.flatMap(({ lanes }) => lanes.filter((lane) => lane.name === name))
      // A lane without a sink at any relay is listed by the relay that owns its stream.
      if (lane === undefined && counts.backlog + counts.deadLetters === 0) return []
      return [
        {
          name,
          type: lane?.type ?? "",
          condition: lane?.condition ?? "orphaned",
          message: lane?.message ?? "no relay's config has this sink",
          ...counts,
          oldestAt: oldest(oldestAt(name, others)),
        },
      ]
    }),
  ]
}

const oldestAt = (name: string, members: ReadonlyArray<MemberStatus>): ReadonlyArray<number> =>
  members.flatMap(({ lanes }) => lanes.flatMap((lane) => (lane.name === name ? [lane.oldestAt] : [])))

export const fleetOf = ({ members, streams }: FleetStatus): Fleet => ({
  relays: members.map(({ lanes: _, ...member }) => {
    const owned = streams.filter(({ owner }) => owner === member.name)
    const waiting = owned.flatMap(({ lanes }) => Object.values(lanes)).reduce((sum, { backlog }) => sum + backlog, 0)
    return { ...member, streams: owned.map(({ id }) => id), shared: owned.some(({ isShared }) => isShared), waiting }
  }),
  unowned: streams.flatMap(({ id, owner }) => (members.some(({ name }) => name === owner) ? [] : [id])),
})
