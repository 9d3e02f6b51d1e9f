/** Removes each guard that keeps relays from harming each other. Its line must notice. */
import { mutantsOf } from "../Line.ts"

const postgres = (file: string): string => `src/journal/postgres/${file}.ts`

export const mutants = mutantsOf({
  "fleet-late-commit": {
    "a relay whose signs of life are not answered begins no attempt": [
      postgres("lanes/StreamState"),
      "return !this.isLost && this.owner.isAlive() && this.owner.askedAt() >= this.notBefore",
      "return true",
    ],
    "who takes a stream waits for a commit to it that is under way": [
      postgres("append/Commits"),
      "isOwned} FOR SHARE)",
      "isOwned})",
    ],
  },
  "test/journal/postgres/fleet/EarlierState.test.ts": {
    "a dead letter or a rename that a restore took back is noticed": [
      postgres("lanes/StreamState"),
      "if (beat !== undefined && !this.isLost)",
      "if (beat === 0)",
    ],
  },
  "test/journal/postgres/fleet/Fleet.test.ts": {
    "a stream that was claimed on a promoted server is kept": [
      postgres("fleet/Fleet"),
      "if (timelineOf(stream.epoch) !== news.timeline) stream.lost()",
      "if (isPromoted) stream.lost()",
    ],
  },
  "fleet-freeze": {
    "what is settled under an epoch that has passed is not stored": [
      postgres("lanes/Settling"),
      "isOwned} AND",
      'isOwned.replace("epoch = ($2::text[])[1]::bigint", "true")} AND',
      2,
    ],
  },
  "fleet-same": {
    "an event that another relay has seen is void": [
      postgres("tables/StreamRows"),
      "if (isVoid.has(at)) return { ...entry, sinks: nowhere, duplicate: true }",
      "if (isVoid.has(at)) return { ...entry, duplicate: true }",
    ],
    "a relay counts what all streams hold, and not only one of them": [
      postgres("fleet/FleetReport"),
      "known().reduce(",
      "known().slice(0, 1).reduce(",
    ],
  },
  "fleet-split": {
    "a relay looks at the servers that it does not write to": [
      postgres("connection/PooledDatabase"),
      "connection().url.hosts.length > 1",
      "connection().url.hosts.length < 0",
    ],
  },
  "fleet-kill": {
    "events of a sink with an order go to the shared stream": [
      postgres("append/StreamWriter"),
      "const isShared = sinks.some((sink) => this.#exclusive.has(sink))",
      "const isShared = sinks.length < 0",
    ],
  },
})
