/**
 * Polls the status each second and notices if the relay stops answering. It does not use a stream, because a browser
 * opens at most six connections to a host, so six tabs with a stream would leave none for the seventh. While the
 * relay is unavailable, the page shows the last status, marked as old.
 */
import { batch, computed, signal } from "@preact/signals"
import type { RelayHistory, Status } from "../../../admin/status/Status.ts"
import { admin, Refusal, token } from "./AdminCalls.ts"
import { say } from "./Messages.ts"

type Link = "connecting" | "live" | "away" | "locked"

export const link = signal<Link>("connecting")
/** The reason why the relay does not answer. */
export const linkProblem = signal("")
export const status = signal<Status | undefined>(undefined)
/** Whether the token has only the right to read. */
export const isReadOnly = computed(() => status.value?.caller.role === "read")
export const history = signal<RelayHistory | undefined>(undefined)
/** Epoch milliseconds by this machine's clock when the relay was last heard. */
export const heardAt = signal(0)
/** Incremented each time the relay answers again, so that failed requests are repeated. */
export const connections = signal(0)
/** Set if the relay now runs another version than the version that served this page. */
export const isOutdated = signal(false)

const every = 1_000
const historyEvery = 10_000
/** Milliseconds without an answer after which the relay counts as silent. */
const silence = 5_000

let ownVersion = ""
let historyAt = 0

const take = (next: Status): void => {
  const before = status.peek()
  const isRestarted = before !== undefined && before.startedAt !== next.startedAt
  if (isRestarted) say("The relay has restarted.")
  if (ownVersion === "") ownVersion = next.version
  batch(() => {
    isOutdated.value = next.version !== ownVersion
    status.value = next
    heardAt.value = Date.now()
    linkProblem.value = ""
    if (link.peek() !== "live") connections.value += 1
    link.value = "live"
  })
  if (isRestarted || (!document.hidden && Date.now() - historyAt >= historyEvery)) void renewHistory()
}

const renewHistory = async (): Promise<void> => {
  historyAt = Date.now()
  const found = await admin.history().catch(() => undefined)
  if (found !== undefined) history.value = found
}

const ask = async (): Promise<void> => {
  const used = token.peek()
  try {
    take(await admin.status(AbortSignal.timeout(silence)))
  } catch (error) {
    const isLocked = error instanceof Refusal && error.status === 401
    // A token was entered meanwhile: the next poll tries it
    if (isLocked && token.peek() !== used) return
    batch(() => {
      link.value = isLocked ? "locked" : "away"
      linkProblem.value = error instanceof Refusal ? error.message : "the relay is silent"
    })
  }
}

let wake = (): void => {}
/** Requests the status immediately, for example after a change. */
export const askNow = (): void => wake()
// Browsers slow down the timers of hidden tabs.
addEventListener("visibilitychange", askNow)

/** Waits until the next poll. If a token is missing, waits until the user enters one. */
const pause = (): Promise<void> =>
  new Promise((resolve) => {
    wake = resolve
    if (link.peek() !== "locked") setTimeout(resolve, every)
  })

/** Runs until the tab is closed. */
export const connect = async (): Promise<never> => {
  for (;;) {
    await ask()
    await pause()
  }
}

/** Tries a token that the user entered. */
export const unlock = (text: string): void => {
  token.value = text
  link.value = "connecting"
  askNow()
}
