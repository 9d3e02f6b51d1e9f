/** Statements that are made false on purpose: the line must notice each. */
import { mutantsOf } from "../Line.ts"

export const mutants = mutantsOf({
  words: {
    "an event that waits is told as pending, and not as delivered": [
      "src/journal/stream/OutcomeRecord.ts",
      'if (lane.exists && !lane.isPassed) return { sink, outcome: "pending"',
      'if (lane.exists && !lane.isPassed) return { sink, outcome: "delivered"',
    ],
    "an event that was refused is told as a dead letter, and not as delivered": [
      "src/journal/stream/SearchResult.ts",
      "(held.get(lane) ?? endedStatus(",
      "(endedStatus(",
    ],
    "a dropped dead letter is not told as delivered": [
      "src/journal/stream/OutcomeRecord.ts",
      "outcome: outcome as DeliveryState, at }",
      'outcome: (outcome === "dropped" ? "delivered" : outcome) as DeliveryState, at }',
    ],
    "who dropped, replayed or moved an event is told": [
      "src/journal/sqlite/commit/LaneStore.ts",
      "note: { by, ...note }",
      "note: { ...note }",
    ],
    "a copy names the event that it is a copy of": [
      "src/journal/stream/OutcomeRecord.ts",
      "if (copy === sequence) copyOf =",
      "if (copy === sequence + 1) copyOf =",
    ],
    "an orphaned lane says since when its oldest event waits": [
      "src/delivery/LaneStatus.ts",
      "{ oldestAt: orphanedSince }",
      "{ oldestAt: 0 }",
      111,
    ],
    "an erased event has no body": ["src/journal/archive/Erasure.ts", "    body: nothing,", "    body: event.body,"],
    "an erased event has no signature": [
      "src/journal/archive/Erasure.ts",
      '    signature: "",',
      "    signature: event.signature,",
    ],
    "an erasure overwrites the free space of the journal's file": [
      "src/admin/api/ErasureApi.ts",
      "dryRun ? [] : yield* archive.scrub",
      "[]",
    ],
    "a search for what was dropped finds it": [
      "src/journal/sqlite/search/Search.ts",
      'outcome === "counted") {\n      return this.#sql.ended',
      'outcome === "counted") {\n      return this.#sql.dead',
    ],
    "the backlog counts what waits for a retry": [
      "src/delivery/LaneStatus.ts",
      "    backlog,\n",
      "    backlog: backlog - sum(lanes, ({ progress }) => progress.retries.size),\n",
      111,
    ],
    "a lane that an operator paused is told as paused": [
      "src/delivery/LaneStatus.ts",
      "    condition,\n",
      '    condition: condition === "paused" ? "running" : condition,\n',
    ],
    "the metric of dead letters counts dead letters": [
      "src/admin/Metrics.ts",
      'perLane("deadLetters")',
      'perLane("retrying")',
    ],
    "the metric of a lane's state, and the alerts on it, tell the state": [
      "src/admin/Metrics.ts",
      "state === condition ? 1 : 0",
      'state === "running" ? 1 : 0',
    ],
    "an attempt that failed is not counted as delivered": [
      "src/admin/status/History.ts",
      'outcome === "delivered" ? "delivered" : "failed"',
      'outcome === "delivered" ? "delivered" : "delivered"',
    ],
    "a refused request is not counted as received": [
      "src/admin/status/History.ts",
      'status < 300 ? "received" : "refused"',
      'status < 500 ? "received" : "refused"',
    ],
    "the counts of the last hour survive a restart": [
      "src/admin/status/History.ts",
      "yield* stored.read",
      "yield* Effect.as(stored.read, undefined)",
    ],
    "what a sink delivered before it left the config is counted": [
      "src/delivery/Lanes.ts",
      "filter(([name]) => name !== quarantine)",
      "filter(([name]) => name !== quarantine && streams.of(name).length > 0)",
    ],
    "a quarantined delivery is not counted as a failed attempt": [
      "src/delivery/Lanes.ts",
      "filter(([name]) => name !== quarantine)",
      "filter(([name]) => name.length > 0)",
    ],
    "a config that was refused is told": [
      "src/reload/Reload.ts",
      "status = { ...status, refusal: error.value.message }",
      "status = { ...status }",
      111,
    ],
    "a replay counts the events that it sends": ["src/admin/replay/ReplayReport.ts", "    this.#count++\n", ""],
    "the table of lanes has the whole backlog": [
      "src/cli/reports/statusReport.ts",
      "String(lane.backlog)",
      "String(lane.retrying)",
    ],
    "the log tells of a dead letter": [
      "src/delivery/Announcements.ts",
      "event_type } = first\n      return Effect.logWarning(",
      "event_type } = first\n      return Effect.logDebug(",
    ],
  },
})
