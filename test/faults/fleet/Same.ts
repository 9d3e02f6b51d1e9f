/**
 * All relays receive the same delivery concurrently. It is relayed once, answered 202 by each, and counted once by
 * each.
 */
import type { Line } from "../Line.ts"
import { eventually } from "../relay/Subject.ts"
import { names, over } from "./Relays.ts"

const deliveries = { normal: 800, long: 20_000 }
const atOnce = 16

export const same: Line = {
  name: "fleet-same",
  fault: "the same delivery to all relays at once",
  run: over(async (relays, options) => {
    const broken: Array<string> = []
    const count = options.long ? deliveries.long : deliveries.normal
    let refused = 0
    for (let number = 0; number < count; number += atOnce) {
      const sent = Array.from({ length: atOnce }, (_, index) =>
        names.map((name) => relays.subject(name).sender.send(number + index)),
      )
      refused += (await Promise.all(sent.flat())).filter((status) => status !== 202).length
    }
    if (refused > 0) broken.push(`${refused} were not answered 202`)
    if (!(await relays.arrived(30))) broken.push("not all came within half a minute")
    // A second delivery would come by now.
    await Bun.sleep(500)
    // A relay hears of the others' streams each second.
    for (const name of names) {
      let said = 0
      const isSaid = async () => {
        said = (await relays.subject(name).status()).journal.head
        return said === count
      }
      if (!(await eventually(isSaid, 5))) broken.push(`${name} counts ${said} events, and there are ${count}`)
    }
    return { rounds: count, duplicates: relays.repeated, bound: 0, broken }
  }),
}
