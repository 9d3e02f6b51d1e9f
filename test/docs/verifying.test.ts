/**
 * Runs the code of `docs/reference/verifying.md` in each language, with signatures that the relay makes and with
 * deliveries that a receiver must refuse. The cases are drawn from a seed.
 */
import { expect, test } from "bun:test"
import { spawnSync } from "node:child_process"
import { createHmac } from "node:crypto"
import { cpSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Schema } from "effect"
import { hmacSha256, sign } from "../../src/event/Signature.ts"
import { SignatureConfig, signer } from "../../src/sinks/Signing.ts"
import { readPage } from "../lib/docs.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { seeded } from "../lib/seeded.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"

const page = readPage("docs/reference/verifying.md")

/** Fields as the drivers read them; the last is the body. */
interface Case {
  readonly title: string
  readonly which: "sender" | "standard"
  readonly secrets: ReadonlyArray<string>
  readonly texts: ReadonlyArray<string>
  readonly body: Uint8Array
  readonly isValid: boolean
}

const random = seeded(30)
const below = (count: number): number => Math.floor(random() * count)
/** Random bytes, because a signed body need not be text. */
const bytes = (length: number): Buffer => Buffer.from(Array.from({ length }, () => below(256)))
const oneOf = <A>(all: ReadonlyArray<A>): A => all[below(all.length)] as A

/** Returns the body with one more byte, or with one changed byte. */
const altered = (body: Uint8Array): Uint8Array => {
  if (body.length === 0 || random() < 0.3) return Buffer.concat([body, bytes(1)])
  const copy = Buffer.from(body)
  const at = below(copy.length)
  copy.writeUInt8((copy.readUInt8(at) + 1 + below(255)) % 256, at)
  return copy
}

const header = (secret: string, body: Uint8Array): string => sign(hmacSha256(secret), body)

const senderCases = (): ReadonlyArray<Case> => {
  const body = bytes(below(300))
  const secrets = Array.from({ length: 1 + below(3) }, () => `${bytes(12).toString("base64url")}é`)
  const good = header(oneOf(secrets), body)
  const one = (title: string, isValid: boolean, text: string, of: Uint8Array = body): Case => ({
    title: `the sender's: ${title}`,
    which: "sender",
    secrets,
    texts: [text],
    body: of,
    isValid,
  })
  return [
    one("by one of the secrets", true, good),
    one("by a secret that was taken away", false, header("former", body)),
    one("of another body", false, good, altered(body)),
    // Interface, section 5.1: a lowercase digest does not match.
    one("in lowercase", false, good.toLowerCase()),
    one("cut off", false, good.slice(0, below(good.length))),
    one("with more behind it", false, `${good}${oneOf([" ", "0", ",", `,${good}`])}`),
    one("without ASCII", false, good.replace(/.$/, "é")),
    one("missing", false, ""),
  ]
}

const standardSecret = () => `${oneOf(["whsec_", ""])}${bytes(24 + below(41)).toString("base64")}`

const standardCases = (): ReadonlyArray<Case> => {
  const body = bytes(below(300))
  const secrets = Array.from({ length: 1 + below(3) }, standardSecret)
  const known = oneOf(secrets)
  const signed = (secret: string | ReadonlyArray<string>, at = Date.now()) => {
    const config = Schema.decodeUnknownSync(SignatureConfig)({ scheme: "standardWebhooks", secret })
    const headers = signer(config)(body, { id: "evt_1.2é", at })
    return ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) => headers[name] ?? "")
  }
  const one = (title: string, isValid: boolean, texts: ReadonlyArray<string>, of: Uint8Array = body): Case => ({
    title: `Standard Webhooks: ${title}`,
    which: "standard",
    secrets,
    texts,
    body: of,
    isValid,
  })
  const [id = "", timestamp = "", signature = ""] = signed(known)
  const away = () => (600 + below(1e6)) * 1_000
  /** A correct signature with a text that isn't a time. */
  const timed = (text: string) => {
    const key = Buffer.from(known.replace("whsec_", ""), "base64")
    const digest = createHmac("sha256", key).update(`${id}.${text}.`).update(body).digest("base64")
    return [id, text, `v1,${digest}`]
  }
  return [
    one("by one of the secrets", true, [id, timestamp, signature]),
    one("by a new secret that the receiver lacks, and by one that it has", true, signed([standardSecret(), known])),
    one("beside one of another version", true, [id, timestamp, `v2,AAAA v1a,BBBB ${signature}`]),
    one("by a secret that was taken away", false, signed(standardSecret())),
    one("of another body", false, [id, timestamp, signature], altered(body)),
    one("of another id", false, [`${id}1`, timestamp, signature]),
    one("of another time", false, [id, String(Number(timestamp) - 1), signature]),
    one("old", false, signed(known, Date.now() - away())),
    one("of the future", false, signed(known, Date.now() + away())),
    one("of another version", false, [id, timestamp, signature.replace("v1,", oneOf(["v2,", "v1a,", "", "v1"]))]),
    one("cut off", false, [id, timestamp, signature.slice(0, below(signature.length))]),
    one("without ASCII", false, [id, timestamp, signature.replace(/.$/, "é")]),
    one("with a time that is no number", false, timed(oneOf(["", "now", "NaN", "0x70000000", "9".repeat(30)]))),
    one("missing", false, ["", "", ""]),
  ]
}

const encoded = (text: string | Uint8Array): string => Buffer.from(text).toString("base64")
const lineOf = ({ which, secrets, texts, body }: Case): string =>
  [encoded(which), secrets.map(encoded).join(","), ...texts.map(encoded), encoded(body)].join("\t")

interface Language {
  /** The block's word. */
  readonly block: string
  readonly file: string
  readonly driver: string
  readonly compare: string
  /** A program, and the package of Debian that has it. */
  readonly program: string
  readonly from: string
  readonly compile?: ReadonlyArray<string>
  readonly run: (directory: string) => readonly [string, ...ReadonlyArray<string>]
}

const languages: Readonly<Record<string, Language>> = {
  TypeScript: {
    block: "ts",
    file: "webhook.ts",
    driver: "driver.ts",
    compare: "timingSafeEqual(",
    program: process.execPath,
    from: "bun",
    run: (directory) => [process.execPath, join(directory, "driver.ts"), directory],
  },
  Python: {
    block: "python",
    file: "webhook.py",
    driver: "driver.py",
    compare: "hmac.compare_digest(",
    program: "python3",
    from: "python3",
    run: (directory) => ["python3", join(directory, "driver.py")],
  },
  Go: {
    block: "go",
    file: "webhook.go",
    driver: "driver.go",
    compare: "hmac.Equal(",
    program: "go",
    from: "golang-go",
    compile: ["go", "build", "-o", "driver", "driver.go", "webhook.go"],
    run: (directory) => [join(directory, "driver")],
  },
  Java: {
    block: "java",
    file: "Webhook.java",
    driver: "Driver.java",
    compare: "MessageDigest.isEqual(",
    program: "javac",
    from: "openjdk-17-jdk-headless",
    compile: ["javac", "-encoding", "UTF-8", "Driver.java", "Webhook.java"],
    run: (directory) => ["java", "-cp", directory, "Driver"],
  },
  Ruby: {
    block: "ruby",
    file: "webhook.rb",
    driver: "driver.rb",
    compare: "OpenSSL.secure_compare(",
    program: "ruby",
    from: "ruby",
    run: (directory) => ["ruby", join(directory, "driver.rb")],
  },
  PHP: {
    block: "php",
    file: "webhook.php",
    driver: "driver.php",
    compare: "hash_equals(",
    program: "php",
    from: "php-cli",
    run: (directory) => ["php", join(directory, "driver.php")],
  },
}

test("the page on verifying signatures has a section for each language, with its code", () => {
  expect([...page.matchAll(/^## (.*)$/gm)].map(([, title = ""]) => title)).toEqual(Object.keys(languages))
  const blocks = [...page.matchAll(/^```(\w+)$/gm)].map(([, word]) => word)
  expect(blocks).toEqual(Object.values(languages).map(({ block }) => block))
})

/** Returns why a language is skipped. A compiler takes seconds, so it runs only with RELAY_PARTS=1. */
const reasonToSkip = ({ program, from, compile }: Language): string | undefined => {
  if (Bun.which(program) === null) return `it needs ${program} (apt-get install ${from})`
  return compile === undefined || process.env.RELAY_PARTS === "1" ? undefined : "RELAY_PARTS=1 bun test compiles it"
}

const execute = (directory: string, [program = "", ...args]: ReadonlyArray<string>, input = ""): string => {
  const { status, stdout, stderr, error } = spawnSync(program, args, { cwd: directory, input, encoding: "utf8" })
  if (status !== 0) throw new Error(`${program}: ${status} ${error?.message ?? ""}\n${stdout}${stderr}`)
  return stdout
}

for (const [name, language] of Object.entries(languages)) {
  suiteUnless(reasonToSkip(language), `signatures are verified in ${name}`, () => {
    const code = new RegExp(`^\`\`\`${language.block}\n(.*?)^\`\`\``, "ms").exec(page)?.[1] ?? ""

    test("exactly as the relay makes them", () => {
      const directory = temporaryDirectory("verifying-")
      // A program of Go is one package.
      writeFileSync(join(directory, language.file), code.replace("package webhook", "package main"))
      cpSync(join(import.meta.dir, "verifying", language.driver), join(directory, language.driver))
      if (language.compile !== undefined) execute(directory, language.compile)
      // The cases are made after the compilation, so that their signatures are recent.
      const cases = Array.from({ length: 25 }, () => [...senderCases(), ...standardCases()]).flat()
      const said = execute(directory, language.run(directory), `${cases.map(lineOf).join("\n")}\n`)
      const answers = said.trimEnd().split("\n")
      expect(answers.length).toBe(cases.length)
      const wrong = cases.filter(({ isValid }, index) => answers[index] !== String(isValid))
      expect([...new Set(wrong.map(({ title, isValid }) => `${title}: ${isValid ? "refused" : "accepted"}`))]).toEqual(
        [],
      )
    }, 60_000)

    test("with a comparison in constant time", () => {
      expect(code).toContain(language.compare)
    })
  })
}
