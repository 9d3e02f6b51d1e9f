/** The output of commands on terminals of several widths, with names as long as real ones. */
import { describe, expect, test } from "bun:test"
import { join } from "node:path"
import { Effect } from "effect"
import { commands } from "../../../src/cli/Commands.ts"
import { lanesTable } from "../../../src/cli/reports/statusReport.ts"
import { folded, headedTable } from "../../../src/cli/support/output.ts"
import { lane, config as plainConfig } from "../../admin/fixture.ts"
import { event, settlement } from "../../journal/samples.ts"
import { it } from "../../lib/effect.ts"
import { configsIn } from "../configs.ts"
import { cli, type Finished, temporary } from "../harness.ts"
import { runningIn } from "../running.ts"

const directory = temporary()
const running = runningIn(directory)
const widths = [60, 80, 100]
const sinks = ["appointments-lake-production-eu-west-1", "oncall", "customer-success-notifications"]

/** Numbers differ from one call to the next: ages and ports. */
const wordsOf = (text: string): ReadonlyArray<string> => text.replaceAll(/\d+/g, "0").split(/\s+/).filter(Boolean)
const linesOf = ({ stdout, stderr }: Finished): ReadonlyArray<string> => `${stdout}\n${stderr}`.split("\n")
/** A word, or a command in backticks. */
const isOneWord = (line: string): boolean => /^(`[^`]*`\S*|\S+)$/.test(line.trim())

/** A line of the config that a mistake is in, with a mark below it. */
const isExcerpt = (line: string): boolean => /^ *\d* \| /.test(line)

const expectWithin = (width: number, whole: Finished, narrow: Finished): void => {
  expect(narrow.code).toBe(whole.code)
  expect(linesOf(narrow).filter((line) => line.length > width && !isOneWord(line) && !isExcerpt(line))).toEqual([])
  const words = new Set(linesOf(whole).flatMap(wordsOf))
  expect(linesOf(narrow).flatMap(wordsOf)).not.toEqual([])
  expect(
    linesOf(narrow)
      .flatMap(wordsOf)
      .filter((word) => !words.has(word)),
  ).toEqual([])
}

const statuses = sinks.map((name, at) =>
  lane(name, {
    type: "kafka",
    condition: at === 0 ? "misconfigured" : "running",
    message:
      "the broker kafka-bootstrap.production.internal.example.com:9093 answers SASL_AUTHENTICATION_FAILED: check sasl",
    backlog: 1_234_567,
    oldestAt: 1,
    retrying: 12_345,
    deadLetters: 76_543,
  }),
)

/** A relay that has events, a dead letter and a replay with long names. */
const filled = Effect.gen(function* () {
  const relay = yield* running({
    lanes: statuses,
    config: { sinks: sinks.flatMap((name) => plainConfig().sinks.map((sink) => ({ ...sink, name }))) },
  })
  const [lake = ""] = sinks
  yield* relay.journal.openLane(lake)
  const accountId = "acct_01HQ3V7Z8N9K2M4P6R8T0W2Y4A"
  for (const sequence of [1, 2, 3]) {
    const id = `evt_01HQ3V7Z8N9K2M4P6R8T0W2Y4${sequence}`
    yield* relay.journal.append(event(id, { type: "appointment.meeting.create_failed", accountId }), sinks)
  }
  const message =
    "the sink answered 422: the field data.object.attendees has more entries than the receiver's schema allows"
  const failed = [{ at: 5, reason: "DeliveryRejected", message, answer: message }]
  yield* relay.journal.settle([settlement(lake, 3, { deadLetter: [{ sequence: 2, at: 9, refunded: 0, failed }] })])
  yield* relay.ask("replay", "--to", lake, "--all")
  return relay
})

describe("on a terminal of 60, 80 and 100 columns", () => {
  it.live("no word is broken, and no line is longer that has a blank to break it at", function* () {
    const { file } = yield* filled
    const asked = [
      ["status"],
      ["lanes", "list"],
      ["events"],
      ["explain", "evt_01HQ3V7Z8N9K2M4P6R8T0W2Y42"],
      ["dlq", "list"],
      ["dlq", "replay", "--all", "--dry-run"],
      ["replay", "list"],
    ]
    for (const args of asked) {
      const at = (columns: number) => Effect.promise(() => cli([...args, "-c", file], { columns }))
      const whole = yield* at(Number.POSITIVE_INFINITY)
      expect([args, whole.stderr, whole.stdout.length > 100]).toEqual([args, "", true])
      for (const width of widths) expectWithin(width, whole, yield* at(width))
    }
  })

  test("commands that read the config break no word, with a mistake in it or without", async () => {
    const config = configsIn(directory)
    const path = join(directory, "an-archive-of-everything.ndjson")
    const long = { [sinks[0] ?? ""]: { type: "file", path }, [sinks[2] ?? ""]: { type: "console" } }
    const routes = [
      { name: "appointments-and-meetings-to-the-lake", match: ["appointment.**", "client.*"], to: sinks[0] },
    ]
    const valid = config({ sinks: long, routes })
    const wrong = config({
      sinks: { ...long, oncall: { type: "http", url: "not an address at all, as anybody sees" } },
    })
    for (const args of [
      ["validate", "-c", valid],
      ["validate", "-c", wrong],
      ["doctor", "-c", valid],
      ["explain", "appointment.meeting.create_failed", "-c", valid],
    ]) {
      const whole = await cli(args)
      for (const width of widths) expectWithin(width, whole, await cli(args, { columns: width }))
    }
  })

  test("the help of a command breaks no word", async () => {
    for (const command of [[], ...Object.keys(commands).map((name) => [name])]) {
      const whole = await cli([...command, "--help"])
      for (const columns of widths) expectWithin(columns, whole, await cli([...command, "--help"], { columns }))
    }
  })
})

describe("a table that is too wide", () => {
  const rows = [
    ["SINK", "TYPE", "BACKLOG", "WHY"],
    ["lake", "kafka", "12", "the broker answers that the topic is unknown"],
  ]

  test("loses its spare columns in their order, and no more than it must", () => {
    expect(headedTable(65, rows, ["TYPE", "BACKLOG"]).split("\n")[0]).toBe("  SINK  BACKLOG  WHY")
    expect(headedTable(55, rows, ["TYPE", "BACKLOG"]).split("\n")[0]).toBe("  SINK  WHY")
  })

  test("wraps its last column, and shows a block per row if that is not enough", () => {
    expect(headedTable(52, rows)).toBe(
      [
        "  SINK  TYPE   BACKLOG  WHY",
        "  lake  kafka  12       the broker answers that the",
        "                          topic is unknown",
      ].join("\n"),
    )
    expect(headedTable(40, rows)).toBe(
      [
        "  SINK     lake",
        "  TYPE     kafka",
        "  BACKLOG  12",
        "  WHY      the broker answers that the",
        "           topic is unknown",
      ].join("\n"),
    )
  })

  test("of lanes keeps the backlog and the dead letters at every width", () => {
    const lanes = statuses.map(({ lastFailure: _, ...one }) => ({ ...one, name: "lake" }))
    for (let width = 30; width <= 120; width++) {
      const shown = lanesTable(lanes, 300_000, width)
      expect(shown).toMatch(/BACKLOG/)
      expect(shown).toMatch(/DEAD LETTERS/)
      expect(shown).toContain("1234567")
      expect(shown).toContain("76543")
    }
  })
})

test("a command in backticks isn't wrapped, so that it can be pasted whole", () => {
  expect(folded("send it by `relay replay --sink lake --all` when it works", 40)).toBe(
    "send it by\n  `relay replay --sink lake --all` when\n  it works",
  )
})
