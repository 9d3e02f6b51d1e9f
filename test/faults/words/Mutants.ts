/** Statements that are made false on purpose: the line must notice each. */
import type { Mutant } from "../Line.ts"

const line = "words"

export const mutants: ReadonlyArray<Mutant> = [
  {
    line,
    gone: "an event that waits is told as pending, and not as delivered",
    file: "src/journal/stream/OutcomeRecord.ts",
    find: 'if (lane.exists && !lane.isPassed) return { sink, outcome: "pending"',
    replace: 'if (lane.exists && !lane.isPassed) return { sink, outcome: "delivered"',
  },
  {
    line,
    gone: "an event that was refused is told as a dead letter, and not as delivered",
    file: "src/journal/sqlite/search/DeliveryStatus.ts",
    find: "return held.get(sink) ?? endedStatus(",
    replace: "return endedStatus(",
  },
  {
    line,
    gone: "a dead letter that was dropped or replayed is told so, and not as delivered",
    file: "src/journal/stream/OutcomeRecord.ts",
    find: "outcome: outcome as DeliveryState, at }",
    replace: 'outcome: "delivered" as DeliveryState, at }',
  },
  {
    line,
    gone: "a search for what was dropped finds it",
    file: "src/journal/sqlite/search/Search.ts",
    find: 'if (outcome === "dropped" || outcome === "replayed"',
    replace: 'if (outcome === "dropped") return this.#sql.dead\n    if (outcome === "replayed"',
  },
  {
    line,
    gone: "the backlog counts what waits for a retry",
    file: "src/delivery/LaneStatus.ts",
    find: "    backlog: info.backlog,",
    replace: "    backlog: info.backlog - sum(lanes, ({ progress }) => progress.retries.size),",
  },
  {
    line,
    gone: "a lane that an operator paused is told as paused",
    file: "src/delivery/LaneStatus.ts",
    find: '?? "running"\n',
    replace:
      '?? "running"\n  if (condition === "paused") return { ...orphaned(info), type: first.config.type, condition: "running" }\n',
  },
  {
    line,
    gone: "the metric of dead letters counts dead letters",
    file: "src/admin/Metrics.ts",
    find: 'perLane("deadLetters")',
    replace: 'perLane("retrying")',
  },
  {
    line,
    gone: "the metric of a lane's state, and the alerts on it, tell the state",
    file: "src/admin/Metrics.ts",
    find: "state === condition ? 1 : 0",
    replace: 'state === "running" ? 1 : 0',
  },
  {
    line,
    gone: "an attempt that failed is not counted as delivered",
    file: "src/admin/History.ts",
    find: 'outcome === "delivered" ? "delivered" : "failed"',
    replace: 'outcome === "delivered" ? "delivered" : "delivered"',
  },
  {
    line,
    gone: "a refused request is not counted as received",
    file: "src/admin/History.ts",
    find: 'status < 300 ? "received" : "refused"',
    replace: 'status < 500 ? "received" : "refused"',
  },
  {
    line,
    gone: "the counts of the last hour survive a restart",
    file: "src/admin/History.ts",
    find: "yield* StateFile.read(file)",
    replace: 'yield* StateFile.read(file + "-of-before")',
  },
  {
    line,
    gone: "what a sink delivered before it left the config is counted",
    file: "src/delivery/Lanes.ts",
    find: "filter(([name]) => name !== quarantine)",
    replace: "filter(([name]) => name !== quarantine && streams.of(name).length > 0)",
  },
  {
    line,
    gone: "a quarantined delivery is not counted as a failed attempt",
    file: "src/delivery/Lanes.ts",
    find: "filter(([name]) => name !== quarantine)",
    replace: "filter(([name]) => name.length > 0)",
  },
  {
    line,
    gone: "a config that was refused is told",
    file: "src/reload/Reload.ts",
    find: "status = { ...status, refusal: error.value.message }",
    replace: "status = { ...status }",
  },
  {
    line,
    gone: "a replay counts the events that it sends",
    file: "src/admin/ReplaySummary.ts",
    find: "    this.#count++\n",
    replace: "",
  },
  {
    line,
    gone: "the table of lanes has the whole backlog",
    file: "src/cli/support/statusReport.ts",
    find: "String(lane.backlog)",
    replace: "String(lane.retrying)",
  },
  {
    line,
    gone: "the log tells of a dead letter",
    file: "src/delivery/Announcements.ts",
    find: "event_type } = first\n      return Effect.logWarning(",
    replace: "event_type } = first\n      return Effect.logDebug(",
  },
]
