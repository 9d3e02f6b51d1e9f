/** Connections of this machine, as Linux lists them. */
import { readFileSync } from "node:fs"

/** Returns the number of established connections to a port of this machine. */
export const connectionsTo = (port: number): number => {
  const number = port.toString(16).toUpperCase().padStart(4, "0")
  return readFileSync("/proc/self/net/tcp", "utf8")
    .split("\n")
    .filter((line) => new RegExp(`^ *\\d+: \\S+ 0100007F:${number} 01 `).test(line)).length
}
