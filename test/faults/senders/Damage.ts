/** Good deliveries with random damage: bytes changed, taken out and put in, lines doubled, swapped and cut. */
import { envelope } from "../../e2e/http/fixture.ts"
import { seeded } from "../../lib/seeded.ts"
import * as Case from "./Case.ts"

const damage = Case.kind("damage")

const pieces = ["\r\n", "\n", "\r", "\0", " ", "\t", ":", ",", ";", "0", "ff", "chunked", "Content-Length: 0\r\n", "é"]

const hurt = (bytes: Uint8Array, random: () => number): Uint8Array => {
  const at = Math.floor(random() * bytes.length)
  const before = bytes.subarray(0, at)
  const after = bytes.subarray(at)
  switch (Math.floor(random() * 6)) {
    case 0:
      return Case.concat(before, Uint8Array.of(Math.floor(random() * 256)), after.subarray(1))
    case 1:
      return Case.concat(before, after.subarray(1 + Math.floor(random() * 4)))
    case 2:
      return Case.concat(before, pieces[Math.floor(random() * pieces.length)] ?? "", after)
    case 3:
      return Case.concat(before, bytes.subarray(Math.floor(random() * at), at), after)
    case 4: {
      const lines = Buffer.from(bytes).toString("latin1").split("\r\n")
      const [one, other] = [Math.floor(random() * lines.length), Math.floor(random() * lines.length)]
      return Case.concat(
        lines.map((line, index) => lines[index === one ? other : index === other ? one : index] ?? line).join("\r\n"),
      )
    }
    default:
      return before
  }
}

/** Whatever became of it, only the body as it was signed may be kept. */
export const damaged = (seed: number, count: number): ReadonlyArray<Case.Case> => {
  const random = seeded(seed)
  return Array.from({ length: count }, (_, index) => {
    const body = envelope()
    const chunked = random() < 0.3
    let bytes = chunked
      ? Case.delivery(body, { framing: [Case.host, Case.chunked], payload: Case.inChunk(body) })
      : Case.delivery(body)
    for (let times = 1 + Math.floor(random() * 3); times > 0; times--) bytes = hurt(bytes, random)
    return damage(String(index), bytes, [body], Case.nothing, { mayBeCut: true })
  })
}
