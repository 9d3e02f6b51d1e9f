/**
 * The status as it comes, and whether it still does.
 *
 * What was heard last stays on the page while the relay is away, marked as old.
 * It is asked again until it answers.
 */
import { signal } from "@preact/signals"
import type { History, Status } from "../../admin/Api.ts"
import { admin, Refusal, token } from "./AdminCalls.ts"
import { say } from "./Messages.ts"

export type Link = "connecting" | "live" | "away" | "locked"

export const link = signal<Link>("connecting")
/** Why, where it is away. */
export const linkProblem = signal("")
export const status = signal<Status | undefined>(undefined)
export const history = signal<History | undefined>(undefined)
/** Epoch milliseconds by this machine's clock when the relay was last heard. */
export const heardAt = signal(0)
/** The relay became another version than the one that this page came with. */
export const isOutdated = signal(false)

/** A status comes each second; after so long without one the connection is given up. */
const silence = 5_000
const longestWait = 5_000
const historyEvery = 10_000

let ownVersion = ""

const wait = (millis: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, millis))

const take = (next: Status): void => {
  const before = status.peek()
  if (before !== undefined && before.startedAt !== next.startedAt) {
    say("The relay has restarted.")
    void renewHistory()
  }
  if (ownVersion === "") ownVersion = next.version
  isOutdated.value = next.version !== ownVersion
  status.value = next
  heardAt.value = Date.now()
  linkProblem.value = ""
  link.value = "live"
}

const listen = async (): Promise<void> => {
  const abort = new AbortController()
  let timer = setTimeout(() => abort.abort(), silence)
  try {
    for await (const next of admin.live(abort.signal)) {
      clearTimeout(timer)
      timer = setTimeout(() => abort.abort(), silence)
      take(next)
    }
    throw new Refusal(0, "the relay has closed the connection")
  } catch (error) {
    if (error instanceof Refusal && error.status === 401) {
      link.value = "locked"
      return
    }
    link.value = "away"
    linkProblem.value = error instanceof Refusal ? error.message : "the relay is silent"
  } finally {
    clearTimeout(timer)
    abort.abort()
  }
}

const renewHistory = async (): Promise<void> => {
  const found = await admin.history().catch(() => undefined)
  if (found !== undefined) history.value = found
}

/** Until the tab is closed. */
export const connect = async (): Promise<never> => {
  setInterval(() => {
    if (link.peek() === "live" && !document.hidden) void renewHistory()
  }, historyEvery)
  for (let failures = 0; ; failures++) {
    const since = Date.now()
    await Promise.all([listen(), link.peek() === "locked" ? undefined : renewHistory()])
    if (Date.now() - since > longestWait) failures = 0
    if (link.peek() === "locked") await unlocked()
    else await wait(Math.min(longestWait, 500 * 2 ** failures))
  }
}

let wake = (): void => {}
const unlocked = (): Promise<void> =>
  new Promise((resolve) => {
    wake = resolve
  })

/** Tries a token that was typed in. */
export const unlock = (text: string): void => {
  token.value = text
  link.value = "connecting"
  wake()
}
