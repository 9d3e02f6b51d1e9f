import { expect, test } from "bun:test"
import { absence } from "../../src/admin/api/Absence.ts"

const day = () => "20 November"

test("an unknown event never came if the journal still has all events", () => {
  expect(absence("evt_1", { pruned: false, since: 1 }, day)).toBe(
    "evt_1 never came: the journal still has every event since 20 November",
  )
  expect(absence("evt_1", { pruned: false }, day)).toBe("evt_1 never came: the journal has no events yet")
})

test("an unknown event may have been deleted if older events were", () => {
  expect(absence("evt_1", { pruned: true, since: 1 }, day)).toBe(
    "evt_1 is not in the journal. It keeps events since 20 November; an older event may have come and been deleted (`journal.retention`, `journal.maxSize`)",
  )
  expect(absence("evt_1", { pruned: true }, day)).toContain("The journal keeps no events any more; an older event")
})
