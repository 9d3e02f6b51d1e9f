/** Alerts under failures of sinks and journals, crashes and changes of the policy, compared with a model by seeds. */
import { expect } from "bun:test"
import { Duration, Effect, Exit, Layer, Scope } from "effect"
import type { ChangesPolicy } from "../../src/config/Config.ts"
import type { Entry } from "../../src/event/Entry.ts"
import { collect } from "../../src/journal/EventPages.ts"
import { fenced, unavailable } from "../../src/journal/JournalError.ts"
import { allSent, type Sink, SinkError } from "../../src/sinks/Sink.ts"
import * as MemoryJournal from "../journal/MemoryJournal.ts"
import { whole } from "../journal/whole.ts"
import { it } from "../lib/effect.ts"
import { seeded } from "../lib/seeded.ts"
import { tries } from "../lib/tries.ts"
import { append, away, failed, lanesOf, pass, spec } from "./fixture.ts"

const failure = "connected_account.refresh_failed"
const recovery = "connected_account.reconnected"
/** Short, because a lane looks at its deadlines 40 times a second. */
const unit = 1_000
const policy = { count: 3, within: 10 * unit, repeat: 8 * unit, resolveAfter: 25 * unit }

const alert: ChangesPolicy = {
  sends: "changes",
  resolves: true,
  after: { count: policy.count, within: Duration.millis(policy.within) },
  repeat: Duration.millis(policy.repeat),
  resolveAfter: Duration.millis(policy.resolveAfter),
}

interface Logged {
  readonly sequence: number
  readonly id: string
  readonly type: string
  readonly account: string
  readonly at: number
}

/** Whether each event of the log is a message, and otherwise in which alert it is counted, by the docs alone. */
const model = (log: ReadonlyArray<Logged>): ReadonlyMap<number, string> => {
  const found = new Map<number, string>()
  const accountOf = new Map<number, string>()
  for (const account of new Set(log.map(({ account }) => account))) {
    let firing: { id: number; last: number; messages: number } | undefined
    let resolved: { id: number; at: number } | undefined
    let pending: Array<Logged> = []
    for (const one of log.filter((event) => event.account === account)) {
      const { sequence, type, at } = one
      const [, own = "", what = "", number = ""] = /_(\d+)_(reminder|expiry)_(\d+)_\d+$/.exec(one.id) ?? []
      const tell = (counted: number | undefined) =>
        found.set(sequence, counted === undefined ? "delivered" : `counted in ${counted}`)
      if (type === failure) {
        accountOf.set(sequence, account)
        if (firing !== undefined) {
          firing.last = at
          tell(firing.id)
          continue
        }
        const last = pending.at(-1)
        if (last === undefined || last.at <= at - policy.within) pending = []
        pending.push(one)
        const [first = one] = pending
        if (pending.filter((event) => event.at > at - policy.within).length >= policy.count) {
          firing = { id: first.sequence, last: at, messages: 1 }
          pending = []
          tell(undefined)
        } else tell(first.sequence)
        resolved = undefined
      } else if (type === recovery) {
        if (firing === undefined) tell(pending[0]?.sequence ?? resolved?.id)
        else {
          tell(undefined)
          resolved = { id: firing.id, at }
        }
        firing = undefined
        pending = []
      } else if (firing === undefined || String(firing.id) !== own) tell(Number(own))
      else if (what === "reminder" && firing.messages === Number(number)) {
        firing.messages += 1
        tell(undefined)
      } else if (what === "expiry" && at >= firing.last + policy.resolveAfter) {
        tell(undefined)
        resolved = { id: firing.id, at }
        firing = undefined
      } else tell(firing.id)
    }
  }
  return found
}

/** Random failures and recoveries of three accounts while everything fails at times. Returns what must hold. */
const history = (seed: number) =>
  Effect.gen(function* () {
    const random = seeded(seed)
    const chance = (share: number) => random() < share
    const state = { isDown: false, isKilled: false, isFull: false }
    const sent: Array<number> = []
    const sink: Sink = {
      batch: { maxEvents: 100, maxBytes: 1_000_000 },
      send: (batch: ReadonlyArray<Entry>) =>
        Effect.suspend(() => {
          if (state.isKilled) return Effect.never
          if (state.isDown) return Effect.fail(new SinkError({ reason: chance(0.5) ? away : failed }))
          sent.push(...batch.map(({ sequence }) => sequence))
          return Effect.succeed(allSent)
        }),
      check: Effect.void,
    }
    const one = spec("chat", sink, { order: "key", alert })
    const journal = MemoryJournal.layerWith((memory) => ({
      settle: (settlements) =>
        Effect.suspend(() =>
          state.isKilled
            ? Effect.fail(fenced("killed"))
            : state.isFull
              ? Effect.fail(unavailable("full"))
              : memory.settle(settlements),
        ),
    }))
    return yield* Effect.gen(function* () {
      const start = Effect.gen(function* () {
        Object.assign(state, { isKilled: false })
        const scope = yield* Scope.make()
        yield* Layer.buildWithScope(lanesOf([one]), scope)
        return scope
      })
      let kills = 0
      let scope = yield* start
      for (let step = 0; step < 40; step++) {
        const account = `acct_${Math.floor(random() * 3)}`
        if (chance(0.6))
          yield* append(
            1,
            ["chat"],
            () => account,
            () => (chance(0.7) ? failure : recovery),
          )
        if (chance(0.1)) state.isDown = !state.isDown
        if (chance(0.1)) state.isFull = !state.isFull
        if (chance(0.15)) {
          state.isKilled = chance(0.7)
          if (state.isKilled) kills += 1
          else state.isFull = false
          yield* Scope.close(scope, Exit.void)
          scope = yield* start
        }
        yield* pass(Math.floor(chance(0.8) ? random() * 500 : random() * 20 * unit))
      }
      Object.assign(state, { isDown: false, isFull: false })
      yield* pass("30 seconds")
      const look = Effect.flatMap(whole, (journal) => collect({ limit: 1_000, after: "" }, journal.events))
      const isOpen = ({ outcome }: { readonly outcome: string }) => outcome === "pending" || outcome === "retrying"
      // A reminder may just have been made.
      for (let turn = 0; turn < 20; turn++) {
        if (!(yield* look).events.some(({ deliveries }) => deliveries.some(isOpen))) break
        yield* pass("300 millis")
      }
      const { events } = yield* look
      yield* Scope.close(scope, Exit.void)
      const accountOf = new Map(events.map(({ sequence, event }) => [sequence, event.accountId]))
      // An own entry has no account. It names its alert by the sequence of the first failure.
      const log = events.map(({ sequence, event: { id, type, accountId, receivedAt: at } }) => {
        const account = accountId || (accountOf.get(Number(/_(\d+)_[a-z]+_\d+_\d+$/.exec(id)?.[1])) ?? "")
        return { sequence, id, type, account, at }
      })
      const found = events.map(({ sequence, deliveries: [delivery] }) => {
        const counted = delivery?.alert === undefined ? "" : ` in ${delivery.alert}`
        return `${sequence}: ${delivery?.outcome}${counted}`
      })
      const expected = model(log)
      return {
        seed,
        found,
        expected: log.map(({ sequence }) => `${sequence}: ${expected.get(sequence)}`),
        log,
        sent,
        kills,
      }
    }).pipe(Effect.provide(journal))
  })

it.effect("alerts are as in the model, and each message is sent", () =>
  Effect.gen(function* () {
    const kinds = { message: 0, counted: 0, own: 0, kills: 0 }
    for (let seed = 1; seed <= tries(60); seed++) {
      const { found, expected, log, sent, kills } = yield* history(seed)
      expect({ seed, events: found }).toEqual({ seed, events: expected })
      const messages = log.filter(({ sequence }) => found.includes(`${sequence}: delivered`))
      expect({ seed, sent: [...new Set(sent)].sort((a, b) => a - b) }).toEqual({
        ...{ seed, sent: messages.map(({ sequence }) => sequence) },
      })
      // A message is repeated only by a crash that came before its end was stored.
      if (kills === 0) expect({ seed, repeated: sent.length - messages.length }).toEqual({ seed, repeated: 0 })
      kinds.message += messages.length
      kinds.counted += log.length - messages.length
      kinds.own += log.filter(({ type }) => type === "relay.alert").length
      kinds.kills += kills
    }
    // Or the histories would show little.
    for (const [kind, count] of Object.entries(kinds)) expect([kind, count > tries(60)]).toEqual([kind, true])
  }),
)
