/** The table of conditions is complete. `bun run conditions` plays it. */
import { expect, test } from "bun:test"
import { sinkTypes } from "../../src/sinks/SinkTypes.ts"
import { type Cell, isStatement, loadColumns, rowNames } from "./Column.ts"

const columns = await loadColumns()
const cells = [...columns.values()].flatMap((column) => Object.values(column.cells))

test("each type of sink has a column of conditions", () => {
  const types = new Set([...columns.values()].map(({ sink }) => sink as string))
  expect(Object.keys(sinkTypes).filter((type) => !types.has(type))).toEqual([])
})

test("each column has a cell for each condition", () => {
  const missing = [...columns].flatMap(([name, column]) =>
    rowNames.filter((row) => column.cells[row] === undefined).map((row) => `${name}.${row}`),
  )
  expect(missing).toEqual([])
})

test("each cell has a scenario, or a statement with a link", () => {
  expect(cells.filter((cell) => (isStatement(cell) ? !cell.source.startsWith("https://") : cell.length === 0))).toEqual(
    [],
  )
})

test("at most a third of the cells say that a condition can't occur", () => {
  expect(cells.filter(isStatement).length).toBeLessThanOrEqual(cells.length / 3)
})

test("each column has scenarios for the short form", () => {
  const isQuick = (cell: Cell) => !isStatement(cell) && cell.some(({ isQuick }) => isQuick)
  const without = [...columns].filter(([, { cells }]) => !Object.values(cells).some(isQuick))
  expect(without.map(([name]) => name)).toEqual([])
})
