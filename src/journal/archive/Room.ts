/** Decides from a journal's size whether it is full, which warning applies, and how much must be pruned early. */
import { quarantine } from "../../event/Event.ts"
import { fillingMarks, type JournalStatus } from "../Archive.ts"
import type { Backlog } from "../stream/Backlog.ts"

/** A mark is cleared when the use falls this far below it, in percent: it warns once. */
const hysteresis = 5
/** A journal prunes early from this share of its largest size on. */
const prunesFrom = 0.9

/**
 * The share that early pruning leaves. The relay that owns the file makes space for
 * a burst. In a fleet each relay prunes its own stream by the size of all streams,
 * so each deletes only the excess.
 */
export const prunesTo = { file: 0.8, fleet: prunesFrom } as const

export const mebibytes = (bytes: number): string => `${Math.floor(bytes / 1024 / 1024)} MiB`

/** The size that one journal may have. */
export class Room {
  readonly #maxBytes: number
  readonly #prunesTo: number
  #isPruning = false
  #filling: JournalStatus["filling"] = 0

  constructor(maxBytes: number, prunesTo: number) {
    this.#maxBytes = maxBytes
    this.#prunesTo = prunesTo
  }

  /** Bytes to prune although they are younger than the retention; 0 while there is space. */
  excess(usedBytes: number): number {
    const share = this.#isPruning ? this.#prunesTo : prunesFrom
    this.#isPruning = usedBytes > this.#maxBytes * share
    return this.#isPruning ? usedBytes - this.#maxBytes * this.#prunesTo : 0
  }

  /** The highest mark that these bytes pass. */
  filling(usedBytes: number): JournalStatus["filling"] {
    const before = this.#filling
    const percent = (usedBytes / this.#maxBytes) * 100
    this.#filling = fillingMarks.find((mark) => percent >= mark - (before >= mark ? hysteresis : 0)) ?? 0
    return this.#filling
  }

  isFull(usedBytes: number): boolean {
    return usedBytes >= this.#maxBytes
  }

  /**
   * Returns why appends are refused; empty while there is space. `fills` names the largest use of the space, and the
   * remedy.
   */
  whyFull(usedBytes: number, journal: string, fills: () => string): string {
    if (!this.isFull(usedBytes)) return ""
    return `${journal} holds ${mebibytes(usedBytes)} and may hold ${mebibytes(this.#maxBytes)} ("journal.maxSize"). ${fills()}`
  }
}

/** Reports whether a row of the log must be deleted: its newest event is older than `before`, or space is needed. */
export const isSurplus = (receivedTo: number, before: number, isTight: boolean): boolean =>
  receivedTo < before || isTight

/** The lane with most dead letters if they take a quarter of the journal or more; empty otherwise. */
const lettersThatFill = (backlogs: Iterable<Backlog>, maxSize: number): string => {
  const [most] = [...backlogs].sort((a, b) => b.letterBytes.total - a.letterBytes.total)
  if (most === undefined || most.letterBytes.total < maxSize / 4) return ""
  const { name, deadLetters, letterBytes } = most
  const what = name === quarantine ? "The quarantine takes" : `The dead letters of the sink ${name} take`
  const size = Math.floor(letterBytes.total / 1024 / 1024)
  return `${what} ${size} MiB of it (${deadLetters}, most of them from the webhook ${letterBytes.most}): look with \`relay dlq list --sink ${name}\`, then replay or drop them.`
}

/** The sink for which most events wait. */
export const backlogThatFills = (sizes: Iterable<readonly [lane: string, size: number]>): string => {
  const sums = new Map<string, number>()
  for (const [lane, size] of sizes) sums.set(lane, (sums.get(lane) ?? 0) + size)
  const [[lane, size] = ["", 0]] = [...sums].sort(([, a], [, b]) => b - a)
  const waiting = size === 0 ? "" : `Most events wait for the sink ${lane} (${size}). `
  return `${waiting}It empties as the sinks catch up: see \`relay lanes list\`.`
}

/** Dead letters count towards the journal's size as well. */
export const whatFills = (lanes: Iterable<Backlog>, maxSize: number): string => {
  const backlogs = [...lanes]
  const letters = lettersThatFill(backlogs, maxSize)
  return letters === "" ? backlogThatFills(backlogs.map(({ name, size }) => [name, size])) : letters
}
