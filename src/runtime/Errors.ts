/** Error codes of the system, and handlers for uncaught errors. */
import process from "node:process"

/** Returns the system's code of an error, such as `ENOSPC`, or else its name. */
export const codeOf = (error: unknown): string => {
  if (!(error instanceof Error)) return "unknown error"
  return "code" in error && typeof error.code === "string" ? error.code : error.name
}

const containers: Array<(error: unknown) => boolean> = []

/**
 * From now on `contain` is called with each error, in the async context in which the runtime reports it. It returns
 * true if it handled the error.
 */
export const containedBy = (contain: (error: unknown) => boolean): void => {
  containers.push(contain)
}

/**
 * Handles errors that no container takes. Without a handler the runtime prints a stack trace, and a binary its own
 * source.
 */
export const onCrash = (handle: (error: unknown) => void): void => {
  const on = (error: unknown): void => {
    if (!containers.some((contain) => contain(error))) handle(error)
  }
  process.on("uncaughtException", on)
  process.on("unhandledRejection", on)
}
