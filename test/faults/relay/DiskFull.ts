/**
 * In the middle of deliveries, another program takes all the space left on a disk of 64 MiB. The sender gets a 503, and
 * the sinks drain nevertheless. When that space is given back, the relay continues until it has filled the disk itself.
 * It refuses the sender while there is still space, and then the other program takes that as well.
 */
import type { Line } from "../Line.ts"
import { smallDisk } from "./SmallDisk.ts"
import { eventually, Subject, skipped } from "./Subject.ts"
import { reasonToSkip } from "./shim/Shim.ts"
import { Ends } from "./Traffic.ts"

const minFree = 16
const mebibyte = 1024 * 1024
/**
 * Bytes that must be free when the first sender is refused: half of `minFree`, since the relay checks only now and
 * then.
 */
const leastLeft = (minFree / 2) * mebibyte
const rounds = { long: 10, normal: 1 }
/** Few enough events that the write-ahead log has not restarted, so none of its space can be used again. */
const few = 3_000

export const diskFull: Line = {
  name: "disk-full",
  fault: "a 64 MiB disk fills up",
  run: async (options) => {
    const reason = reasonToSkip()
    if (reason !== undefined) return skipped(reason)
    const broken: Array<string> = []
    const notes: Array<string> = []
    let [acknowledged, lost] = [0, 0]
    const count = options.long ? rounds.long : rounds.normal
    for (let round = 0; round < count; round++) {
      const ends = new Ends()
      const journal = { minFree: `${minFree} MiB` }
      const subject = await Subject.make(options, { sinks: ends.sinks, journal })
      const { sender } = subject
      const disk = smallDisk(subject)
      ends.shut()
      const relay = await disk.start()
      let over = false
      const loading = sender.load(() => over)
      const accepts = () => eventually(async () => (await sender.send()) === 202, 15, 100)
      await eventually(() => sender.acknowledged.size > few, 30)
      disk.fill()
      if (!(await eventually(() => sender.refused.has(503), 10))) broken.push("it accepts what there is no room for")
      ends.open()
      if (!(await subject.drained(30))) broken.push("the sinks did not drain while another program had the disk")
      ends.shut()
      disk.giveBack()
      if (!(await accepts())) broken.push("it accepts nothing after another program had the disk")
      sender.refused.clear()
      const free = async () => (await subject.status()).journal.freeDiskBytes ?? 0
      if (!(await eventually(() => sender.refused.has(503), 60))) broken.push("it accepts more than the disk holds")
      const left = await free()
      if (left < leastLeft) broken.push(`${left} bytes were left when the first was refused`)
      disk.fill()
      await Bun.sleep(500)
      over = true
      await loading
      ends.open()
      const began = performance.now()
      if (!(await subject.drained(60))) broken.push("the sinks did not drain while the disk was full")
      const took = ((performance.now() - began) / 1_000).toFixed(1)
      disk.giveBack()
      if (!(await accepts())) broken.push("it accepts nothing although there is room again")
      await sender.burst(200)
      if (!(await subject.drained())) broken.push("the backlog did not drain in the end")
      if (sender.unspecific > 0) broken.push(`${sender.unspecific} answers of 503 had no Retry-After`)
      await relay.kill()
      notes.push(
        `on ${disk.what}: ${sender.acknowledged.size} kept; first refused with ${(left / mebibyte).toFixed(0)} MiB left; drained in ${took} s with none left`,
      )
      acknowledged += sender.acknowledged.size
      lost += ends.lost(sender).length
      broken.push(...ends.altered)
      await ends.close()
      if (lost + broken.length === 0) subject.remove()
    }
    return { rounds: count, acknowledged, lost, duplicates: 0, broken, notes }
  },
}
