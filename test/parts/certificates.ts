/** Certificates for one test run, by openssl: an authority, a server and a client of it, and an authority of nobody. */
import { spawnSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"

/** PEM files. */
export interface Authorities {
  readonly ca: string
  /** Key and certificate in one, as Kafka wants them. */
  readonly serverChain: string
  readonly server: string
  readonly serverKey: string
  /** A server's too, and no longer valid. */
  readonly expired: string
  readonly expiredKey: string
  readonly client: string
  readonly clientKey: string
  /** Signed nothing here. */
  readonly strangerCa: string
}

const openssl = (...args: ReadonlyArray<string>): void => {
  const { status, stderr } = spawnSync("openssl", args, { encoding: "utf8" })
  if (status !== 0) throw new Error(`openssl ${args[0]}: ${stderr}`)
}

export const makeCertificates = (directory: string): Authorities => {
  const at = (name: string) => join(directory, name)
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
  const authority = (name: string) =>
    openssl(
      "req",
      "-x509",
      ...key,
      "-days",
      "2",
      "-subj",
      `/CN=${name}`,
      "-addext",
      "basicConstraints=critical,CA:TRUE",
      "-keyout",
      at(`${name}.key`),
      "-out",
      at(`${name}.pem`),
    )
  const signed = (name: string, extensions: string, days = 2) => {
    openssl("req", "-new", ...key, "-subj", `/CN=${name}`, "-keyout", at(`${name}.key`), "-out", at(`${name}.csr`))
    writeFileSync(at(`${name}.ext`), extensions)
    openssl(
      "x509",
      "-req",
      "-in",
      at(`${name}.csr`),
      "-CA",
      at("authority.pem"),
      "-CAkey",
      at("authority.key"),
      "-CAcreateserial",
      "-days",
      String(days),
      "-extfile",
      at(`${name}.ext`),
      "-out",
      at(`${name}.pem`),
    )
  }
  authority("authority")
  authority("stranger")
  signed("server", "subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth\n")
  signed("expired", "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n", -1)
  signed("client", "extendedKeyUsage=clientAuth\n")
  writeFileSync(at("server-chain.pem"), readFileSync(at("server.key"), "utf8") + readFileSync(at("server.pem"), "utf8"))
  return {
    ca: at("authority.pem"),
    serverChain: at("server-chain.pem"),
    server: at("server.pem"),
    serverKey: at("server.key"),
    expired: at("expired.pem"),
    expiredKey: at("expired.key"),
    client: at("client.pem"),
    clientKey: at("client.key"),
    strangerCa: at("stranger.pem"),
  }
}
