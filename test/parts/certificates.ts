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

export const makeCertificates = (directory: string): Authorities => {
  const { ca, issue } = makeAuthority(directory)
  const server = issue("server", "IP:127.0.0.1,DNS:localhost").pem
  const client = issue("client", "DNS:client")
  const serverChain = join(directory, "server-chain.pem")
  writeFileSync(serverChain, server.key + server.cert)
  const strangerCa = makeAuthority(directory, "stranger").ca
  return { ca, serverChain, client: client.certificate, clientKey: client.key, strangerCa }
}
