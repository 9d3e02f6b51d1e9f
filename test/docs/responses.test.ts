/** The page on responses agrees with the code: each answer has a row with its reasons and the wait that it requests. */
import { describe, expect, test } from "bun:test"
import { maxInFlight } from "../../src/config/Config.ts"
import { type Refusal, reasons, refusals } from "../../src/ingest/Answers.ts"
import { maxArriving } from "../../src/ingest/Bodies.ts"
import { closing } from "../../src/runtime/Problem.ts"
import { maxDiscarded } from "../../src/runtime/RequestGuard.ts"
import { readPage } from "../lib/docs.ts"

const page = readPage("docs/reference/responses.md")
const rows = [...page.matchAll(/^\| (\d{3}) \| (.*?) \| (.*?) \| .*? \| (.*) \|$/gm)].map(
  ([, status, title, named = "", advice = ""]) => ({
    status: Number(status),
    title: title ?? "",
    reasons: [...named.matchAll(/`(\w+)`/g)].map(([, reason = ""]) => reason),
    retryAfter: /after (\d+) seconds? \(`Retry-After`\)/.exec(advice)?.[1],
  }),
)

const all: Readonly<Record<string, Refusal>> = refusals
const answerOf = (reason: string) => all[reason]?.answer

describe("the page on responses", () => {
  test("has each reason in one row, with its status, title and Retry-After", () => {
    const said = rows.flatMap(({ reasons, ...row }) => reasons.map((reason) => [reason, row] as const))
    expect(said.map(([reason]) => reason).toSorted()).toEqual([...reasons].toSorted())
    for (const [reason, row] of said) {
      const answer = answerOf(reason)
      const wanted = { status: answer?.status, title: answer?.title, retryAfter: answer?.headers?.["retry-after"] }
      expect<unknown>({ reason, ...row }).toEqual({ reason, ...wanted })
    }
  })

  test("has one row for accepted deliveries, and no two rows that look the same to a sender", () => {
    expect(rows.filter(({ reasons }) => reasons.length === 0).map(({ status }) => status)).toEqual([202])
    const seen = rows.map(({ status, title }) => `${status} ${title}`)
    expect(new Set(seen).size).toBe(seen.length)
  })

  test("states the limits of bodies as in the code", () => {
    const ingest = readPage("src/ingest/Ingest.ts")
    const [, body] = /const bodyDeadline = Duration.seconds\((\d+)\)/.exec(ingest) ?? []
    const [, firstByte] = /const firstByteDeadline = Duration.seconds\((\d+)\)/.exec(ingest) ?? []
    expect(page).toContain(`more than ${body} seconds, or its first byte more than ${firstByte} |`)
    const [arriving, all] = [maxArriving / 1024 / 1024, maxInFlight / 1024 / 1024]
    expect(page).toContain(`More than ${arriving} MiB of bodies arrive at the same time, or ${all} MiB with those`)
    expect(page).toContain(`at most ${maxDiscarded / 1024 / 1024} MiB and 5 seconds of each body`)
  })

  test("names the answers that close the connection", () => {
    const sentence = /^After (.*?), the relay closes the\s+connection/ms.exec(page)?.[1] ?? ""
    const named = rows.filter(({ status, reasons }) =>
      status === 503 ? reasons.some((reason) => sentence.includes(`\`${reason}\``)) : sentence.includes(String(status)),
    )
    const closed = rows.filter(({ reasons }) =>
      reasons.some((reason) => answerOf(reason)?.headers?.connection === closing.connection),
    )
    expect(named).toEqual(closed)
  })
})
