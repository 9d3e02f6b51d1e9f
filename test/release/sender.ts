/**
 * Delivers to the address that it is given until its standard input ends, as
 * fast as it is answered; prints the numbers of the events that were acknowledged.
 */
import { Sender } from "../faults/relay/Traffic.ts"

const sender = new Sender(process.argv[2] ?? "")
let over = false
void Bun.stdin.text().then(() => {
  over = true
})
await sender.load(() => over, 8)
process.stdout.write(JSON.stringify([...sender.acknowledged]))
