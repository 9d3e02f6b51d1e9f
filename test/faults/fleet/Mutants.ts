/** What keeps several relays from harming each other, each removed: its line must notice. */
import type { Mutant } from "../Line.ts"

const postgres = (file: string): string => `src/journal/postgres/${file}.ts`

export const mutants: ReadonlyArray<Mutant> = [
  {
    line: "fleet-late-commit",
    gone: "a relay whose signs of life are not answered begins no attempt",
    file: postgres("lanes/StreamState"),
    find: "return !this.isLost && this.owner.isAlive() && this.owner.askedAt() >= this.notBefore",
    replace: "return true",
  },
  {
    line: "fleet-freeze",
    gone: "what is settled under an epoch that has passed is not stored",
    file: postgres("lanes/Settling"),
    find: "isOwned} AND",
    replace: 'isOwned.replace("epoch = ($2::text[])[1]::bigint", "true")} AND',
    seed: 2,
  },
  {
    line: "fleet-late-commit",
    gone: "who takes a stream waits for a commit to it that is under way",
    file: postgres("append/Commits"),
    find: "isOwned} FOR SHARE)",
    replace: "isOwned})",
  },
  {
    line: "fleet-same",
    gone: "an event that another relay has seen is void",
    file: postgres("tables/StreamRows"),
    find: "if (isVoid.has(at)) return { ...entry, sinks: nowhere, duplicate: true }",
    replace: "if (isVoid.has(at)) return { ...entry, duplicate: true }",
  },
  {
    line: "fleet-same",
    gone: "a relay counts what all streams hold, and not only one of them",
    file: postgres("fleet/FleetReport"),
    find: "known().reduce(",
    replace: "known().slice(0, 1).reduce(",
  },
  {
    line: "fleet-split",
    gone: "a relay looks at the servers that it does not write to",
    file: postgres("connection/PooledDatabase"),
    find: "connection().url.hosts.length > 1",
    replace: "connection().url.hosts.length < 0",
  },
  {
    line: "fleet-kill",
    gone: "events of a sink with an order go to the shared stream",
    file: postgres("append/StreamWriter"),
    find: "const isShared = sinks.some((sink) => this.#exclusive.has(sink))",
    replace: "const isShared = sinks.length < 0",
  },
]
