/** Apart from `Runtime.ts`, so that the worker does not load that. */
export { isMainThread } from "node:worker_threads"
