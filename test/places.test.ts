/**
 * Where `src` calls what must not be called just anywhere, each place with its
 * reason. A new one fails here, and is either done otherwise or added.
 */
import { describe, expect, test } from "bun:test"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"

const src = join(import.meta.dir, "../src")

/** Not what runs in a browser. */
const sources = readdirSync(src, { recursive: true, encoding: "utf8" }).filter(
  (file) => /\.tsx?$/.test(file) && !/^page\/(browser|built)\//.test(file),
)

const isComment = (line: string): boolean => /^\s*(\/\/|\/?\*)/.test(line)

/** How often each file has the pattern outside comments and imports. */
const placesOf = (pattern: RegExp): Readonly<Record<string, number>> => {
  const found: Record<string, number> = {}
  for (const file of sources) {
    const text = readFileSync(join(src, file), "utf8").replaceAll(/^import\b[^"]*"[^"]*"/gm, "")
    const code = text.split("\n").filter((line) => !isComment(line))
    const count = code.join("\n").matchAll(pattern).toArray().length
    if (count > 0) found[file] = count
  }
  return found
}

const counts = (places: Readonly<Record<string, readonly [number, string]>>): Readonly<Record<string, number>> =>
  Object.fromEntries(Object.entries(places).map(([file, [count]]) => [file, count]))

describe("the places in src that", () => {
  /**
   * `Console` of Effect is not among them: in the relay `Stderr.ts` is behind it. A pipe, a socket or a terminal may
   * stop the event loop, so each place must write to a file.
   */
  test("write to a descriptor synchronously, which a pipe, a socket or a terminal could stop", () => {
    const pattern =
      /\b(?:writeSync|writevSync|writeFileSync|appendFileSync|sendto)\(|\bconsole\.(?:log|info|warn|error|debug|trace|table|dir)\(|\b(?:stdout|stderr)\.write\(|\bwarn\(\.\.\.parts\)/g
    expect(placesOf(pattern)).toEqual(
      counts({
        "journal/sqlite/file/SqliteFailure.ts": [1, "a file that it makes beside the journal"],
        "journal/sqlite/file/Space.ts": [1, "the journal's ballast, a file"],
        "journal/sqlite/file/FreeSpace.ts": [1, "the journal, a file"],
        "journal/sqlite/file/HighWaterMark.ts": [3, "the journal's mark, a file"],
        "journal/sqlite/maintenance/Repair.ts": [1, "the start of a damaged journal, a file"],
        "journal/sqlite/maintenance/Maintenance.ts": [1, "`relay journal salvage`, which is not the relay"],
        "runtime/Notify.ts": [1, "it sends with MSG_DONTWAIT"],
        "runtime/Stderr.ts": [1, "commands that end by themselves; the relay writes by `writerTo`"],
        "cli/start.ts": [3, "its `console` writes by `Stderr.ts`"],
      }),
    )
  })

  /**
   * The wall clock is for instants: those that are stored, shown, or compared with another instant. A duration within
   * one run of the process is measured by `event/Monotonic.ts`, because the wall clock may be set meanwhile. A schedule
   * of Effect that counts from its start measures by the wall clock too.
   */
  test("read the wall clock", () => {
    const pattern =
      /\bDate\.now\b|\bnew Date\(\)|\bcurrentTime(?:Millis|Nanos)(?:Unsafe)?\b|\bSchedule\.(?:fixed|windowed|cron)\b/g
    expect(placesOf(pattern)).toEqual(
      counts({
        "event/Monotonic.ts": [2, "it replaces the wall clock for Effect's pools and caches"],

        "ingest/Ingest.ts": [1, "when a delivery came, which is stored; secrets expire at an instant"],
        "ingest/RecentRefusals.ts": [1, "when a request was refused, which is shown"],
        "ingest/SenderSilence.ts": [1, "the last delivery is an instant, which is stored; hours of the day"],
        "delivery/Lanes.ts": [
          3,
          "the start and the end of a pause are instants, which are stored; since when a lane stands still, which is shown",
        ],
        "delivery/Quarantine.ts": [1, "age of stored events, unless somebody set the clock"],
        "delivery/RelayEvents.ts": [1, "when an event happened, which is stored"],
        "delivery/Warnings.ts": [2, "secrets and certificates expire at an instant"],
        "delivery/lane/LaneClock.ts": [1, "due times, which are stored; outcomes, which are stored"],
        "sinks/rabbitmq/RabbitMq.ts": [1, "a signature's time"],
        "sinks/s3/S3.ts": [2, "a signature's time; credentials expire at an instant"],
        "sinks/sns/Sns.ts": [1, "a signature's time"],
        "sinks/sqs/Sqs.ts": [1, "a signature's time"],
        "telemetry/Repeats.ts": [1, "a log line's time"],
        "telemetry/Tracing.ts": [1, "when a span starts"],
        "config/load/Load.ts": [1, "certificates and secrets expire at an instant"],
        "reload/Reload.ts": [2, "when the config was loaded, which is shown"],

        "journal/AuditLog.ts": [1, "when an operation was done, which is stored"],
        "journal/WallClock.ts": [1, "it compares the wall clock with the monotonic one"],
        "journal/stream/BulkSlices.ts": [1, "when a dead letter was dropped, which is stored"],
        "journal/sqlite/commit/Losses.ts": [
          2,
          "since when the journal is red, and when a loss was found, which is stored",
        ],
        "journal/sqlite/file/Store.ts": [1, "a file's name"],
        "journal/sqlite/service/OpenEngine.ts": [2, "age of stored events; retention"],
        "journal/postgres/DatabaseInspection.ts": [2, "it compares the wall clocks of two machines"],
        "journal/postgres/PostgresJournal.ts": [1, "since when there is trouble, which is shown and stored"],
        "journal/postgres/copy/PostgresCopyTarget.ts": [1, "age of stored events"],
        "journal/postgres/fleet/Fleet.ts": [2, "a suspended machine stops the monotonic clock: the longer age counts"],
        "journal/postgres/fleet/Member.ts": [1, "since when the database does not answer, which is shown"],
        "journal/postgres/fleet/Upkeep.ts": [1, "retention"],

        "sinks/email/Email.ts": [1, "the mail's date"],
        "sinks/file/File.ts": [1, "rotation by calendar day, and a file's name"],
        "sinks/http/AccessTokens.ts": [1, "Retry-After may be a date"],
        "sinks/http/Http.ts": [2, "a signature's time; Retry-After may be a date"],
        "sinks/kafka/Kafka.ts": [1, "a signature's time"],
        "sinks/kafka/KafkaLogin.ts": [2, "a signature's time; a token is valid at instants"],
        "sinks/kafka/Produce.ts": [1, "a record's time"],
        "sinks/kafka/SchemaRegistry.ts": [1, "a date in `Retry-After`"],
        "sinks/nats/Nats.ts": [1, "a signature's time"],
        "sinks/nats/NatsConnection.ts": [1, "credentials expire at an instant"],

        "admin/Authorization.ts": [1, "when an operation was refused, which is stored"],
        "admin/api/ErasureApi.ts": [1, "how old events may be that are left"],
        "admin/api/Handlers.ts": [1, "the end of a pause is an instant, which is stored"],
        "admin/status/History.ts": [2, "the times of its steps, which are stored"],
        "admin/Metrics.ts": [1, "age of stored events"],
        "admin/RelayInfo.ts": [1, "when the relay started, which is shown"],
        "admin/status/RelayStatus.ts": [1, "the relay's time, by which a client shows ages"],
        "admin/replay/ReplayRun.ts": [2, "when a replay started and ended, which is shown"],
        "admin/replay/Replays.ts": [1, "a replay's id"],
        "runtime/Problem.ts": [1, "ids of requests"],

        "cli/commands/doctor.ts": [1, "certificates and secrets expire at an instant"],
        "cli/commands/journal.ts": [1, "when a journal was copied, which is stored"],
        "cli/support/lifecycle.ts": [2, "until when a drain lasts, which is shown; a log line's time"],
        "cli/commands/trigger.ts": [2, "secrets expire at an instant; when a sample event was created"],
        "cli/reports/doctorFindings.ts": [1, "the wall clock itself"],
        "cli/reports/statusReport.ts": [1, "a line's time"],
        "cli/support/values.ts": [1, "times before now that a person names"],
      }),
    )
  })

  /** A loop that a defect ends would stop for good, and nobody would notice. */
  test("repeat for ever without the help of `Rounds.ts`, which logs a failure or a defect and continues", () => {
    expect(placesOf(/\bEffect\.forever\b/g)).toEqual(
      counts({
        "event/Rounds.ts": [2, "the help itself"],
        "journal/postgres/fleet/Member.ts": [1, "its failure ends a question"],
        "delivery/lane/Lane.ts": [2, "its defect ends the lane, which `RunningLanes.ts` starts again"],
        "cli/reports/statusReport.ts": [2, "its failure ends the command"],
        "cli/support/adminClient.ts": [2, "its failure ends a request; its defect ends the command"],
      }),
    )
  })

  test("open a file in SQLite, which then writes its temporary files to another disk unless told otherwise", () => {
    expect(placesOf(/\bnew DatabaseSync\(/g)).toEqual(
      counts({ "journal/sqlite/rows/SqliteConnection.ts": [1, "it keeps them in memory"] }),
    )
  })

  test("use a pool, cache or reference of Effect that keeps something for a time, outside `Monotonic.measured`", () => {
    const all = placesOf(/\b(?:Pool\.makeWithTTL|Cache\.make(?:With)?|RcRef\.make|RcMap\.make|\w*[cC]achedWithTTL)\(/g)
    expect(all).toEqual(
      counts({
        "delivery/SinkPool.ts": [1, "it keeps no unused sink"],
        "enrichment/Clients.ts": [1, "measured"],
        "journal/postgres/connection/PooledDatabase.ts": [1, "measured"],
        "sinks/Connections.ts": [2, "the pool is measured; the reference keeps its connection for ever"],
      }),
    )
  })
})
