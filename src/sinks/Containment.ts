/**
 * Finds the sink that an uncaught error belongs to, so that a bug of a client
 * library stops its sink and not the process.
 *
 * **Guarantee.** A sink gets an error only if the async context or the stack names
 * the sink. Any other error, and any error with the journal's code in its stack,
 * belongs to no sink: the process has to end.
 *
 * **Gotcha.** Bun calls the handler in the context of the code that threw, but not
 * in the context of a rejected promise. Deno does so only for promises. So the stack
 * is read as well. It names libraries: if several sinks use a library, all of them
 * get the error.
 */
import { AsyncLocalStorage } from "node:async_hooks"
import { Effect, Fiber, type Scope } from "effect"
import { containedBy } from "../runtime/Errors.ts"

/** An open sink. */
export interface Owner {
  readonly type: string
  /** See `SinkType.libraries`. */
  readonly libraries: ReadonlyArray<string>
  /** Called with an error of its library that nobody caught. Must not throw. */
  readonly broke: (error: unknown) => void
}

const context = new AsyncLocalStorage<Owner | undefined>()
const owners = new Set<Owner>()

/** Runs a function. Errors of the timers, sockets and promises that it starts belong to the owner. */
export const within = <A>(owner: Owner | undefined, run: () => A): A => context.run(owner, run)

/** Runs an effect in its own fiber. Errors of everything that it starts belong to the owner. */
export const as =
  (owner: Owner) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.contextWith((services) =>
      Effect.callback<A, E>((resume) => {
        const fiber = within(owner, () => Effect.runForkWith(services)(effect))
        fiber.addObserver(resume)
        return Fiber.interrupt(fiber)
      }),
    )

/** The last owner of its type stays known after its scope, because work that it left behind may still fail. */
export const register = (owner: Owner): Effect.Effect<unknown, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => owners.add(owner)),
    () =>
      Effect.sync(() => {
        const isLast = !owners.values().some((other) => other !== owner && other.type === owner.type)
        if (!isLast) owners.delete(owner)
      }),
  )

/** Whether a stack's frame is of the owner's library, or of its own code. */
const isOf = ({ type, libraries }: Owner, frame: string): boolean => {
  const at = frame.lastIndexOf("node_modules/")
  if (at === -1) return new RegExp(`\\bsrc/sinks/(?:alerts/)?${type}/`).test(frame)
  const path = frame.slice(at + "node_modules/".length)
  return libraries.some((name) => path.startsWith(name.endsWith("/") ? name : `${name}/`))
}

/** Code whose errors are never a sink's fault. */
const isJournals = (frame: string): boolean => /\bsrc\/journal\/|node_modules\/pg(?:-[a-z]+)?\//.test(frame)
const isOurs = (frame: string): boolean => /\bsrc\/(?!sinks\/)[a-zA-Z]+/.test(frame) && !frame.includes("node_modules/")

/**
 * Returns the sinks that an error with this stack, thrown in the context of `owner`,
 * belongs to. Returns none if it belongs to no sink.
 */
export const culprits = (
  stack: string,
  owner: Owner | undefined,
  known: Iterable<Owner> = owners,
): ReadonlyArray<Owner> => {
  const frames = stack.split("\n").filter((line) => /^\s*at\s/.test(line))
  if (frames.some(isJournals)) return []
  const named = [...known].filter((one) => frames.some((frame) => isOf(one, frame)))
  if (owner === undefined) return named
  if (frames.some((frame) => isOf(owner, frame))) return [owner]
  if (named.length > 0) return named
  return frames.some(isOurs) ? [] : [owner]
}

/** Gives an uncaught error to its owner. Returns false if it has none. */
export const contain = (error: unknown): boolean => {
  const found = culprits(error instanceof Error ? (error.stack ?? "") : "", context.getStore())
  for (const owner of found) within(undefined, () => owner.broke(error))
  return found.length > 0
}
containedBy(contain)
