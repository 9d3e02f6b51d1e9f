/** Checks the certificates of the config: whether they can be used, expire soon, and have a complete chain. */
import type { Certificate } from "../../../config/Certificate.ts"
import type { RelayConfig } from "../../../config/Config.ts"
import { isExpiring } from "../../../config/Expiry.ts"
import type { CertificateFault } from "../../../config/load/Load.ts"
import type { EpochMillis } from "../../../event/Quantities.ts"
import { span } from "../output.ts"
import { type Finding, type Findings, finder } from "./Finding.ts"

const wrong = ({ key, message, hint = "" }: CertificateFault): Finding =>
  finder("certificate", key)("wrong", hint === "" ? message : `${message}: ${hint}`)

const lasting = (one: Certificate, now: EpochMillis): Finding => {
  const at = finder("certificate", one.key)
  const message = `${one.subject}, expires in ${span(one.notAfter - now)}`
  if (one.chain !== undefined) return at("warning", `${message}; ${one.chain.message}: ${one.chain.hint}`)
  return isExpiring(one, now) ? at("warning", `${message}: renew it, then \`relay reload\``) : at("ok", message)
}

export const certificates = (
  { certificates }: RelayConfig,
  faults: ReadonlyArray<CertificateFault>,
  now: EpochMillis,
): Findings => [
  ...faults.map(wrong),
  ...certificates.filter(({ key }) => !faults.some((fault) => fault.key === key)).map((one) => lasting(one, now)),
]
