/**
 * Preloaded into the relay (`BUN_OPTIONS=--preload=…`, which a compiled binary
 * obeys too): puts disk.c under it, skews its wall clock, and for a control run
 * makes SQLite sync less than the relay asks for.
 */
import { cc, ptr } from "bun:ffi"
import { openSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import { isMainThread } from "node:worker_threads"

const { RELAY_SHIM_CONTROL: control, RELAY_SHIM_PREFIX: prefix, RELAY_SHIM_TRACE: trace } = process.env

const install = (shared: Uint8Array, files: string): unknown => {
  const compiled = cc({
    source: `${import.meta.dir}/disk.c`,
    symbols: { install: { args: ["ptr", "ptr", "int"], returns: "int" } },
  })
  const path = Buffer.from(`${files}\0`)
  const places = compiled.symbols.install(ptr(shared), ptr(path), trace === undefined ? -1 : openSync(trace, "a"))
  if (places < 6) throw new Error(`the shim found ${places} places for itself in ${process.execPath}`)
  // Compiled code, and the memory that it points to, live as long as the process.
  return { compiled, path, shared }
}

const skewClock = (shared: Uint8Array): void => {
  const skew = new BigInt64Array(shared.buffer, shared.byteOffset, 1)
  const RealDate = Date
  const realNow = RealDate.now
  const now = (): number => realNow() + Number(skew[0])
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, args, newTarget) => Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget),
  })
  RealDate.now = now
}

const syncLess = (): void => {
  const prepare = DatabaseSync.prototype.prepare
  DatabaseSync.prototype.prepare = function (sql, ...rest) {
    return prepare.call(this, sql === "PRAGMA synchronous = FULL" ? "PRAGMA synchronous = NORMAL" : sql, ...rest)
  }
}

if (isMainThread && control !== undefined && prefix !== undefined) {
  const shared = Bun.mmap(control, { shared: true })
  Object.assign(globalThis, { relayShim: install(shared, prefix) })
  skewClock(shared)
}
if (process.env.RELAY_SHIM_NORMAL === "1") syncLess()
