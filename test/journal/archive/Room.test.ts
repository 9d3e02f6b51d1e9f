import { expect, it } from "bun:test"
import { prunesTo, Room } from "../../../src/journal/archive/Room.ts"

it("a mark of filling is cleared only five percent below it", () => {
  const room = new Room(100, prunesTo.file)
  const marks = [49, 50, 49, 51, 46, 44, 49, 50, 81, 79, 74, 96, 91, 89].map((percent) => room.filling(percent))
  expect(marks).toEqual([0, 50, 50, 50, 50, 0, 0, 50, 80, 80, 50, 95, 95, 80])
})

it("a full file is pruned until there is room for a burst, and a stream of a fleet by no more than is too much", () => {
  const excess = (room: Room) => [89, 91, 85, 81, 80, 85, 91].map((percent) => Math.round(room.excess(percent)))
  expect(excess(new Room(100, prunesTo.file))).toEqual([0, 11, 5, 1, 0, 0, 11])
  expect(excess(new Room(100, prunesTo.fleet))).toEqual([0, 1, 0, 0, 0, 0, 1])
})
