/**
 * Ten thousand failures a minute, as alerts: digests to Slack, and one alert per failure to PagerDuty, which also gets
 * the recoveries. Meanwhile the relay is killed, within the windows of its digests and between sending a digest and
 * recording it, and Slack is unavailable for a while.
 */
import { Effect } from "effect"
import { seeded } from "../../lib/seeded.ts"
import { own, services } from "../../sinks/alerts/services.ts"
import { serve } from "../../sinks/receiver.ts"
import type { Line, Options, Outcome } from "../Line.ts"
import { Subject } from "../relay/Subject.ts"
import * as Account from "./Account.ts"
import { bodyOf, digest, readAlert, readDigest, recovers, recoveryOf } from "./Failures.ts"

const rate = 10_000 / 60
const seconds = { long: 60, normal: 13 }
const crashes = { long: 10, normal: 2 }
/** How long Slack is away, in seconds. */
const away = 3
/** PagerDuty refuses the first alert of this failure, so its recovery must wait behind it. */
const isHard = (failure: number): boolean => failure % 3 === 0

class Scene {
  readonly account = new Account.Account()
  isAway = false
  /** Called at the next digest. Returns false if the digest must not be answered. */
  onDigest: (() => boolean) | undefined
  readonly #refusedOnce = new Set<number>()

  readonly slack = serve((request, response) => {
    const { problems, accept, refuse } = services.slack
    const found = problems(request.body)
    if (this.isAway) return void response.writeHead(500).end("service_error")
    if (found.length > 0) {
      this.account.invalid("Slack", found)
      return refuse(response, found)
    }
    this.account.digest(readDigest(request.body))
    const { onDigest } = this
    this.onDigest = undefined
    if (onDigest?.() !== false) accept(response)
  })

  readonly pagerduty = serve((request, response) => {
    const { problems, accept, refuse } = services.pagerduty
    const found = problems(request.body)
    if (found.length > 0) {
      this.account.invalid("PagerDuty", found)
      return refuse(response, found)
    }
    const alert = readAlert(request.body)
    if (isHard(alert.failure) && alert.action === "trigger" && !this.#refusedOnce.has(alert.failure)) {
      this.#refusedOnce.add(alert.failure)
      return void response.writeHead(500).end()
    }
    this.account.alert(alert)
    accept(response)
  })
}

/** Kills the relay again and again for as long as the traffic lasts, and makes Slack unavailable in the end. */
const torment = async (scene: Scene, subject: Subject, config: string, options: Options): Promise<void> => {
  const random = seeded(options.seed)
  const [span, times] = options.long ? [seconds.long, crashes.long] : [seconds.normal, crashes.normal]
  const { account } = scene
  let relay = await subject.start({}, config)
  for (let crash = 1; crash <= times; crash++) {
    const slice = (span - away - digest.wait) / times
    await Bun.sleep(slice * random() * 1_000)
    const inWindow = crash % 2 === 1
    await new Promise<void>((resolve) => {
      scene.onDigest = () => {
        resolve()
        if (!inWindow) relay.signal("SIGKILL")
        return inWindow
      }
    })
    // The next window has started when one has ended.
    if (inWindow) await Bun.sleep(digest.wait * 300)
    await relay.kill("SIGKILL")
    account.life += 1
    relay = await subject.start({}, config)
  }
  scene.isAway = true
  await Bun.sleep(away * 1_000)
  scene.isAway = false
}

const run = async (
  scene: Scene,
  urls: readonly [slack: string, pagerduty: string],
  options: Options,
): Promise<Outcome> => {
  const subject = await Subject.make(options, {
    sinks: {
      slack: {
        ...own.slack,
        type: "slack",
        url: urls[0],
        digest: { by: ["type", "account_id"], wait: `${digest.wait} seconds`, maxEvents: digest.maxEvents },
        // Three digests that fail are an outage: their attempts are given back.
        delivery: { pauseAfter: 3 },
      },
      pagerduty: { ...own.pagerduty, type: "pagerduty", url: urls[1], resolve: true, concurrency: 4 },
    },
    delivery: { timeout: "10 seconds" },
  })
  const config = subject.write("alerts.json", {
    routes: [{ name: "failures", match: "**.*_failed", to: ["slack", "pagerduty"] }],
  })
  const { account } = scene
  const { sender } = subject
  sender.bodyOf = bodyOf
  const random = seeded(options.seed + 1)
  /** It did not come back. */
  let isGone = false
  const send = async (number: number) => {
    account.sent(number)
    while ((await sender.send(number)) !== 202) {
      if (isGone) return
      await Bun.sleep(100)
    }
    account.acknowledged(number)
  }
  const fail = async () => {
    const number = sender.next++
    await send(number)
    if (!recovers(number)) return
    await Bun.sleep(random() * digest.wait * 1_000)
    await send(recoveryOf(number))
  }
  const tormented = torment(scene, subject, config, options).catch((error: unknown) => {
    isGone = true
    throw error
  })
  await Promise.all([tormented, sender.paced(rate, options.long ? seconds.long : seconds.normal, fail)])
  const broken: Array<string> = []
  if (!(await subject.drained(60))) broken.push("what was kept did not drain within a minute")
  const bounds = await subject.metric("relay_duplicate_bound_events")
  const letters = [...(await subject.deadLetters("slack")), ...(await subject.deadLetters("pagerduty"))]
  if (letters.length > 0) broken.push(`${letters.length} events became dead letters without a reason`)
  const { lost, repeated, ...said } = account.verdict(bounds)
  broken.push(...said.broken)
  if (lost + broken.length === 0) subject.remove()
  return {
    rounds: account.life,
    acknowledged: sender.acknowledged.size,
    lost,
    duplicates: repeated,
    bound: bounds.get("slack") ?? 0,
    broken,
    notes: said.notes,
  }
}

export const digests: Line = {
  name: "digests",
  fault: "10,000 failures a minute, killed meanwhile",
  run: (options) =>
    Effect.runPromise(
      Effect.scoped(
        Effect.gen(function* () {
          const scene = new Scene()
          const [slack, pagerduty] = [yield* scene.slack, yield* scene.pagerduty]
          return yield* Effect.promise(() => run(scene, [slack.url, pagerduty.url], options))
        }),
      ),
    ),
}
