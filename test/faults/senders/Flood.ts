/**
 * A flood of signed bodies that are no JSON comes to one webhook. It fills what
 * that webhook may have in quarantine: deliveries of another webhook are
 * accepted, whether they can be routed or not, and `status` names the flooded one.
 */
import type { Line, Outcome } from "../Line.ts"
import { Subject } from "../relay/Subject.ts"
import { path, Receiver, secret, sign } from "../relay/Traffic.ts"

const sizes = { long: 100_000, normal: 20_000 }
const atOnce = 50
const bodyBytes = 1024
/** One turn in so many the other webhook gets a body that is no JSON, too. */
const few = 10

const webhook = (at: string) => ({ path: at, secrets: [{ name: "faults", value: secret }] })

export const floodLine: Line = {
  name: "flood",
  fault: "a flood of signed bodies that are no JSON, on one webhook",
  run: async (options): Promise<Outcome> => {
    const count = options.long ? sizes.long : sizes.normal
    const up = new Receiver()
    const sinks = { up: { type: "http", url: up.url } }
    const subject = await Subject.make(options, { sinks, journal: { maxSize: "64 MiB" } })
    subject.write("relay.config.json", { webhooks: { scheduling: webhook(path), flooded: webhook("/hooks/flooded") } })
    const relay = await subject.start()
    const { sender } = subject
    const broken: Array<string> = []
    const post = async (at: string, body: string): Promise<number> => {
      const headers = { "content-type": "application/json", "x-service-signature": sign(body) }
      const response = await fetch(`http://127.0.0.1:${subject.port}${at}`, { method: "POST", body, headers })
      await response.arrayBuffer()
      return response.status
    }
    const answers = new Map<number, number>()
    let unroutable = 0
    for (let sent = 0; sent < count; sent += atOnce) {
      const flood = Array.from({ length: atOnce }, (_, index) => `${sent + index} `.padEnd(bodyBytes, "."))
      const others = [sender.send()]
      if ((sent / atOnce) % few === 0) {
        unroutable += 1
        const answer = await post(path, `no JSON ${sent}`)
        if (answer !== 202) broken.push(`a body that is no JSON, on the other webhook, was answered ${answer}`)
      }
      for (const answer of await Promise.all(flood.map((body) => post("/hooks/flooded", body)))) {
        answers.set(answer, (answers.get(answer) ?? 0) + 1)
      }
      await Promise.all(others)
    }
    for (const [status, many] of sender.refused) broken.push(`the other webhook was answered ${status} ${many} times`)
    if ((answers.get(503) ?? 0) === 0) broken.push("nothing of the flood was refused: the line proves nothing")
    const { said } = await subject.run("status")
    if (!said.includes("The webhook flooded has")) broken.push("`status` does not name the flooded webhook")
    if (!(await subject.drained(60, ["up"]))) broken.push("the other webhook's events were not delivered")
    const lost = up.missing(sender.acknowledged).length
    await relay.kill("SIGKILL")
    await up.goAway()
    if (lost + broken.length === 0) subject.remove()
    const notes = [
      `${count} sent: ${[...answers].map(([status, many]) => `${many} answered ${status}`).join(", ")}`,
      `beside them ${sender.acknowledged.size} events and ${unroutable} bodies that are no JSON, on another webhook`,
    ]
    return { rounds: 1, acknowledged: sender.acknowledged.size, lost, duplicates: 0, broken, notes }
  },
}
