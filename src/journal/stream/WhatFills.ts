/** Names what takes most of a full journal, and what to do about it, in a sentence. */
import { quarantine } from "../../event/Event.ts"
import type { Backlog } from "./Backlog.ts"

/** The lane with most dead letters, where these take a quarter of the journal or more; else empty. */
const lettersThatFill = (backlogs: Iterable<Backlog>, maxSize: number): string => {
  const [most] = [...backlogs].sort((a, b) => b.letterBytes.total - a.letterBytes.total)
  if (most === undefined || most.letterBytes.total < maxSize / 4) return ""
  const { lane, deadLetters, letterBytes } = most
  const what = lane === quarantine ? "The quarantine takes" : `The dead letters of the sink ${lane} take`
  const size = Math.floor(letterBytes.total / 1024 / 1024)
  return `${what} ${size} MiB of it (${deadLetters}, most of them from the webhook ${letterBytes.most}): look with \`relay dlq list --sink ${lane}\`, then replay or drop them.`
}

/** The sink for which most events wait. */
export const backlogThatFills = (sizes: Iterable<readonly [lane: string, size: number]>): string => {
  const sums = new Map<string, number>()
  for (const [lane, size] of sizes) sums.set(lane, (sums.get(lane) ?? 0) + size)
  const [[lane, size] = ["", 0]] = [...sums].sort(([, a], [, b]) => b - a)
  const waiting = size === 0 ? "" : `Most events wait for the sink ${lane} (${size}). `
  return `${waiting}It empties as the sinks catch up: see \`relay lanes list\`.`
}

/** Dead letters take room of the journal as well. */
export const whatFills = (lanes: Iterable<Backlog>, maxSize: number): string => {
  const backlogs = [...lanes]
  const letters = lettersThatFill(backlogs, maxSize)
  return letters === "" ? backlogThatFills(backlogs.map(({ lane, size }) => [lane, size])) : letters
}
