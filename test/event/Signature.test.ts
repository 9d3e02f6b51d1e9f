/** The signature rules of the webhook interface, section 5.1, to the letter. */
import { describe, expect, test } from "bun:test"
import { hmacSha256, type SigningSecret, sign, verify } from "../../src/event/Signature.ts"
import * as Runtime from "../../src/runtime/Runtime.ts"
import { seeded } from "../lib/seeded.ts"
import { tries } from "../lib/tries.ts"
import * as Vectors from "../vectors/Vectors.ts"

const utf8 = new TextEncoder()
const secret = (name: string, value: string, expiresAt?: number): SigningSecret => ({
  name,
  hmac: hmacSha256(value),
  ...(expiresAt === undefined ? {} : { expiresAt }),
})
const body = utf8.encode('{"id":"evt_1"}')
const main = secret("main", "whsec_main")
const signed = sign(main.hmac, body)

const refusal = (header: string | null, secrets: ReadonlyArray<SigningSecret> = [main], now = 0) => {
  const verified = verify(secrets, header, body, now)
  return verified.ok ? "accepted" : verified.reason
}

for (const [factory, hmac] of [
  ["node's HMAC", hmacSha256],
  ["the runtime's HMAC", Runtime.hmac],
] as const) {
  describe(`${factory} agrees with openssl on`, () => {
    for (const vector of Vectors.all) {
      test(vector.name, () => {
        const key = { name: "vector", hmac: hmac(vector.secret) }
        expect(sign(key.hmac, vector.body)).toBe(vector.signature)
        expect(verify([key], vector.signature, vector.body, 0)).toEqual({ ok: true, secret: "vector" })
      })
    }
  })
}

test("a key computes the same digest each time it is used", () => {
  const hmac = Runtime.hmac("whsec_main")
  const first = Uint8Array.from(hmac(body))
  hmac(utf8.encode("another body"))
  expect(Uint8Array.from(hmac(body))).toEqual(first)
})

describe("a signature is refused", () => {
  test("when the header is missing or empty", () => {
    expect(refusal(null)).toBe("missing")
    expect(refusal("")).toBe("missing")
  })

  test("when the header came twice, even with the right value", () => {
    expect(refusal(`${signed}, ${signed}`)).toBe("doubled")
  })

  test("when there are several different ones, even if one is right", () => {
    const other = `sha256=${"0123456789ABCDEF".repeat(4)}`
    expect(refusal(`${signed},${other}`)).toBe("several")
    expect(refusal(`${other}, ${signed}`)).toBe("several")
    expect(refusal(`${signed}, `)).toBe("several")
    expect(refusal("t=1492774577,v1=5257a869")).toBe("malformed")
  })

  test("when its digest is lowercase", () => {
    expect(refusal(`sha256=${signed.slice(7).toLowerCase()}`)).toBe("lowercase")
  })

  test("when any letter is lowercase", () => {
    const letter = [...signed].findIndex((character, index) => index > 6 && /[A-F]/.test(character))
    expect(refusal(signed.slice(0, letter) + signed.charAt(letter).toLowerCase() + signed.slice(letter + 1))).toBe(
      "lowercase",
    )
  })

  test("when its length is not a SHA-256 digest's", () => {
    expect(refusal(signed.slice(0, -1))).toBe("malformed")
    expect(refusal(signed.slice(0, -2))).toBe("malformed")
    expect(refusal(`${signed}0`)).toBe("malformed")
    expect(refusal(`${signed}00`)).toBe("malformed")
    expect(refusal("sha256=")).toBe("malformed")
    expect(refusal("0")).toBe("malformed")
  })

  test("when the prefix is missing, of another hash or of other case", () => {
    const digest = signed.slice(7)
    for (const prefix of ["", "sha1=", "sha512=", "SHA256=", "sha256:", "sha256 ", "v1=0000", " sha256="]) {
      expect(refusal(prefix + digest)).toBe("malformed")
    }
  })

  test("when any character isn't an uppercase hexadecimal digit", () => {
    for (let index = 7; index < signed.length; index++) {
      for (const character of ["g", "G", "/", ":", "@", "`", " ", "é", "Ａ", "\u0000", "😀"]) {
        const header = signed.slice(0, index) + character + signed.slice(index + character.length)
        expect(refusal(header)).toBe("malformed")
      }
    }
  })

  test("when any bit of the digest differs", () => {
    for (let index = 7; index < signed.length; index++) {
      const digit = Number.parseInt(signed.charAt(index), 16)
      for (const bit of [1, 2, 4, 8]) {
        const changed = (digit ^ bit).toString(16).toUpperCase()
        expect(refusal(signed.slice(0, index) + changed + signed.slice(index + 1))).toBe("mismatch")
      }
    }
  })

  test("when any bit of the body differs", () => {
    const random = seeded(51)
    for (let round = 0; round < tries(200); round++) {
      const size = 1 + Math.floor(random() * 300)
      const original = Uint8Array.from({ length: size }, () => Math.floor(random() * 256))
      const header = sign(main.hmac, original)
      expect(verify([main], header, original, 0).ok).toBe(true)
      const tampered = Uint8Array.from(original)
      const at = Math.floor(random() * size)
      tampered[at] = (tampered[at] ?? 0) ^ (1 << Math.floor(random() * 8))
      expect(verify([main], header, tampered, 0)).toEqual({ ok: false, reason: "mismatch" })
      expect(verify([main], header, original.slice(0, -1), 0)).toEqual({ ok: false, reason: "mismatch" })
    }
  })

  test("when it was made with another secret, or without a secret", () => {
    expect(refusal(signed, [secret("other", "whsec_other")])).toBe("mismatch")
    expect(refusal(signed, [])).toBe("mismatch")
  })
})

describe("rotation", () => {
  const old = secret("old", "whsec_old", 1000)
  const byOld = sign(old.hmac, body)

  test("any of the secrets verifies, and the result has its name", () => {
    expect(verify([main, old], byOld, body, 0)).toEqual({ ok: true, secret: "old" })
    expect(verify([old, main], signed, body, 0)).toEqual({ ok: true, secret: "main" })
  })

  test("a secret verifies until it expires, and not from then on", () => {
    expect(refusal(byOld, [main, old], 999)).toBe("accepted")
    expect(refusal(byOld, [main, old], 1000)).toBe("expired")
  })

  test("an expired secret does not stop another with the same value", () => {
    expect(verify([old, secret("again", "whsec_old")], byOld, body, 5000)).toEqual({ ok: true, secret: "again" })
  })

  test("a wrong signature is a mismatch even when a secret has expired", () => {
    expect(refusal(sign(hmacSha256("whsec_stranger"), body), [main, old], 5000)).toBe("mismatch")
  })

  test("a verification leaves nothing behind for the next", () => {
    expect(refusal(signed)).toBe("accepted")
    expect(refusal(`${signed.slice(0, -1)}g`)).toBe("malformed")
    expect(refusal(null)).toBe("missing")
    expect(refusal(byOld)).toBe("mismatch")
    expect(refusal(signed)).toBe("accepted")
  })
})
