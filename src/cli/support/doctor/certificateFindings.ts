/** Checks the certificates of the config: those that can't be used, that have expired, or are about to. */
import type { Certificate } from "../../../config/Certificate.ts"
import { noticeOf, type RelayConfig } from "../../../config/Config.ts"
import type { CertificateFault } from "../../../config/load/Load.ts"
import { span } from "../output.ts"
import { type Finding, type Findings, finder } from "./Finding.ts"

const wrong = ({ key, message, hint = "" }: CertificateFault): Finding =>
  finder("certificate", key)("wrong", hint === "" ? message : `${message}: ${hint}`)

const lasting = (one: Certificate, now: number): Finding => {
  const left = one.notAfter - now
  const message = `${one.subject}, expires in ${span(left)}`
  return left <= noticeOf(one)
    ? finder("certificate", one.key)("warning", `${message}: renew it, then \`relay reload\``)
    : finder("certificate", one.key)("ok", message)
}

/** `now` is in epoch milliseconds. */
export const certificates = (
  { certificates }: RelayConfig,
  faults: ReadonlyArray<CertificateFault>,
  now: number,
): Findings => [
  ...faults.map(wrong),
  ...certificates.filter(({ key }) => !faults.some((fault) => fault.key === key)).map((one) => lasting(one, now)),
]
