/**
 * Lets another listening socket of this process take over an address, without a
 * connection being refused: neither runtime gives an open listener another
 * certificate.
 *
 * All its sockets have SO_REUSEPORT, and a filter tells the kernel which of them
 * each new connection is for: always the newest. The older ones go on accepting
 * those whose handshake was under way; closed at once, they would reset them.
 * Another relay still can't listen there: its first socket has no SO_REUSEPORT.
 */
import { readdirSync } from "node:fs"
import type { Libc } from "./Platform.ts"

/** Linux, asm-generic/socket.h: the same on x86-64 and ARM64. */
const SOL_SOCKET = 1
const SO_REUSEPORT = 15
const SO_ACCEPTCONN = 30
const SO_ATTACH_REUSEPORT_CBPF = 51

/** Memory whose address stays. */
const bytes = (length: number): Uint8Array => new Uint8Array(new ArrayBuffer(length))
const int = (value: number): Uint8Array => {
  const memory = bytes(4)
  new DataView(memory.buffer).setInt32(0, value, true)
  return memory
}

const isAccepting = (libc: Libc, fd: number): boolean => {
  const value = int(0)
  return libc.getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, value, int(4)) === 0 && value[0] === 1
}

/** The port stands at the same place for IPv4 and IPv6. */
const portOf = (libc: Libc, fd: number): number => {
  const address = bytes(28)
  return libc.getsockname(fd, address, int(28)) === 0 ? new DataView(address.buffer).getUint16(2) : 0
}

/** The descriptors of this process's sockets that listen at a port. */
export const listening = (libc: Libc, port: number): ReadonlyArray<number> =>
  readdirSync("/proc/self/fd")
    .map(Number)
    .filter((fd) => isAccepting(libc, fd) && portOf(libc, fd) === port)

/** Throws where the system does not allow it. */
const set = (libc: Libc, fd: number, option: number, value: Uint8Array): void => {
  if (libc.setsockopt(fd, SOL_SOCKET, option, value, value.length) !== 0) {
    throw new Error("the system does not let two sockets share an address; a restart takes the new certificate")
  }
}

/** Lets other sockets that have the option listen at the same address. */
export const share = (libc: Libc, fds: ReadonlyArray<number>): void => {
  for (const fd of fds) set(libc, fd, SO_REUSEPORT, int(1))
}

/**
 * From now on each new connection is for one of the sockets that share the
 * address of this one. They are counted from 0 in the order in which they were
 * opened; when one is closed the last takes its place.
 */
export const prefer = (libc: Libc, fd: number, index: number): void => {
  // One instruction, `return index`.
  const filter = bytes(8)
  const instruction = new DataView(filter.buffer)
  instruction.setUint16(0, 0x06, true)
  instruction.setUint32(4, index, true)
  const program = bytes(16)
  const fields = new DataView(program.buffer)
  fields.setUint16(0, 1, true)
  // It gives back where it copied to: neither runtime has another way in common to ask for an address.
  fields.setBigUint64(8, BigInt(libc.memcpy(filter, filter, 0)), true)
  set(libc, fd, SO_ATTACH_REUSEPORT_CBPF, program)
}
