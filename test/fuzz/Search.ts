/**
 * Searches for inputs that break a target. An input that makes the relay do
 * something new is kept, and later inputs are changes of those.
 */
import process from "node:process"
import type { Counts } from "./Coverage.ts"
import { type Input, Mutations, shrunk } from "./Mutations.ts"

/** Plays an input. Returns which way it went. Throws if something doesn't hold. */
export type Play = (input: Input) => string | Promise<string>

export interface Target {
  readonly name: string
  /** The statement that each input is checked against. */
  readonly holds: string
  /** Bytes of an input at most. */
  readonly longest: number
  /** Milliseconds of CPU that an input may take. */
  readonly most: number
  /** Real inputs that the search begins with. */
  readonly seeds: () => ReadonlyArray<string | Uint8Array>
  /** Texts that mean something to the target, besides those in its sources. */
  readonly words?: ReadonlyArray<string>
  readonly open: () => Promise<Play>
}

/** Something that must hold and doesn't. `what` is the same for all inputs that show it. */
export class Broken extends Error {
  override readonly name = "Broken"
  readonly what: string
  constructor(what: string, detail = "") {
    super(detail === "" ? what : `${what}: ${detail}`)
    this.what = what
  }
}

export interface Finding {
  /** Equal for all inputs that show the finding. */
  readonly key: string
  readonly message: string
}

const frame = /\((?:.*\/)?((?:src|test|node_modules)\/[^:)]+)/

/** Names a finding by the broken rule, or by the error and the source that threw it. */
const findingOf = (error: unknown): Finding => {
  if (error instanceof Broken) return { key: error.what, message: error.message }
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
  const stack = error instanceof Error ? (error.stack ?? "") : ""
  const place = frame.exec(stack)?.[1] ?? ""
  return {
    key: `${text.replace(/["'`].*["'`]|\d+/gs, "…").slice(0, 80)} ${place}`.trim(),
    message: `${text}\n${stack}`,
  }
}

interface Played {
  readonly side: string
  readonly finding?: Finding
}

const cpuMillis = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}

/** Plays an input within the target's bound. */
export const played = async (play: Play, input: Input, most: number): Promise<Played> => {
  const once = async (clock: () => number) => {
    const started = clock()
    const going = play(input)
    const side = typeof going === "string" ? going : await going
    return { side, millis: clock() - started }
  }
  try {
    let { side, millis } = await once(() => performance.now())
    // Other programs, the collector and the compiler take time too, so the least of several counts.
    for (let again = 0; again < 4 && millis > most; again++) millis = Math.min(millis, (await once(cpuMillis)).millis)
    if (millis <= most) return { side }
    return { side, finding: { key: "it takes too long", message: `it takes ${Math.round(millis)} ms of CPU` } }
  } catch (error) {
    return { side: "broken", finding: findingOf(error) }
  }
}

export interface Progress {
  readonly executions: number
  /** Inputs that did something new. */
  readonly inputs: number
  /** Branches of the sources. */
  readonly reached: number
}

export interface Options {
  readonly seed: number
  /** Stops then, by `performance.now()`, or after this many executions. */
  readonly until: number
  readonly executions?: number
  /** Inputs of earlier runs. */
  readonly known: ReadonlyArray<Input>
  readonly onInput?: (input: Input) => void
  readonly onNew?: (input: Input) => void
  readonly onFound: (input: Input, finding: Finding) => void
  readonly onProgress?: (progress: Progress) => void
}

const reportEvery = 5_000
const encoded = (text: string | Uint8Array): Input => (typeof text === "string" ? Buffer.from(text) : text)

/** Runs until its end, and returns how far it came. */
export const search = async (target: Target, play: Play, counts: Counts, options: Options): Promise<Progress> => {
  const { seed, until, onInput, onNew, onFound, onProgress } = options
  const corpus: Array<Input> = []
  const sides = new Set<string>()
  const found = new Set<string>()
  let executions = 0
  const fails = (key: string) => async (input: Input) => (await played(play, input, target.most)).finding?.key === key

  const progress = (): Progress => ({ executions, inputs: corpus.length, reached: counts.reached })
  let reported = performance.now()
  const report = (now: number): void => {
    if (now - reported < reportEvery) return
    reported = now
    onProgress?.(progress())
  }

  const tried = async (input: Input, isKnown: boolean): Promise<void> => {
    executions += 1
    report(performance.now())
    onInput?.(input)
    counts.reset()
    const { side, finding } = await played(play, input, target.most)
    const isNew = counts.isNew()
    if (finding !== undefined) {
      if (found.has(finding.key)) return
      found.add(finding.key)
      return onFound(await shrunk(input, fails(finding.key)), finding)
    }
    if (!isNew && sides.has(side)) return
    sides.add(side)
    corpus.push(input)
    if (!isKnown) onNew?.(input)
  }

  for (const one of [...target.seeds().map(encoded), ...options.known]) await tried(one, true)
  const words = [...counts.words, ...(target.words ?? [])].map((word) => Buffer.from(word))
  const mutations = new Mutations({ seed, words, longest: target.longest })
  while (executions < (options.executions ?? Number.POSITIVE_INFINITY)) {
    if (performance.now() > until) break
    // Timers and sockets have a turn, too.
    if (executions % 256 === 0) await Bun.sleep(0)
    // The newest inputs lead further most often.
    const newest = Math.max(1, corpus.length >> 3)
    const from = mutations.below(2) === 0 ? corpus.length - 1 - mutations.below(newest) : mutations.below(corpus.length)
    await tried(mutations.of(corpus[from] ?? new Uint8Array(), mutations.pick(corpus) ?? new Uint8Array()), false)
  }
  return progress()
}
