import { describe, expect, test } from "bun:test"
import { Effect, Exit } from "effect"
import { type Failure, report } from "../../../src/cli/reports/exitReport.ts"
import { failed, io, unreachable, usage } from "../../../src/cli/support/CommandError.ts"
import { painted } from "../../../src/cli/support/output.ts"
import { ConfigError } from "../../../src/config/diagnostics/Diagnostic.ts"
import { JournalBroken, JournalError } from "../../../src/journal/Journal.ts"
import { ServeError } from "../../../src/runtime/Runtime.ts"

const of = (failure: Failure) => report(Exit.fail(failure), false)

describe("how a command ends", () => {
  test("has the exit code that scripts were promised", () => {
    expect(report(Exit.void, false)).toEqual({ code: 0, message: "" })
    expect(of(failed("no"))).toEqual({ code: 1, message: "relay: no" })
    expect(of(usage("what?")).code).toBe(64)
    expect(of(unreachable("gone")).code).toBe(69)
    expect(of(io("disk")).code).toBe(74)
    expect(of(new ServeError({ message: "127.0.0.1:80 is taken" })).code).toBe(74)
    expect(of(new JournalError({ reason: new JournalBroken({ message: "fsync" }) })).code).toBe(74)
    expect(of(new ConfigError({ file: "x", diagnostics: [] })).code).toBe(78)
  })

  test("is red on a terminal, a config's warnings yellow", () => {
    const at = { file: "x", line: 1, column: 1, key: "", message: "no" }
    const error = new ConfigError({
      file: "x",
      diagnostics: [
        { ...at, severity: "error" },
        { ...at, severity: "warning" },
      ],
    })
    expect(report(Exit.fail(failed("no")), false, painted(true)).message).toBe("\u001b[31mrelay: no\u001b[0m")
    expect(report(Exit.fail(error), false, painted(true)).message).toStartWith(
      "x:1:1: \u001b[31merror\u001b[0m: no\n\nx:1:1: \u001b[33mwarning\u001b[0m: no",
    )
  })

  test("adds no message if the command has already printed everything", () => {
    expect(of(failed())).toEqual({ code: 1, message: "" })
  })

  test("shows of a bug its kind and no more: its message may hold anything", () => {
    const exit = Effect.runSyncExit(
      Effect.sync((): void => {
        throw new TypeError("canary-0451")
      }),
    )
    const { code, message } = report(exit, false)
    expect(code).toBe(70)
    expect(message).toContain("internal error (TypeError)")
    expect(message).toContain("RELAY_DEBUG=1")
    expect(message).not.toContain("canary-0451")
    expect(message.split("\n")).toHaveLength(1)
  })

  test("shows the cause of a bug to who asks for it", () => {
    expect(report(Exit.die(new TypeError("canary-0451")), true).message).toContain("canary-0451")
  })
})
