/** Differences between Bun and Deno. */
import type { Address } from "../../config/Address.ts"
import type { HmacFactory } from "../../event/Signature.ts"
import type { Handler } from "../RequestGuard.ts"

/** The options of a listener. */
export interface ListenOptions {
  readonly address: Address
  /** PEM texts. */
  readonly tls: { readonly certificate: string; readonly key: string } | undefined
  readonly handler: Handler
  /** Whether another socket with SO_REUSEPORT may listen on the same address. */
  readonly sharesPort: boolean
  /** The runtime itself refuses larger bodies, if it can. In bytes. */
  readonly maxBody: number
  /** Maximum bytes of a request line and its headers, if the runtime can limit them (default: the runtime's limit). */
  readonly maxHeaders?: number | undefined
  /** A connection without a byte for this many seconds is closed, if the runtime can. */
  readonly idleTimeout: number
  /** Called when the runtime ends the listener by itself. */
  readonly onEnd: () => void
}

/** An open listener. */
export interface Listener {
  /** The address that it listens on. Its port is the real one if port 0 was requested. */
  readonly address: Address
  /**
   * Stops accepting. Resolves when the last connection has ended. `force` ends them immediately, if the runtime can.
   */
  readonly close: (force: boolean) => Promise<void>
}

/**
 * C library functions for features that neither runtime has: datagrams to a Unix
 * socket, checking whether a write would block, socket options, file locks, and
 * CLOCK_MONOTONIC.
 */
export interface Libc {
  readonly socket: (domain: number, type: number, protocol: number) => number
  readonly sendto: (
    socket: number,
    bytes: Uint8Array,
    length: number,
    flags: number,
    address: Uint8Array,
    addressLength: number,
  ) => number | bigint
  readonly close: (socket: number) => number
  /** Each of the `count` entries has 8 bytes: the descriptor, the requested events, and the events that happened. */
  readonly poll: (entries: Uint8Array, count: number, millis: number) => number
  readonly setsockopt: (socket: number, level: number, option: number, value: Uint8Array, length: number) => number
  readonly getsockopt: (socket: number, level: number, option: number, value: Uint8Array, length: Uint8Array) => number
  readonly getsockname: (socket: number, address: Uint8Array, length: Uint8Array) => number
  readonly fcntl: (file: number, command: number, lock: Uint8Array) => number
  /** Returns the address of `to`. */
  readonly memcpy: (to: Uint8Array, from: Uint8Array, length: number) => number | bigint
  /** Writes seconds and nanoseconds into `time`, 64 bits each. */
  readonly clock_gettime: (clock: number, time: BigInt64Array) => number
}

/** A runtime as the relay uses it. `Bun.ts` and `Deno.ts` implement it. */
export interface Platform {
  readonly name: "bun" | "deno"
  readonly version: string
  /** Whether this is a compiled binary. */
  readonly isCompiled: boolean
  readonly hmac: HmacFactory
  /** Whether a chunked body may end with a trailer, which is ignored. */
  readonly readsTrailers: boolean
  /** Returns the address of a request's client. It is empty once the connection has ended, and for a copied request. */
  readonly peerOf: (request: Request) => string
  /** Throws if the address is not available. */
  readonly listen: (options: ListenOptions) => Listener
  /** Throws if there is none. */
  readonly libc: () => Libc
  /** Collects all garbage now. Does nothing on Deno. */
  readonly collect: () => void
  /** The reason why no listener can share its port here. `undefined` if listeners can. */
  readonly cantSharePort: string | undefined
}
