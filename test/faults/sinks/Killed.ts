/**
 * A sink's service and the relay are killed in turn under load. Every acknowledged event arrives, and no kill repeats
 * more than the relay's own bound.
 */
import { isEnough, type Line, type Options, type Outcome } from "../Line.ts"
import { Subject } from "../relay/Subject.ts"
import { numberOf } from "../relay/Traffic.ts"

const rounds = { long: 50, normal: 3 }
const rate = 200
const pause = 300

export interface Service {
  /** The sink's config. */
  readonly config: object
  readonly kill: () => Promise<void>
  readonly start: () => Promise<void>
  /** Freezes it (SIGSTOP), and lets it continue. */
  readonly freeze?: () => void
  readonly thaw?: () => void
  /** The numbers of the events that it has, in its order, and -1 for any other content. */
  readonly arrived: () => ReadonlyArray<number> | Promise<ReadonlyArray<number>>
  readonly remove: () => Promise<void>
}

export const killed = async (service: Service, options: Options): Promise<Outcome> => {
  const subject = await Subject.make(options, { sinks: { killed: service.config } })
  const { sender } = subject
  const broken: Array<string> = []
  let relay = await subject.start()
  await service.start()
  let [worst, bound, seen] = [0, 0, 0]
  const count = options.long ? rounds.long : rounds.normal
  for (let round = 1; round <= count && !isEnough(options, broken.length); round++) {
    let over = false
    const sending = sender.load(() => over, 4)
    await Bun.sleep(pause)
    bound = Math.max(bound, (await subject.metric("relay_duplicate_bound_events")).get("killed") ?? 0)
    await service.kill()
    await Bun.sleep(pause)
    await service.start()
    await Bun.sleep(pause)
    await relay.kill("SIGKILL")
    over = true
    await sending
    relay = await subject.start()
    await sender.paced(rate, 1)
    if (!(await subject.drained())) broken.push(`round ${round}: the backlog did not drain within a minute`)
    const all = await service.arrived()
    const before = new Set(all.slice(0, seen))
    const repeated = all.slice(seen).filter((number) => before.has(number) || !before.add(number)).length
    // Two kills a round.
    worst = Math.max(worst, Math.ceil(repeated / 2))
    seen = all.length
  }
  if (service.freeze !== undefined) {
    service.freeze()
    await sender.paced(rate, 3)
    service.thaw?.()
    if (!(await subject.drained())) broken.push("frozen: the backlog did not drain within a minute")
  }
  const all = new Set(await service.arrived())
  const lost = [...sender.acknowledged].filter((number) => !all.has(number)).length
  if (all.has(-1)) broken.push("something arrived that nobody sent")
  await relay.kill("SIGKILL")
  await service.remove()
  if (lost + broken.length === 0) subject.remove()
  return { rounds: count, acknowledged: sender.acknowledged.size, lost, duplicates: worst, bound, broken }
}

export const mailServerKilled: Line = {
  name: "mail-server-killed",
  fault: "an SMTP server and the relay are killed in turn under load",
  run: async (options) => {
    const { makeMailbox } = await import("../../parts/Mailbox.ts")
    const box = await makeMailbox()
    const { kill, start, remove, server } = box
    const mail = { type: "email", server, security: "none", from: "relay@example.com", to: ["oncall@example.com"] }
    return killed(
      {
        config: { ...mail, subject: "{{id}}", concurrency: 4 },
        kill,
        start,
        remove,
        arrived: () => box.mails().map(({ subject }) => numberOf(subject)),
      },
      options,
    )
  },
}
