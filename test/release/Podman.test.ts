/**
 * The image under Podman, as root and as an ordinary user, by the commands in `docs/operations/install.md`. Ports
 * differ. If this machine allows less than Podman's defaults require, limits, network and runtime differ as well.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { spawnSync } from "node:child_process"
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import manifest from "../../package.json" with { type: "json" }
import { Sender, secret } from "../faults/relay/Traffic.ts"
import { procedures } from "../lib/docs.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { freePort } from "../lib/port.ts"
import { relayBinary, root } from "../lib/programs.ts"
import * as DebianBase from "./DebianBase.ts"
import * as Oci from "./Oci.ts"

const lacking = (): string | undefined => {
  if (process.env.RELAY_PARTS !== "1") return "RELAY_PARTS=1 bun test runs it, as root on Debian with Podman"
  if (process.getuid?.() !== 0) return "it needs root, to add an ordinary user"
  if (Bun.which("podman") === null) return "podman is not installed"
  return DebianBase.reasonToSkip()
}

/** Settings for a machine without `CAP_SYS_RESOURCE`, without a bridge, or with both versions of cgroups. */
const modest = `[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
netns = "host"
[engine]
runtime = "runc"
`
/** Errors of Podman's parts before the image's program starts. */
const unable = /OCI|cgroup|namespace|newuidmap|netavark|CNI/i
const user = "relay-podman-test"

suiteUnless(lacking(), "the container image under Podman", () => {
  const directory = mkdtempSync(join(tmpdir(), "relay-podman-"))

  beforeAll(async () => {
    chmodSync(directory, 0o755)
    const architecture = process.arch === "x64" ? "amd64" : process.arch
    const base = await DebianBase.fetchBase(architecture)
    const platforms = [{ architecture, base, binary: relayBinary() }]
    await Oci.make(root, { version: manifest.version, time: 1_795_219_200 }, platforms, directory)
    spawnSync("useradd", ["--create-home", user])
  }, 120_000)
  afterAll(() => {
    spawnSync("userdel", ["--remove", user])
    rmSync(directory, { recursive: true, force: true })
  })

  for (const as of ["root", user]) {
    test(`takes an event, answers status and drains, run by ${as === "root" ? "root" : "an ordinary user"}`, async () => {
      const home = join(directory, as)
      const port = await freePort()
      for (const name of ["relay", "secrets", "storage", "run"]) mkdirSync(join(home, name), { recursive: true })
      const config = readFileSync(join(root, "config/deploy/relay/relay.config.json"), "utf8")
        .replace("0.0.0.0:8080", `0.0.0.0:${port}`)
        .replace("0.0.0.0:9080", `0.0.0.0:${await freePort()}`)
        .replace("https://backoffice.example.com", "http://127.0.0.1:9")
      writeFileSync(join(home, "relay/relay.config.json"), config)
      writeFileSync(join(home, "secrets/scheduling"), secret)
      writeFileSync(join(home, "secrets/admin-token"), "the-token-of-this-test-is-long-enough")
      // The layers of an ordinary user are in a directory that the user owns.
      const storage = `[storage]\ndriver = "vfs"\ngraphroot = "${home}/storage"\nrunroot = "${home}/run"\nrootless_storage_path = "${home}/storage"\n`
      writeFileSync(join(home, "storage.conf"), storage)
      writeFileSync(join(home, "containers.conf"), "")
      const owner = Number(spawnSync("id", ["-u", as]).stdout.toString())
      for (const name of ["", "storage", "run"]) chownSync(join(home, name), owner, owner)

      const settings = `CONTAINERS_CONF=${home}/containers.conf CONTAINERS_STORAGE_CONF=${home}/storage.conf`
      const run = (command: string) => {
        const { status, stdout, stderr } = spawnSync("su", [as, "-c", `cd ${home} && ${settings} ${command}`])
        return { code: status, said: `${stdout}${stderr}` }
      }
      const expectRun = (command: string) => {
        const { code, said } = run(command)
        expect([command, code, code === 0 ? "" : said]).toEqual([command, 0, ""])
        return said
      }
      const [load = "", start = "", status = ""] = (procedures.get("As a container image") ?? "")
        .replaceAll("\\\n", "")
        .trim()
        .split("\n")
        .map((line) => line.replaceAll("8080", String(port)).replace("--input ", "--input ../"))
      expectRun(load)

      const image = `localhost/relay:${manifest.version}`
      const once = `podman run --rm --pull never --publish 127.0.0.1:${port}:${port} ${image} --version`
      const first = run(once)
      if (first.code !== 0) writeFileSync(join(home, "containers.conf"), modest)
      const { code, said } = first.code === 0 ? first : run(once)
      if (code !== 0 && unable.test(said)) {
        // `Oci.test.ts` shows without Podman that the image's program runs.
        console.warn(`skipped: the container image under Podman, run by ${as}: it can't run here: ${said.trim()}`)
        return
      }
      expect([code, said]).toEqual([0, expect.stringContaining(`relay v${manifest.version}`)])

      try {
        expectRun(start)
        for (;;) {
          const { said } = run("podman logs relay")
          if (said.includes('"started"')) break
          if (/Exited/.test(run("podman ps --all").said)) throw new Error(said)
          await Bun.sleep(100)
        }
        expect(await new Sender(`127.0.0.1:${port}`).send()).toBe(202)
        expect(expectRun(status)).toContain("1 received")
        expectRun("podman stop relay")
        expect(expectRun("podman logs relay")).toContain("drained, everything accepted is on disk")
      } finally {
        run("podman rm --force relay")
        run("podman system prune --all --force --volumes")
      }
    }, 180_000)
  }
})
