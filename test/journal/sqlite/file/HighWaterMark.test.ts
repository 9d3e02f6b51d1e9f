import { expect, test } from "bun:test"
import { renameSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { HighWaterMarkFile, read } from "../../../../src/journal/sqlite/file/HighWaterMark.ts"
import { temporaryDirectory } from "../../../lib/temporaryRoot.ts"

test("a mark that was replaced is a problem until it is back, and a deleted one is made again", () => {
  const path = join(temporaryDirectory("mark-"), "journal.db-mark")
  const written = { identity: "a".repeat(32), head: 7, damaged: false }
  const mark = new HighWaterMarkFile(path, written)
  const problem = () => {
    mark.keep()
    return mark.problem
  }
  expect(problem()).toBe("")
  renameSync(path, `${path}.away`)
  writeFileSync(path, "another")
  expect(problem()).toContain("was replaced while the relay was running on it")
  renameSync(`${path}.away`, path)
  expect(problem()).toBe("")
  rmSync(path)
  mark.reached(8)
  expect(problem()).toBe("")
  expect(read(path)).toEqual({ ...written, head: 8 })
  mark.close()
})
