/**
 * The `.deb` on Debian under systemd: installed, started, upgraded under load,
 * removed and purged, on a machine of its own (`test/parts/Machine.ts`).
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, join } from "node:path"
import manifest from "../../package.json" with { type: "json" }
import { numberOf, secret } from "../faults/relay/Traffic.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { relayBinary, root } from "../lib/programs.ts"
import * as OtherMachine from "../parts/Machine.ts"
import { helpOf } from "./Help.ts"
import * as LinuxPackages from "./LinuxPackages.ts"
import { compile, native } from "./Targets.ts"
import { copyTree } from "./Tree.ts"
import { versionOf } from "./Version.ts"

const directory = mkdtempSync(join(tmpdir(), "relay-install-"))
const config = "/etc/relay/relay.config.json"
const archive = "/var/lib/relay/events.ndjson"
const operations = readFileSync(join(root, "config/operations.md"), "utf8")
const installing = /^## Installing\n.*?^```sh\n(.*?)\n^```$/ms.exec(operations)?.[1]?.split("\n") ?? []

const packaged = async (tree: string, binary: string): Promise<string> => {
  const names = native()?.packaged
  if (names === undefined) throw new Error("nothing is packaged for this machine")
  const version = versionOf(tree)
  const help = await helpOf([binary], version)
  const parts = { root: tree, version, help, binary, into: directory }
  return LinuxPackages.make("deb", names, { ...parts, compression: "none" })
}

/** This tree as its next version, with another config in the package. */
const nextVersion = (): string => {
  const tree = join(directory, "next")
  copyTree(tree)
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
  writeFileSync(join(tree, "package.json"), JSON.stringify({ ...manifest, version: "99.0.0" }))
  writeFileSync(join(tree, "CHANGELOG.md"), "## 99.0.0 (2099-01-01)\n")
  const packaged = join(tree, "config/packaged.json")
  writeFileSync(packaged, `// The next version's.\n${readFileSync(packaged, "utf8")}`)
  return tree
}

suiteUnless(OtherMachine.reasonToSkip() ?? LinuxPackages.reasonToSkip(), "the .deb on Debian under systemd", () => {
  const versions: Array<string> = []
  let machine: OtherMachine.Machine

  beforeAll(async () => {
    const next = nextVersion()
    const target = native()
    if (target === undefined) throw new Error("nothing is compiled for this machine")
    versions.push(await packaged(root, relayBinary()))
    versions.push(await packaged(next, await compile(next, target, join(directory, "built"))))
    machine = await OtherMachine.startMachine()
    // Not the relay's: it takes seconds, for all the manual pages of a system.
    rmSync(machine.path("/var/lib/man-db/auto-update"), { force: true })
    for (const [index, file] of versions.entries()) {
      mkdirSync(machine.path(`/root/${index}`))
      cpSync(file, machine.path(`/root/${index}/${basename(file)}`))
    }
  }, 120_000)
  afterAll(async () => {
    await machine?.stop()
    rmSync(directory, { recursive: true, force: true })
  })

  const run = (...command: ReadonlyArray<string>): string => {
    const { code, stdout, stderr } = machine.run(...command)
    if (code !== 0) throw new Error(`${command.join(" ")}: ${code}\n${stdout}${stderr}`)
    return stdout
  }
  /** A line of the procedure on the operations page. */
  const asThePageSays = (line: number) => run("sh", "-c", `cd /root/0 && ${installing[line]}`)
  const isActive = () => machine.run("systemctl", "is-active", "relay").stdout.trim()
  const there = (path: string) => existsSync(machine.path(path))
  const owned = (path: string) => run("stat", "--format", "%a %U", path).trim()
  /** Everything on it that is called after the relay. */
  const named = () => run("find", "/etc", "/usr", "/var/lib", "/run", "-xdev", "-name", "*relay*").split("\n").sort()
  const mainPid = () => run("systemctl", "show", "--property", "MainPID", "--value", "relay").trim()
  const status = () => JSON.parse(run("relay", "status", "--json"))
  const head = (): number => status().journal.head
  const archived = (): ReadonlyArray<number> =>
    readFileSync(machine.path(archive), "utf8")
      .trimEnd()
      .split("\n")
      .map((line) => numberOf(JSON.parse(line).id))
  const until = async (holds: () => boolean): Promise<void> => {
    while (!holds()) await Bun.sleep(20)
  }

  let before: ReadonlyArray<string>
  const edited = () => `// Ours.\n${readFileSync(join(root, "config/packaged.json"), "utf8")}`

  test("it is installed with its user and directories, and does not run before it has a secret", () => {
    before = named()
    expect(asThePageSays(0)).toContain("Put the webhook's signing secret into /etc/relay/secrets/scheduling")
    expect(run("relay", "--version")).toContain(manifest.version)
    expect(run("getent", "passwd", "relay")).toEndWith(":/var/lib/relay:/usr/sbin/nologin\n")
    expect([owned("/var/lib/relay"), owned("/etc/relay/secrets"), owned(config)]).toEqual([
      "700 relay",
      "700 root",
      "644 root",
    ])
    expect(run("dpkg", "--status", "relay")).toMatch(/^Conffiles:\n \/etc\/relay\/relay\.config\.json \w+$/m)
    expect(machine.run("systemd-analyze", "verify", "relay.service")).toMatchObject({ code: 0, stderr: "" })
    expect([isActive(), machine.run("systemctl", "is-enabled", "relay").stdout]).toEqual(["inactive", "disabled\n"])
  })

  test("it brings a manual page and completions that the system's programs read", () => {
    expect(run("sh", "-c", "zcat /usr/share/man/man1/relay.1.gz")).toMatch(/^\.TH RELAY 1 /)
    const completing = ". /usr/share/bash-completion/completions/relay && complete -p relay"
    expect(run("bash", "-c", completing)).toContain("relay")
    expect(there("/usr/share/zsh/vendor-completions/_relay")).toBe(true)
    expect(there("/usr/share/fish/vendor_completions.d/relay.fish")).toBe(true)
  })

  test("it starts as its own user without privileges, and takes an event", async () => {
    writeFileSync(machine.path("/root/0/signing-secret"), secret)
    for (const line of [1, 2]) asThePageSays(line)
    expect(isActive()).toBe("active")
    expect(run("ps", "-o", "user=,args=", "-p", mainPid())).toMatch(/^relay +\/usr\/bin\/relay run /)
    expect(readFileSync(machine.path(`/proc/${mainPid()}/status`), "utf8")).toMatch(
      /CapEff:\t0{16}\n(.*\n)*NoNewPrivs:\t1\nSeccomp:\t2\n/,
    )
    const credentials = "CREDENTIALS_DIRECTORY=/etc/relay/secrets"
    expect(run("env", credentials, "relay", "trigger", "appointment.created", "-c", config)).toStartWith("202 ")
    await until(() => there(archive) && archived().length === 1)
    expect([owned("/var/lib/relay/journal.db"), owned(archive)]).toEqual(["600 relay", "600 relay"])
    expect(status()).toMatchObject({ level: "ok", version: manifest.version, configFile: config })
  })

  test("it is upgraded under load: nothing is lost, and the config stays as it was edited", async () => {
    writeFileSync(machine.path(config), edited())
    const sender = machine.onItsNetwork(process.execPath, join(import.meta.dir, "sender.ts"), "127.0.0.1:8080")
    let said = ""
    sender.stdout?.on("data", (chunk) => {
      said += chunk
    })
    const ended = new Promise((resolve) => sender.once("close", resolve))
    const first = head()
    await until(() => head() > first + 100)
    const old = mainPid()
    run("sh", "-c", "dpkg --install --force-confold /root/1/*.deb")
    const second = head()
    await until(() => head() > second + 100)
    sender.stdin?.end()
    await ended

    expect(status().version).toBe("99.0.0")
    expect(mainPid()).not.toBe(old)
    expect(readFileSync(machine.path(config), "utf8")).toBe(edited())
    expect(readFileSync(machine.path(`${config}.dpkg-dist`), "utf8")).toStartWith("// The next version's.")
    await until(() => status().lanes.every(({ backlog }: { readonly backlog: number }) => backlog === 0))
    const acknowledged: ReadonlyArray<number> = JSON.parse(said)
    const arrived = archived()
    const lost = acknowledged.filter((number) => !new Set(arrived).has(number))
    console.log(
      `upgraded under load: ${acknowledged.length} acknowledged, ${lost.length} lost, ${arrived.length - new Set(arrived).size} duplicates`,
    )
    expect(lost).toEqual([])
  }, 60_000)

  test("it goes on as it is where the new version refuses the config", () => {
    const running = mainPid()
    writeFileSync(machine.path(config), "{}")
    const { stderr } = machine.run("sh", "-c", "dpkg --install --force-confold /root/0/*.deb")
    expect(stderr).toContain("this version refuses the config, so the one before still runs")
    expect([isActive(), mainPid(), status().version]).toEqual(["active", running, "99.0.0"])
    writeFileSync(machine.path(config), edited())
  })

  test("it is removed and leaves the journal, the config and the secrets", () => {
    const kept = head()
    run("dpkg", "--remove", "relay")
    expect([isActive(), there("/usr/bin/relay")]).toEqual(["inactive", false])
    expect(readFileSync(machine.path(config), "utf8")).toBe(edited())
    expect(there("/etc/relay/secrets/scheduling")).toBe(true)
    expect(run(relayBinary(), "journal", "check", "/var/lib/relay/journal.db")).toContain(
      `${kept.toLocaleString("en")} events`,
    )
    expect(owned("/var/lib/relay/journal.db")).toBe("600 relay")
  })

  test("it is purged, and nothing of it is left", () => {
    run("dpkg", "--purge", "relay")
    expect(named()).toEqual([...before])
    expect(machine.run("getent", "passwd", "relay").code).toBe(2)
    expect(machine.run("systemctl", "--failed", "--quiet").stdout).toBe("")
  })
})
