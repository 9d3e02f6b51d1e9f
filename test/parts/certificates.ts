/** Certificates for one broker: an authority, a server and a client of it, and an authority of nobody. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { makeAuthority } from "../lib/authority.ts"

/** PEM files. */
export interface Authorities {
  readonly ca: string
  /** Key and certificate in one, as Kafka wants them. */
  readonly serverChain: string
  readonly client: string
  readonly clientKey: string
  /** Signed nothing here. */
  readonly strangerCa: string
}

/** Those that were made in a directory, or copied there. */
export const certificatesIn = (directory: string): Authorities => ({
  ca: join(directory, "authority.pem"),
  serverChain: join(directory, "server-chain.pem"),
  client: join(directory, "client.pem"),
  clientKey: join(directory, "client.key"),
  strangerCa: join(directory, "stranger.pem"),
})

export const makeCertificates = (directory: string): Authorities => {
  const { issue } = makeAuthority(directory)
  const server = issue("server", "IP:127.0.0.1,DNS:localhost").pem
  issue("client", "DNS:client")
  makeAuthority(directory, "stranger")
  const made = certificatesIn(directory)
  writeFileSync(made.serverChain, server.key + server.cert)
  return made
}
