/** Certificates for one broker: an authority, its server and client, and an authority that nobody trusts. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { makeAuthority } from "../lib/authority.ts"

/** PEM files. */
export interface Authorities {
  readonly ca: string
  /** Key and certificate in one file, as Kafka requires. */
  readonly serverChain: string
  readonly client: string
  readonly clientKey: string
  /** An authority that signed nothing here. */
  readonly strangerCa: string
}

/** Paths of the certificates that were made in a directory, or copied to it. */
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
