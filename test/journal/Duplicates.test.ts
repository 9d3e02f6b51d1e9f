import { describe, expect, test } from "bun:test"
import { Duplicates } from "../../src/journal/Duplicates.ts"
import { seeded } from "../lib/seeded.ts"
import { event } from "./samples.ts"

const hour = 3_600_000

/** Offers a delivery as the journal does. */
const offer = (duplicates: Duplicates, id: string, body: number, receivedAt: number) => {
  const found = duplicates.find(event(id, { receivedAt }), body)
  if (found === "new") duplicates.add(body, receivedAt)
  return found
}

describe("Duplicates", () => {
  test("agree with a plain list, whatever comes, commits and fails (200 seeds)", () => {
    for (let seed = 1; seed <= 200; seed++) {
      const random = seeded(seed)
      const duplicates = new Duplicates({ count: 1024, age: hour })
      let kept: Array<{ key: string; at: number; pending: boolean }> = []
      let now = 10 * hour
      for (let step = 0; step < 300; step++) {
        now += Math.floor(random() * 60) * 1000
        const id = `evt_${Math.floor(random() * 80)}`
        const body = Math.floor(random() * 2)
        const key = `${id}/${body}`
        const known = kept.findLast((one) => one.key === key && now - one.at <= hour)
        const expected = known === undefined ? "new" : known.pending ? "pending" : "seen"
        expect(offer(duplicates, id, body, now)).toBe(expected)
        if (known === undefined) kept.push({ key, at: now, pending: true })
        const fate = random()
        if (fate < 0.2) {
          duplicates.commit()
          kept = kept.map((one) => ({ ...one, pending: false }))
        } else if (fate < 0.3) {
          duplicates.rollback()
          kept = kept.filter((one) => !one.pending)
        }
      }
    }
  })

  test("remember exactly the newest of their count", () => {
    const duplicates = new Duplicates({ count: 2_000, age: hour })
    for (let index = 0; index < 7_000; index++) {
      offer(duplicates, `evt_${index}`, 1, hour)
      duplicates.commit()
    }
    expect(duplicates.size).toBe(2_000)
    for (let index = 5_000; index < 7_000; index++) expect(duplicates.find(event(`evt_${index}`), 1)).toBe("seen")
    for (let index = 4_000; index < 5_000; index++) expect(duplicates.find(event(`evt_${index}`), 1)).toBe("new")
  })

  test("forget what is older than their age", () => {
    const duplicates = new Duplicates({ count: 2_000, age: hour })
    offer(duplicates, "a", 1, hour)
    duplicates.commit()
    expect(duplicates.find(event("a", { receivedAt: 2 * hour }), 1)).toBe("seen")
    expect(duplicates.find(event("a", { receivedAt: 2 * hour + 1_000 }), 1)).toBe("new")
    for (let index = 0; index < 10; index++) {
      offer(duplicates, `late_${index}`, 1, 3 * hour)
      duplicates.commit()
    }
    expect(duplicates.size).toBe(10)
  })

  test("hash a hundred thousand similar ids without a collision", () => {
    const duplicates = new Duplicates({ count: 1024, age: hour })
    const keys = new Set<string>()
    for (let index = 0; index < 100_000; index++) {
      duplicates.find(event(`evt_${index.toString(16).padStart(8, "0")}`), 1)
      keys.add(`${duplicates.keyHi}:${duplicates.keyLo}`)
    }
    expect(keys.size).toBe(100_000)
  })
})
