/** Separate from `Runtime.ts`, so that the worker does not load it. */
export { isMainThread } from "node:worker_threads"
