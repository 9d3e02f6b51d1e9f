/**
 * `bun run release [--only PART] [--target TARGET] [--sign KEY]` makes all files of a release in `dist/release`. It
 * first reports the parts that can't be made here, with the reason. Only a signed release may be published, because
 * only it has a provenance. Signing requires a publisher in SECURITY.md.
 */
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import { join, relative, resolve } from "node:path"
import { Effect } from "effect"
import * as Checksums from "./Checksums.ts"
import * as DebianBase from "./DebianBase.ts"
import { type Help, helpOf } from "./Help.ts"
import * as LinuxPackages from "./LinuxPackages.ts"
import * as Npm from "./Npm.ts"
import * as Oci from "./Oci.ts"
import { type Part, planOf } from "./Plan.ts"
import * as Provenance from "./Provenance.ts"
import { publicationOf } from "./Publisher.ts"
import * as Sbom from "./Sbom.ts"
import * as Signature from "./Signature.ts"
import * as Tarballs from "./Tarballs.ts"
import { compile, native } from "./Targets.ts"
import { versionOf } from "./Version.ts"

const root = resolve(import.meta.dir, "../..")
const into = join(root, "dist/release")
const compiled = join(root, "dist/targets")

const version = versionOf(root)

const orExit = <A>(make: () => A): A => {
  try {
    return make()
  } catch (error) {
    console.error(`release: ${error instanceof Error ? error.message : error}`)
    return process.exit(1)
  }
}
const { made, skipped, targets, key } = orExit(() => planOf(process.argv.slice(2)))
const publication = orExit(() => (key === undefined ? undefined : publicationOf(root, version, key)))
for (const { part, why } of skipped) console.warn(`left out: ${part}: ${why}`)
const makes = (part: Part): boolean => made.includes(part)
const formats = (["deb", "rpm"] as const).filter(makes)

/** Tarballs are made for every target. Packages and the image are made for targets that have a package. */
const compiledFor = targets.filter(
  ({ packaged }) => makes("tarballs") || (packaged !== undefined && (formats.length > 0 || makes("image"))),
)
const withPackage = compiledFor.filter(({ packaged }) => packaged !== undefined)
const tarballs = makes("tarballs") ? compiledFor : []
const single = (["npm", "image", "sbom"] as const).filter(makes)
const total = compiledFor.length + tarballs.length + withPackage.length * formats.length + single.length

const started = performance.now()
let begun = 0
const step = <A>(what: string, make: () => Promise<A>): Promise<A> => {
  begun++
  console.log(`[${begun}/${total}] ${what}`)
  return make()
}

/** Works on two at a time, because each compresses a hundred megabytes. */
const each = <A, B>(all: ReadonlyArray<A>, make: (one: A) => Promise<B>): Promise<ReadonlyArray<B>> =>
  Effect.runPromise(Effect.forEach(all, (one) => Effect.promise(() => make(one)), { concurrency: 2 }))

rmSync(into, { recursive: true, force: true })
mkdirSync(into, { recursive: true })

const built = await each(compiledFor, (target) =>
  step(`compile for ${target.name}`, async () => ({ target, binary: await compile(root, target, compiled) })),
)
const own = built.find(({ target }) => target === native())
const program = own === undefined ? [process.execPath, join(root, "src/main.ts")] : [own.binary]
// Only tarballs and packages contain the help.
const none: Help = { manual: "", completions: { bash: "", zsh: "", fish: "" } }
const help = built.length > 0 ? await helpOf(program, version) : none
const release = { root, version, help, into }

await each(tarballs.length > 0 ? built : [], (one) =>
  step(`tarball for ${one.target.name}`, () => Tarballs.make({ ...release, ...one })),
)
const binaries = built.flatMap(({ target: { packaged }, binary }) =>
  packaged === undefined ? [] : [{ packaged, binary }],
)
await each(
  binaries.flatMap((one) => formats.map((format) => ({ ...one, format }))),
  ({ format, packaged, binary }) =>
    step(`.${format} for ${packaged.debian}`, () => LinuxPackages.make(format, packaged, { ...release, binary })),
)
if (makes("npm")) await step("npm package", () => Npm.make(release))
/** Debian's packages in the image. */
let base: ReadonlyArray<string> = []
if (makes("image")) {
  await step("container image", async () => {
    const platforms = await each(binaries, async ({ packaged: { debian: architecture }, binary }) => ({
      architecture,
      binary,
      base: await DebianBase.fetchBase(architecture),
    }))
    base = platforms.flatMap((platform) => platform.base.packages)
    await Oci.make(root, version, platforms, into)
  })
}
rmSync(compiled, { recursive: true, force: true })
if (makes("sbom")) {
  await step("bill of materials", async () => {
    const sbom = Sbom.make(root, Bun.version, version.time)
    writeFileSync(join(into, "relay.cdx.json"), `${JSON.stringify(sbom, null, 2)}\n`)
  })
}
if (publication !== undefined) {
  const parameters = { parts: made, targets: compiledFor.map(({ name }) => name) }
  const provenance = Provenance.make(root, version, publication, parameters, base, into)
  writeFileSync(join(into, Provenance.file), `${JSON.stringify(provenance, null, 2)}\n`)
}
const checksums = Checksums.make(into)
writeFileSync(join(into, Checksums.file), checksums)
if (publication !== undefined) Signature.sign(into, publication)
const seconds = Math.round((performance.now() - started) / 1_000)
const signed = publication === undefined ? "not signed, so not to be published" : `signed by ${publication.key}`
console.log(
  `${checksums}relay ${version.version} is in ${relative(process.cwd(), into)}, made in ${seconds} s, ${signed}`,
)
