/** Apart from `Runtime.ts`, because the worker loads nothing that it doesn't need. */
export { isMainThread } from "node:worker_threads"
