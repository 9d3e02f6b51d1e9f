import { describe, expect } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { Effect, Fiber } from "effect"
import { config } from "../../admin/fixture.ts"
import { event, settlement } from "../../journal/samples.ts"
import { it } from "../../lib/effect.ts"
import { cli, temporary } from "../harness.ts"
import { runningIn } from "../running.ts"

const directory = temporary()
const running = runningIn(directory)

const day = (day: number): number => Date.UTC(2026, 0, day)

describe("replay", () => {
  it.live("sends events of the journal, by type and between two times", function* () {
    const { ask, journal } = yield* running()
    yield* journal.openLane("lake")
    yield* journal.append(event("evt_1", { receivedAt: day(2) }), ["lake"])
    const between = (since: string, until: string) =>
      ask("replay", "--to", "lake", "--since", since, "--until", until, "--type", "appointment.*")
    expect((yield* between("2026-01-03", "2026-01-04")).stdout).toBe("0 events queued for lake again\n")
    const sent = yield* between("2026-01-02", "2026-01-03")
    expect([sent.code, sent.stdout]).toEqual([
      0,
      "1 event queued for lake again\n  1 event is still pending or retrying at a sink, which receives it twice\n",
    ])
    expect((yield* between("2026-01-03", "2026-01-02")).code).toBe(64)
    expect((yield* ask("replay", "--to", "nope", "--since", "1 day")).code).toBe(1)
    expect((yield* ask("journal", "acknowledge")).code).toBe(0)
  })

  it.live("requires a sink and a selection: replaying everything must be requested explicitly", function* () {
    const { ask } = yield* running()
    for (const [args, words] of [
      [["--all"], "--to SINK, or --routed"],
      [["--all", "--routed", "--to", "lake"], "--to SINK, or --routed"],
      [["--to", "lake"], "--all for everything"],
      [["--to", "lake", "--all", "--account", "acct_1"], "give --all alone"],
    ] as const) {
      const { code, stderr } = yield* ask("replay", ...args)
      expect([code, stderr]).toEqual([64, expect.stringContaining(words)])
    }
  })

  it.live("--dry-run counts the events, sends nothing, and prints the command that sends them", function* () {
    const { ask, journal } = yield* running()
    for (const id of ["evt_1", "evt_2", ""]) {
      yield* journal.append(event(id, { receivedAt: day(2), accountId: "acct 7" }), ["lake", "old"])
    }
    yield* journal.append(event("evt_4", { type: "client.created", receivedAt: day(3), accountId: "acct 7" }), [])
    const { code, stdout, stderr } = yield* ask(
      "replay",
      "--account",
      "acct 7",
      "--routed",
      "--since",
      "2026-01-01",
      "--dry-run",
    )
    expect(code).toBe(0)
    expect(stdout).toBe(
      [
        "dry run, nothing was sent: 3 events would be queued again, each for the sinks that it was routed to",
        "",
        "  TYPE                 SINK  EVENTS",
        "  appointment.created  lake  3",
        "",
        "  FIRST  TYPE                 ACCOUNT  RECEIVED",
        "  evt_1  appointment.created  acct 7   2026-01-02T00:00:00.000Z",
        "  evt_2  appointment.created  acct 7   2026-01-02T00:00:00.000Z",
        "  seq_3  appointment.created  acct 7   2026-01-02T00:00:00.000Z",
        "  3 events are still pending or retrying at a sink, which would receive them twice",
        "  1 event left out: routed to no sink of the config; --to SINK sends them",
        "  3 events routed to old, which is no longer in the config",
        "",
      ].join("\n"),
    )
    expect(stderr).toContain(
      "\nto send them: relay replay --routed --account 'acct 7' --since 2026-01-01T00:00:00.000Z --through 4 -c ",
    )
    expect(yield* journal.head).toBe(4)
    const printed = stderr.slice(stderr.indexOf("relay replay ") + 13, stderr.indexOf(" -c "))
    const words = [...printed.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? "")
    expect((yield* ask("replay", ...words)).stdout).toStartWith(
      "3 events queued again, each for the sinks that it was routed to\n",
    )
  })

  it.live("sends one event by its id or its place, and fails if it doesn't exist", function* () {
    const { ask, journal } = yield* running()
    for (const id of ["evt_1", "evt_2"]) yield* journal.append(event(id), ["lake"])
    yield* journal.openLane("lake")
    yield* journal.settle([settlement("lake", 2)])
    expect((yield* ask("replay", "evt_2", "--routed")).stdout).toBe(
      "1 event queued again, each for the sinks that it was routed to\n",
    )
    expect((yield* ask("replay", "seq_3", "--to", "lake")).stdout).toStartWith("1 event queued for lake again\n")
    expect((yield* journal.read(2, 9)).map(({ event }) => event.id)).toEqual(["evt_2", "evt_2"])
    const none = yield* ask("replay", "evt_9", "--routed")
    expect([none.code, none.stderr]).toEqual([1, expect.stringContaining("the journal has no event evt_9 to send")])
    const json = yield* ask("replay", "evt_2", "--routed", "--json")
    expect(JSON.parse(json.stdout)).toMatchObject({ state: "finished", count: 1, leftOut: { copies: 2 } })
  })

  it.live("shows its progress if the relay stops during it", function* () {
    const replay = {
      ...{
        id: "1",
        events: { through: "9" },
        to: "routed",
        dryRun: false,
        state: "running",
        message: "",
        startedAt: 1,
      },
      ...{
        share: 0.5,
        reached: "7",
        count: 5,
        groups: [],
        others: 0,
        newer: [],
        first: [],
        last: [],
        undelivered: 0,
        removedSinks: [],
      },
      leftOut: { copies: 0, quarantined: 0, erased: 0, unrouted: 0, gone: 0 },
    }
    let looks = 0
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: () => (looks++ < 2 ? Response.json(replay) : new Response(null, { status: 502 })),
    })
    const file = join(directory, "away.json")
    writeFileSync(file, JSON.stringify({ admin: { listen: `127.0.0.1:${server.port}` } }))
    const { code, stderr } = yield* Effect.promise(() => cli(["replay", "--all", "--routed", "-c", file]))
    yield* Effect.promise(() => server.stop(true))
    expect([code, stderr]).toEqual([69, expect.stringContaining("answers 502")])
    expect(stderr).toContain("It had queued 5 events again when it last answered: `--after 7` continues from there.")
  })

  it.live("shows what was sent and how to continue if Ctrl-C or `replay cancel` ends it", function* () {
    const sinks = config().sinks.map((sink) => ({ ...sink, backlog: { max: 4, whenFull: "refuse" as const } }))
    const { ask, journal } = yield* running({ config: { sinks } })
    for (let n = 1; n <= 9; n++) yield* journal.append(event(`evt_${n}`), [])
    const waits = Effect.gen(function* () {
      let [id, state] = ["", ""]
      while (state !== "waiting") {
        yield* Effect.sleep(5)
        const replays = JSON.parse((yield* ask("replay", "list", "--json")).stdout)
        id = replays[0]?.id ?? ""
        state = replays[0]?.state ?? ""
      }
      return id
    })
    const interrupted = yield* Effect.forkChild(ask("replay", "--all", "--to", "lake"), { startImmediately: true })
    yield* waits
    process.emit("SIGINT")
    const { code, stderr } = yield* Fiber.join(interrupted)
    expect([code, stderr]).toEqual([1, expect.stringContaining("cancelled at 0 %, 2 events queued again until then\n")])
    expect(stderr).toContain("to send the rest: `relay replay --to lake --after 2 --through 9 -c ")
    yield* journal.settle([settlement("lake", yield* journal.head)])
    const cancelled = yield* Effect.forkChild(ask("replay", "--to", "lake", "--after", "2"), {
      startImmediately: true,
    })
    const id = yield* waits
    expect((yield* ask("replay", "list")).stdout).toContain("waiting")
    expect((yield* ask("replay", "cancel", id)).stdout).toBe("cancelled: 2 events queued for lake again\n")
    const other = yield* Fiber.join(cancelled)
    expect(other.code).toBe(1)
    expect(other.stderr).toContain("--after 4 ")
    expect((yield* ask("replay", "cancel", "none")).code).toBe(1)
    const nowhere = yield* ask("replay", "--to", "lake", "--after", "nonsense")
    expect([nowhere.code, nowhere.stderr]).toEqual([
      1,
      expect.stringContaining("failed at 0 %, 0 events queued again until then: The journal has no place nonsense"),
    ])
  })
})
