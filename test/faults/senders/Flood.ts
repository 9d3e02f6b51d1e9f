/**
 * Two floods come to one webhook each, and deliveries of another webhook are accepted meanwhile, whether they can be
 * routed or not. Signed bodies that are not JSON fill what their webhook may have in quarantine, and `status` names it.
 * Deliveries to the webhook of another sender have wrong signatures: all are refused.
 */
import type { Line, Outcome } from "../Line.ts"
import { Subject } from "../relay/Subject.ts"
import { path, Receiver, secret, sign } from "../relay/Traffic.ts"

const sizes = { long: 100_000, normal: 20_000 }
const atOnce = 50
const bodyBytes = 1024
/** One turn in this many also sends the other webhook a body that isn't JSON. */
const few = 10

const webhook = (at: string) => ({ path: at, secrets: [{ name: "faults", value: secret }] })

export const floodLine: Line = {
  name: "flood",
  fault: "floods on one webhook: signed bodies that are no JSON, and wrong signatures",
  run: async (options): Promise<Outcome> => {
    const count = options.long ? sizes.long : sizes.normal
    const up = new Receiver()
    const sinks = { up: { type: "http", url: up.url } }
    const subject = await Subject.make(options, { sinks, journal: { maxSize: "64 MiB" } })
    subject.write("relay.config.json", {
      webhooks: {
        scheduling: webhook(path),
        flooded: webhook("/hooks/flooded"),
        code: { ...webhook("/hooks/code"), verify: "github" },
      },
    })
    const relay = await subject.start()
    const { sender } = subject
    const broken: Array<string> = []
    const send = async (at: string, body: string, headers: Readonly<Record<string, string>>): Promise<number> => {
      const all = { "content-type": "application/json", ...headers }
      const response = await fetch(`http://127.0.0.1:${subject.port}${at}`, { method: "POST", body, headers: all })
      await response.arrayBuffer()
      return response.status
    }
    const post = (at: string, body: string) => send(at, body, { "x-service-signature": sign(body) })
    const forge = (body: string) =>
      send("/hooks/code", JSON.stringify({ body }), {
        "x-hub-signature-256": `sha256=${"ab".repeat(32)}`,
        "x-github-event": "push",
        "x-github-delivery": body.trim(),
      })
    let unroutable = 0
    /** Sends a flood, and beside it events and a few unroutable bodies of the other webhook. */
    const flood = async (one: (body: string) => Promise<number>): Promise<ReadonlyMap<number, number>> => {
      const answers = new Map<number, number>()
      for (let sent = 0; sent < count; sent += atOnce) {
        const bodies = Array.from({ length: atOnce }, (_, index) => `${sent + index} `.padEnd(bodyBytes, "."))
        const event = sender.send()
        if ((sent / atOnce) % few === 0) {
          unroutable += 1
          const answer = await post(path, `no JSON ${unroutable}`)
          if (answer !== 202) broken.push(`a body that is no JSON, on the other webhook, was answered ${answer}`)
        }
        for (const answer of await Promise.all(bodies.map(one))) answers.set(answer, (answers.get(answer) ?? 0) + 1)
        await event
      }
      return answers
    }
    const answers = await flood((body) => post("/hooks/flooded", body))
    const forged = await flood(forge)
    for (const [status, many] of sender.refused) broken.push(`the other webhook was answered ${status} ${many} times`)
    if ((answers.get(503) ?? 0) === 0) broken.push("nothing of the flood was refused: the line proves nothing")
    if (forged.get(401) !== count) broken.push(`wrong signatures were answered ${JSON.stringify([...forged])}`)
    const { said } = await subject.run("status")
    if (!said.includes("The webhook flooded has")) broken.push("`status` does not name the flooded webhook")
    if (!(await subject.drained(60, ["up"]))) broken.push("the other webhook's events were not delivered")
    const lost = up.missing(sender.acknowledged).length
    await relay.kill("SIGKILL")
    await up.goAway()
    if (lost + broken.length === 0) subject.remove()
    const notes = [
      `${count} with wrong signatures were refused`,
      `${count} sent: ${[...answers].map(([status, many]) => `${many} answered ${status}`).join(", ")}`,
      `beside them ${sender.acknowledged.size} events and ${unroutable} bodies that are no JSON, on another webhook`,
    ]
    return { rounds: 1, acknowledged: sender.acknowledged.size, lost, duplicates: 0, broken, notes }
  },
}
