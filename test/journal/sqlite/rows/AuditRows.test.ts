import { expect, test } from "bun:test"
import { DatabaseSync } from "node:sqlite"
import { kept } from "../../../../src/journal/AuditLog.ts"
import { AuditRows } from "../../../../src/journal/sqlite/rows/AuditRows.ts"
import { migrate } from "../../../../src/journal/sqlite/rows/Migrations.ts"
import { operation } from "../../../contract/journal/auditContract.ts"

test("forgets nothing by age without a wall clock that can be believed", () => {
  const db = new DatabaseSync(":memory:")
  migrate(db, ":memory:")
  let isTrusted = true
  const rows = new AuditRows(db, { start: 0, drift: () => 0, trusted: () => isTrusted })
  const { at } = operation()
  const names = () => rows.list({ limit: 9 }).map(({ on }) => on)
  rows.add(operation({ on: "first" }))
  isTrusted = false
  rows.add(operation({ on: "by a clock that is ahead", at: at + 2 * kept.age }))
  expect(names()).toEqual(["by a clock that is ahead", "first"])
  new AuditRows(db).add(operation({ on: "copied", at: at + 2 * kept.age }))
  expect(names().length).toBe(3)
  isTrusted = true
  rows.add(operation({ on: "later", at: at + kept.age + 1 }))
  expect(names()).toEqual(["later", "copied", "by a clock that is ahead"])
})

test("keeps the newest operations, and refused ones push out no others", () => {
  const db = new DatabaseSync(":memory:")
  migrate(db, ":memory:")
  const rows = new AuditRows(db)
  const fill = db.prepare(
    `WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < ?)
     INSERT INTO audit (at, who, "by", what, "on", result, note, relay)
     SELECT ?, 'ada', 'the page', 'reload', n, ?, '', '' FROM number`,
  )
  for (const result of ["done", "refused"]) fill.run(kept.records, operation().at, result)
  for (const result of ["failed", "refused"] as const) rows.add(operation({ on: "new", result }))
  const all = rows.list({ limit: 3 * kept.records })
  const ends = (isRefused: boolean) => {
    const some = all.filter(({ result }) => (result === "refused") === isRefused)
    return [some.length, some[0]?.on, some.at(-1)?.on]
  }
  expect([ends(true), ends(false)]).toEqual([
    [kept.records, "new", "2"],
    [kept.records, "new", "2"],
  ])
})
