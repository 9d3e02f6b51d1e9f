import { describe, expect, test } from "bun:test"
import { Duplicates } from "../../../../src/journal/sqlite/commit/Duplicates.ts"
import { seeded } from "../../../lib/seeded.ts"
import { tries } from "../../../lib/tries.ts"
import { event } from "../../samples.ts"

const hour = 3_600_000

/** Offers a delivery as the journal does. */
const offer = (duplicates: Duplicates, id: string, body: number, receivedAt: number) => {
  const found = duplicates.find(event(id, { receivedAt }), body)
  if (found === "new") duplicates.add(body, receivedAt)
  return found
}

describe("Duplicates", () => {
  test(`match a plain list for any arrivals, commits and failures (${tries(200)} seeds)`, () => {
    for (let seed = 1; seed <= tries(200); seed++) {
      const random = seeded(seed)
      const bodies = seed % 2 === 0 ? 2 : 50
      const duplicates = new Duplicates({ count: 1024, age: hour })
      let kept: Array<{ key: string; at: number; pending: boolean }> = []
      let now = 10 * hour
      for (let step = 0; step < 300; step++) {
        now += Math.floor(random() * 60) * 1000
        const id = `evt_${Math.floor(random() * 80)}`
        const body = Math.floor(random() * bodies)
        const key = `${id}/${body}`
        const known = kept.findLast((one) => one.key === key && now - one.at <= hour)
        const expected = known === undefined ? "new" : known.pending ? "pending" : "seen"
        const others = kept.some((one) => one.key.startsWith(`${id}/`) && now - one.at <= hour)
        expect(offer(duplicates, id, body, now)).toBe(expected)
        expect(duplicates.isAltered).toBe(known === undefined && others)
        if (known === undefined) kept.push({ key, at: now, pending: true })
        const choice = random()
        if (choice < 0.2) {
          duplicates.commit()
          kept = kept.map((one) => ({ ...one, pending: false }))
        } else if (choice < 0.3) {
          duplicates.rollback()
          kept = kept.filter((one) => !one.pending)
        }
      }
    }
  })

  test("remember all when they grow by less than double, after the first have expired", () => {
    const duplicates = new Duplicates({ count: 1_500, age: hour })
    const add = (from: number, to: number, at: number) => {
      for (let index = from; index < to; index++) {
        offer(duplicates, `evt_${index}`, 1, at)
        duplicates.commit()
      }
    }
    add(0, 500, hour)
    add(500, 1_900, 3 * hour)
    const found = (index: number) => duplicates.find(event(`evt_${index}`, { receivedAt: 3 * hour }), 1)
    for (let index = 0; index < 1_900; index++)
      expect([index, found(index)]).toEqual([index, index < 500 ? "new" : "seen"])
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

  test(`match a plain list of their count if few ids arrive with many bodies (${tries(20)} seeds)`, () => {
    for (let seed = 1; seed <= tries(20); seed++) {
      const random = seeded(seed)
      const duplicates = new Duplicates({ count: 1024, age: hour })
      let kept: Array<{ id: string; body: number }> = []
      for (let step = 0; step < 4_000; step++) {
        const id = `evt_${Math.floor(random() ** 3 * 40)}`
        const body = Math.floor(random() * 200)
        const known = kept.some((one) => one.id === id && one.body === body)
        const altered = !known && kept.some((one) => one.id === id)
        const found = duplicates.find(event(id, { receivedAt: hour }), body)
        expect([found !== "new", duplicates.isAltered]).toEqual([known, altered])
        if (known) continue
        duplicates.add(body, hour)
        kept = [...kept, { id, body }].slice(-1024)
        if (random() < 0.05) {
          duplicates.rollback()
          kept.pop()
        }
        duplicates.commit()
      }
    }
  })

  test("forget exactly the lost deliveries", () => {
    const duplicates = new Duplicates({ count: 1024, age: hour })
    const keys = [1, 2, 3].map((body) => {
      offer(duplicates, "evt_1", body, hour)
      duplicates.commit()
      return { hi: duplicates.keyHi, lo: duplicates.keyLo, bodyCrc: body }
    })
    const seen = () => [1, 2, 3].map((body) => duplicates.find(event("evt_1", { receivedAt: hour }), body))
    const forget = (index: number) => {
      const key = keys[index]
      if (key !== undefined) duplicates.forget(key)
    }
    forget(0)
    expect(seen()).toEqual(["new", "seen", "seen"])
    forget(2)
    forget(2)
    expect(seen()).toEqual(["new", "seen", "new"])
    offer(duplicates, "evt_1", 3, hour)
    expect(seen()).toEqual(["new", "seen", "pending"])
    duplicates.rollback()
    expect(seen()).toEqual(["new", "seen", "new"])
  })

  test("take memory as they fill", () => {
    const empty = process.memoryUsage().external
    const windows = Array.from({ length: 100 }, () => new Duplicates({ count: 1_000_000, age: hour }))
    expect(process.memoryUsage().external - empty).toBeLessThan(10_000_000)
    expect(windows).toHaveLength(100)
  })

  test("keep unroutable deliveries apart: one sent again when it can be routed is new", () => {
    const duplicates = new Duplicates({ count: 1024, age: hour })
    const quarantined = event("evt_1", { problem: "the event type is not in the catalogue" })
    expect(duplicates.find(quarantined, 1)).toBe("new")
    duplicates.add(1, hour)
    duplicates.commit()
    expect(duplicates.find(quarantined, 1)).toBe("seen")
    expect(duplicates.find(event("evt_1"), 1)).toBe("new")
    expect(duplicates.isAltered).toBe(false)
  })

  test("forget deliveries older than their age", () => {
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
