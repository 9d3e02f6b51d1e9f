/**
 * Each sink has a peer that gives wrong answers, in every way that its protocol has, and a peer with an untrusted
 * certificate. The process lives, its memory is bounded, the healthy sink gets every event within a second, and each
 * sink reports its peer's fault.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { makeAuthority } from "../../lib/authority.ts"
import { isEnough, type Line, type Options, type Outcome } from "../Line.ts"
import { eventually, memory, Subject } from "../relay/Subject.ts"
import { Receiver } from "../relay/Traffic.ts"
import { delivery } from "./Cuts.ts"
import { encrypted, type Peer, plain, untrusted, type Wrong, wrongPeer, wrongs } from "./WrongPeers.ts"

/**
 * MiB. A client may collect an endless answer until its attempt is over, after a second: 16 MiB come in this time.
 * Clients took 13.6 at most; a greeting of NATS without an end would be 45.
 */
const answer = 24
/** MiB. The process grew by 64 to 152, depending on the collector. Without the bound for NATS it grew by 452. */
const growth = 256
/** Seconds. */
const patience = { answers: 20, healthy: 1 }

const certificates = (directory: string) => {
  const own = makeAuthority(directory, "own")
  const stranger = makeAuthority(directory, "stranger")
  const selfSigned = makeAuthority(directory, "self-signed").ca
  return {
    ca: own.ca,
    pems: {
      elsewhere: own.issue("elsewhere", "DNS:elsewhere.example").pem,
      expired: own.issue("expired", "IP:127.0.0.1", -1).pem,
      unknown: stranger.issue("unknown", "IP:127.0.0.1").pem,
      "self-signed": {
        cert: readFileSync(selfSigned, "utf8"),
        key: readFileSync(selfSigned.replace(/pem$/, "key"), "utf8"),
      },
    },
  }
}

/** Words that blame the peer, or its certificate if that is the fault. */
const causes = {
  answer:
    /clos|reset|ended|answer|time|protocol|reach|can't take|no RabbitMQ|no NATS|no mail server|no SMTP|does not serve|not HTTP|too old|version|greet/i,
  certificate: /certificate/i,
}

const busy = /no answer within|does not answer/

class Stage {
  readonly broken = new Set<string>()
  readonly said = new Map<string, string>()
  peak = 0
  readonly #subject: Subject

  constructor(subject: Subject) {
    this.#subject = subject
  }

  /** Waits until each of these sinks has failed since, and says why. */
  async judge(sinks: ReadonlyArray<string>, since: number, what: string, cause: RegExp): Promise<void> {
    const waiting = new Set(sinks)
    const isDone = async () => {
      const { lanes } = await this.#subject.status()
      for (const { name, lastFailure } of lanes) {
        if (lastFailure === undefined || lastFailure.at < since || !waiting.has(name)) continue
        // On a busy machine, all handshakes at the same time may take longer than an attempt may.
        if (busy.test(lastFailure.message) && !cause.test(lastFailure.message)) continue
        waiting.delete(name)
        this.said.set(`${name}, ${what}`, lastFailure.message)
        if (!cause.test(lastFailure.message) || /\ba bug\b/.test(lastFailure.message)) {
          this.broken.add(`${name}, ${what}: ${lastFailure.message}`)
        }
      }
      return waiting.size === 0
    }
    if (await eventually(isDone, patience.answers, 100)) return
    this.broken.add(`${what}: ${[...waiting].join(", ")} named no cause in ${patience.answers} seconds`)
  }
}

const run = async (options: Options): Promise<Outcome> => {
  const directory = mkdtempSync(join(tmpdir(), "relay-faults-wrong-"))
  process.on("exit", () => rmSync(directory, { recursive: true, force: true }))
  const { ca, pems } = certificates(directory)
  const good = new Receiver()
  const peers = new Map<string, Peer>()
  for (const [name, { protocol }] of Object.entries(plain)) peers.set(name, await wrongPeer(protocol))
  const liars = await Promise.all(
    Object.entries(pems).flatMap(([fault, pem]) =>
      Object.entries(encrypted(ca)).map(async ([name, config]) => {
        const { port, close } = await untrusted(pem, name)
        return { name: `${name}-${fault}`, config: config(port), close }
      }),
    ),
  )
  const sinks = {
    good: { type: "http", url: good.url },
    ...Object.fromEntries(
      Object.entries(plain).map(([name, { config }]) => [name, config(peers.get(name)?.port ?? 0)]),
    ),
    ...Object.fromEntries(liars.map(({ name, config }) => [name, config])),
  }
  const subject = await Subject.make(options, { sinks, delivery })
  const relay = await subject.start({ env: { NODE_EXTRA_CA_CERTS: ca } })
  let [over, ended] = [false, 0]
  void relay.exited.then(() => {
    if (!over) ended += 1
  })
  const stage = new Stage(subject)
  const watching = setInterval(() => {
    stage.peak = Math.max(stage.peak, memory(relay.pid))
  }, 100)
  await subject.sender.burst(10)
  await stage.judge(
    liars.map(({ name }) => name),
    0,
    "certificate",
    causes.certificate,
  )
  const before = memory(relay.pid)
  stage.peak = before
  for (const wrong of wrongs) {
    if (ended > 0 || isEnough(options, stage.broken.size)) break
    await phase(stage, subject, peers, wrong)
  }
  clearInterval(watching)
  if (relay.stdout() !== "") stage.broken.add(`a library printed: ${relay.stdout().slice(0, 200)}`)
  if (ended > 0) stage.broken.add(`the process ended: ${relay.stderr().split("\n").slice(-3).join(" ")}`)
  else {
    for (const [sink, bugs] of await subject.metric("relay_sink_bugs_total")) {
      if (bugs > 0) stage.broken.add(`${bugs} bugs of the client library of ${sink} got out`)
    }
  }
  for (const [name, peer] of peers) {
    const taken = peer.taken() / 2 ** 20
    if (taken > answer) stage.broken.add(`${name} took ${taken.toFixed(0)} MiB of one answer`)
  }
  if (stage.peak - before > growth) stage.broken.add(`it grew by ${(stage.peak - before).toFixed(0)} MiB`)
  over = true
  await relay.kill("SIGKILL")
  for (const { close } of [...peers.values(), ...liars]) close()
  const lost = good.missing(subject.sender.acknowledged).length
  await good.goAway()
  if (lost + stage.broken.size === 0) subject.remove()
  return {
    rounds: wrongs.length + 1,
    acknowledged: subject.sender.acknowledged.size,
    lost,
    duplicates: 0,
    broken: [...stage.broken],
    notes: [
      `${peers.size} sinks × ${wrongs.length} wrong answers, ${liars.length} certificates; memory +${(stage.peak - before).toFixed(0)} MiB`,
      ...(options.long ? [...stage.said].map(([what, said]) => `${what}: ${said}`) : []),
    ],
  }
}

const phase = async (stage: Stage, subject: Subject, peers: ReadonlyMap<string, Peer>, wrong: Wrong) => {
  for (const peer of peers.values()) peer.become(wrong)
  // Attempts that were in flight at the change are over by then.
  await Bun.sleep(100)
  const since = Date.now()
  await subject.sender.burst(10)
  if (!(await subject.drained(patience.healthy, ["good"]))) stage.broken.add(`${wrong}: the healthy sink waited`)
  await stage.judge([...peers.keys()], since, wrong, causes.answer)
}

export const wrongAnswers: Line = {
  name: "wrong-answers",
  fault: "peers answer wrong, or have a wrong certificate",
  run,
}
