/**
 * Sinks of a relay on a file are renamed by reloads under load, and every second time the relay is killed meanwhile.
 * Every acknowledged event arrives, and events of a key arrive in order.
 */
import { seeded } from "../../lib/seeded.ts"
import type { Line } from "../Line.ts"
import { eventually, Subject } from "./Subject.ts"
import { Receiver, Sender } from "./Traffic.ts"

const rounds = { normal: 4, long: 20 }
/** Number of names of a sink. They are used in turn. */
const cycle = 3

/** The first number of the events that are sent one after the other. */
const inOrder = 10_000_000
/** The distance of their numbers: they are of one account, so of one key. */
const step = 50

const named = (sink: string, round: number): string => `${sink}${round % cycle}`

/** The sinks of a round. Each has another name than in the round before. */
const sinksOf = (round: number, [plain, ordered]: readonly [Receiver, Receiver]) => {
  const sinks = { plain: { type: "http", url: plain.url }, ordered: { type: "http", url: ordered.url, order: "key" } }
  return Object.fromEntries(
    Object.entries(sinks).map(([sink, config]) => [
      named(sink, round),
      { ...config, ...(round > 0 && { renamedFrom: named(sink, round - 1) }) },
    ]),
  )
}

/** Counts events that arrive after a later event of their key. Some attempts fail, so newer events have to wait. */
const watch = (receiver: Receiver, random: () => number) => {
  const found = { disorder: 0 }
  let newest = 0
  receiver.answer = () => (random() < 0.02 ? new Response(null, { status: 500 }) : undefined)
  receiver.onArrival = ({ number }) => {
    if (number < inOrder) return
    if (number < newest && receiver.times.get(number) === 1) found.disorder += 1
    newest = Math.max(newest, number)
  }
  return found
}

/** Sends events of one key, each when the one before it was accepted. Returns their numbers. */
const sendInOrder = async (subject: Subject, until: () => boolean): Promise<ReadonlyArray<number>> => {
  const sender = new Sender(`127.0.0.1:${subject.port}`)
  for (let next = inOrder; !until(); ) {
    if ((await sender.send(next)) === 202) next += step
    await Bun.sleep(5)
  }
  return [...sender.acknowledged]
}

export const rename: Line = {
  name: "rename",
  fault: "sinks renamed by reloads under load, killed meanwhile",
  run: async (options) => {
    const random = seeded(options.seed)
    const receivers = [new Receiver(), new Receiver()] as const
    const [plain, ordered] = receivers
    const order = watch(ordered, seeded(options.seed + 1))
    const subject = await Subject.make(options, { sinks: sinksOf(0, receivers) })
    const broken: Array<string> = []
    let relay = await subject.start()
    let isOver = false
    const loading = Promise.all([subject.sender.load(() => isOver, 8), sendInOrder(subject, () => isOver)])
    const count = options.long ? rounds.long : rounds.normal
    for (let round = 1; round <= count; round++) {
      await Bun.sleep(300 + random() * 500)
      const sinks = sinksOf(round, receivers)
      subject.write("relay.config.json", {
        sinks,
        routes: [{ name: "everything", match: "**", to: Object.keys(sinks) }],
      })
      const reloading = subject.reload().catch(() => undefined)
      if (round % 2 === 0) {
        await Bun.sleep(random() * 60)
        await relay.kill("SIGKILL")
        await reloading
        relay = await subject.start()
      } else {
        const [status, said] = (await reloading) ?? []
        if (status !== 200) broken.push(`round ${round}: the reload answered ${status}: ${said}`)
      }
    }
    isOver = true
    const [, sentInOrder] = await loading
    const accepted = [...subject.sender.acknowledged, ...sentInOrder]
    const missing = () => [...new Set(receivers.flatMap((receiver) => receiver.missing(accepted)))]
    await eventually(() => missing().length === 0, 60, 100)
    const lost = missing().length
    const { health, message } = (await subject.status()).journal
    if (health !== "ok") broken.push(`it reports the journal as ${health}: ${message}`)
    if (order.disorder > 0) broken.push(`${order.disorder} came out of the order of their key`)
    const altered = plain.altered + ordered.altered
    if (altered > 0) broken.push(`${altered} deliveries were altered`)
    await relay.kill()
    await Promise.all(receivers.map((receiver) => receiver.goAway()))
    if (lost + broken.length === 0) subject.remove()
    const repeated = receivers.flatMap(({ times }) => [...times.values()]).filter((times) => times > 1).length
    return { rounds: count, acknowledged: accepted.length, lost, duplicates: repeated, broken }
  },
}
