/**
 * The packages under systemd: installed, started, upgraded under load, removed and purged, on a machine of its own
 * (`test/parts/Machine.ts`). The machine is Debian, which installs the `.deb`. It also has rpm, which installs the
 * `.rpm`. RESTARTS is the number of upgrades and restarts under load, and KEPT the number of events in the journal at
 * that time.
 */

import { afterAll, beforeAll, expect, test } from "bun:test"
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { Effect } from "effect"
import manifest from "../../package.json" with { type: "json" }
import * as Fill from "../bench/Fill.ts"
import { numberOf, secret } from "../faults/relay/Traffic.ts"
import { operations } from "../lib/docs.ts"
import { until } from "../lib/kit.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { relayBinary, root } from "../lib/programs.ts"
import * as DeliveryClients from "../parts/DeliveryClients.ts"
import * as OtherMachine from "../parts/Machine.ts"
import { helpOf } from "./Help.ts"
import * as LinuxPackages from "./LinuxPackages.ts"
import { compile, native } from "./Targets.ts"
import { copyTree } from "./Tree.ts"
import { versionOf } from "./Version.ts"

const directory = mkdtempSync(join(tmpdir(), "relay-install-"))
afterAll(() => rmSync(directory, { recursive: true }))
/** The number of upgrades and restarts under load, and of events in the journal. */
const rounds = Number(process.env.RESTARTS ?? 1)
const keptEvents = Number(process.env.KEPT ?? 20_000)
const config = "/etc/relay/relay.config.json"
const archive = "/var/lib/relay/events.ndjson"
/** The path of a program without a package. It isn't below /tmp, because the machine doesn't see this one's /tmp. */
const program = "/opt/relay/relay"
/** The commands below a heading of the operations page. */
const procedure = (title: string): ReadonlyArray<string> =>
  operations
    .split(new RegExp(`^##? ${title}$`, "m"))[1]
    ?.match(/^```sh\n(.*?)\n^```$/ms)?.[1]
    ?.split("\n") ?? []

const packaged = async (tree: string, binary: string, into: string): Promise<void> => {
  const names = native()?.packaged
  if (names === undefined) throw new Error("nothing is packaged for this machine")
  const version = versionOf(tree)
  const help = await helpOf([binary], version)
  mkdirSync(into)
  const parts = { root: tree, version, help, binary, into, isKept: false }
  for (const format of ["deb", "rpm"] as const) await LinuxPackages.make(format, names, parts)
}

/** Copies this tree as its next version, with another config in the package. */
const nextVersion = (): string => {
  const tree = join(directory, "next")
  copyTree(tree)
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
  writeFileSync(join(tree, "package.json"), JSON.stringify({ ...manifest, version: "99.0.0" }))
  writeFileSync(join(tree, "CHANGELOG.md"), "## 99.0.0 (2099-01-01)\n")
  const packaged = join(tree, "config/deploy/packaged.json")
  writeFileSync(packaged, `// The next version's.\n${readFileSync(packaged, "utf8")}`)
  return tree
}

/** A relay installed on this machine would also be in its copy. */
const installed = ["/etc/relay", "/var/lib/relay", "/usr/bin/relay"].some((path) => existsSync(path))
const lacking =
  OtherMachine.reasonToSkip() ??
  LinuxPackages.reasonToSkip() ??
  DeliveryClients.reasonToSkip() ??
  (installed ? "a relay is installed on this machine" : undefined)

suiteUnless(lacking, "the packages on Debian under systemd", () => {
  let machine: OtherMachine.Machine

  beforeAll(async () => {
    const next = nextVersion()
    const target = native()
    if (target === undefined) throw new Error("nothing is compiled for this machine")
    await packaged(root, relayBinary(), join(directory, "0"))
    await packaged(next, await compile(next, target, join(directory, "built")), join(directory, "1"))
    machine = await OtherMachine.startMachine()
    // Otherwise each installation would index the manual pages of the whole system, which takes seconds.
    rmSync(machine.path("/var/lib/man-db/auto-update"), { force: true })
    for (const version of ["0", "1"]) {
      cpSync(join(directory, version), machine.path(`/opt/${version}`), { recursive: true })
    }
    writeFileSync(machine.path("/opt/0/signing-secret"), secret)
    mkdirSync(machine.path(dirname(program)))
    cpSync(relayBinary(), machine.path(program))
  }, 300_000)
  afterAll(() => machine?.stop())

  const run = (...command: ReadonlyArray<string>): string => {
    const { code, stdout, stderr } = machine.run(...command)
    if (code !== 0) throw new Error(`${command.join(" ")}: ${code}\n${stdout}${stderr}`)
    return stdout
  }
  /** Runs a script in the directory of the first version's packages. */
  const shell = (script: string) => run("sh", "-ec", `cd /opt/0\n${script}`)
  const isActive = () => machine.run("systemctl", "is-active", "relay").stdout.trim()
  const there = (path: string) => existsSync(machine.path(path))
  const owned = (path: string) => run("stat", "--format", "%a %U", path).trim()
  /** All files on the machine with the relay's name. */
  const named = () => run("find", "/etc", "/usr", "/var/lib", "/run", "-xdev", "-name", "*relay*").split("\n").sort()
  const mainPid = () => run("systemctl", "show", "--property", "MainPID", "--value", "relay").trim()
  const status = () => JSON.parse(run("relay", "status", "--json"))
  const head = (): number => status().journal.head
  const archived = (): ReadonlyArray<number> =>
    readFileSync(machine.path(archive), "utf8")
      .split("\n")
      // The last line may still be incomplete.
      .slice(0, -1)
      .map((line) => numberOf(JSON.parse(line).id))

  const trigger = () => {
    expect(run("relay", "trigger", "appointment.created", "-c", config)).toStartWith("202 ")
  }

  const installing = procedure("Installing")
  let before: ReadonlyArray<string>
  const edited = () => `// Ours.\n${readFileSync(join(root, "config/deploy/packaged.json"), "utf8")}`

  test("it is installed with its user and directories, and does not run before it has a secret", () => {
    before = named()
    expect(shell(installing[0] ?? "")).toContain("Put the webhook's signing secret into /etc/relay/secrets/scheduling")
    expect(run("relay", "--version")).toContain(manifest.version)
    expect(run("getent", "passwd", "relay")).toEndWith(":/var/lib/relay:/usr/sbin/nologin\n")
    expect([owned("/etc/relay/secrets"), owned(config)]).toEqual(["700 root", "644 root"])
    expect(run("dpkg", "--status", "relay")).toMatch(/^Conffiles:\n \/etc\/relay\/relay\.config\.json \w+$/m)
    expect(machine.run("systemd-analyze", "verify", "relay.service")).toMatchObject({ code: 0, stderr: "" })
    expect([isActive(), machine.run("systemctl", "is-enabled", "relay").stdout]).toEqual(["inactive", "disabled\n"])
  })

  test("it brings a manual page and completions that the system's programs read", () => {
    const manual = run("zcat", "/usr/share/man/man1/relay.1.gz")
    expect(manual).toMatch(/^\.TH RELAY 1 /)
    const commands =
      run("relay", "--help")
        .split("SUBCOMMANDS")[1]
        ?.matchAll(/^ {2}(\S+)/gm) ?? []
    const sections = [...commands].map(([, name]) => `.SS relay ${name}\n`)
    for (const section of [...sections, ".SS relay dlq replay\n"]) expect(manual).toContain(section)
    expect(sections.length).toBeGreaterThan(10)
    const completing = ". /usr/share/bash-completion/completions/relay && complete -p relay"
    expect(run("bash", "-c", completing)).toContain("relay")
    expect(there("/usr/share/zsh/vendor-completions/_relay")).toBe(true)
    expect(there("/usr/share/fish/vendor_completions.d/relay.fish")).toBe(true)
  })

  test("it starts as its own user without privileges, and takes an event", async () => {
    expect(installing).toHaveLength(3)
    shell(installing.slice(1).join("\n"))
    expect(isActive()).toBe("active")
    expect(run("ps", "-o", "user=,args=", "-p", mainPid())).toMatch(/^relay +\/usr\/bin\/relay run /)
    expect(readFileSync(machine.path(`/proc/${mainPid()}/status`), "utf8")).toMatch(
      /CapEff:\t0{16}\n(.*\n)*NoNewPrivs:\t1\nSeccomp:\t2\n/,
    )
    trigger()
    await until(() => there(archive) && archived().length === 1)
    const modes = ["/var/lib/relay", "/var/lib/relay/journal.db", archive].map(owned)
    expect(modes).toEqual(["750 relay", "600 relay", "600 relay"])
    expect(status()).toMatchObject({ level: "ok", version: manifest.version, configFile: config })
  })

  test("it is looked after by a member of its group, who can read no secret and no event", () => {
    const as = (...command: ReadonlyArray<string>) =>
      machine.run("setpriv", "--reuid=oncall", "--regid=oncall", "--init-groups", ...command)
    run("useradd", "--user-group", "--groups", "relay", "oncall")
    try {
      for (const command of ["validate", "doctor", "status", "lanes list", "dlq list"]) {
        const { code, stdout, stderr } = as("relay", ...command.split(" "))
        expect({ command, code, said: code === 0 ? "" : stdout + stderr }).toEqual({ command, code: 0, said: "" })
      }
      for (const command of ["validate", "doctor"]) run("relay", command)
      expect(as("relay", "lanes", "pause", "archive").code).toBe(0)
      expect(as("relay", "lanes", "resume", "archive").code).toBe(0)
      expect(as("relay", "doctor").stdout).toMatch(/held by the running relay/)
      for (const path of ["/etc/relay/secrets/scheduling", "/var/lib/relay/journal.db", archive]) {
        expect([path, as("cat", path).code]).toEqual([path, 1])
      }
      // A stranger can't read the token, and so can't operate the relay.
      const stranger = machine.run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "relay", "doctor")
      expect(stranger.code).toBe(78)
      expect(stranger.stderr).toContain(`the file of "file:/etc/relay/admin-token" can't be read: permission denied`)
      const pause = ["relay", "lanes", "pause", "archive"]
      expect(machine.run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", ...pause).code).not.toBe(0)
      expect(status().lanes).toContainEqual(expect.objectContaining({ name: "archive", condition: "running" }))
    } finally {
      run("userdel", "oncall")
    }
  })

  const credentials = "/etc/systemd/system/relay.service.d/credentials.conf"
  /** Makes the unit load more credentials. */
  const load = (...names: ReadonlyArray<string>) => {
    mkdirSync(machine.path(dirname(credentials)), { recursive: true })
    const lines = names.map((name) => `LoadCredential=${name}:/etc/relay/secrets/${name}`)
    writeFileSync(machine.path(credentials), ["[Service]", ...lines, ""].join("\n"))
    run("systemctl", "daemon-reload")
  }
  const reset = () => {
    writeFileSync(machine.path(config), readFileSync(join(root, "config/deploy/packaged.json")))
    run("rm", "-rf", dirname(credentials))
    run("systemctl", "daemon-reload")
    run("systemctl", "reset-failed", "relay")
    run("systemctl", "restart", "relay")
  }

  test("a new credential requires a restart: a reload without it is refused, and systemctl fails if it is", () => {
    const secrets = (): ReadonlyArray<string> =>
      status().webhooks[0].secrets.map(({ name }: { readonly name: string }) => name)
    try {
      run("install", "-m", "600", "/opt/0/signing-secret", "/etc/relay/secrets/scheduling-new")
      load("scheduling-new")
      const [first = "", second = ""] = readFileSync(machine.path(config), "utf8").split(`"secrets": [`)
      const added = `{ "name": "new", "value": "file:\${CREDENTIALS_DIRECTORY}/scheduling-new" }, `
      writeFileSync(machine.path(config), `${first}"secrets": [${added}${second}`)
      run("relay", "validate")
      const refused = machine.run("relay", "reload")
      expect(refused.code).toBe(78)
      expect(refused.stderr).toContain("systemd copies a new one when it starts the service: `systemctl restart relay`")
      // Some versions of systemd copy the credentials for each command that they run, including a reload.
      const isReloaded = machine.run("systemctl", "reload", "relay").code === 0
      expect(secrets()).toEqual(isReloaded ? ["new", "main"] : ["main"])
      run("systemctl", "restart", "relay")
      expect(secrets()).toEqual(["new", "main"])
      writeFileSync(machine.path(config), `${first}"secrets": [${second}`.replace('"match"', '"matches"'))
      expect(machine.run("systemctl", "reload", "relay").code).not.toBe(0)
      expect([isActive(), secrets()]).toEqual(["active", ["new", "main"]])
    } finally {
      reset()
    }
  })

  test("doctor blames nobody if the token is a credential that its user can't read", () => {
    run("useradd", "--user-group", "--groups", "relay", "oncall")
    try {
      run("install", "-m", "600", "/etc/relay/admin-token", "/etc/relay/secrets/admin-token")
      load("admin-token")
      const text = readFileSync(machine.path(config), "utf8")
      const token = `file:\${CREDENTIALS_DIRECTORY}/admin-token`
      writeFileSync(machine.path(config), text.replace("file:/etc/relay/admin-token", token))
      run("systemctl", "restart", "relay")
      const asked = machine.run("setpriv", "--reuid=oncall", "--regid=oncall", "--init-groups", "relay", "doctor")
      expect([asked.code, asked.code === 0 ? "" : asked.stdout]).toEqual([0, ""])
      expect(asked.stdout).not.toContain("stop it")
      expect(asked.stdout).toMatch(/warning +relay +status +not checked: .* wants a token/i)
      expect(asked.stdout).toMatch(/ok +journal +\S+ +held by process \d+ \(.*\), a relay that runs this config/)
      expect(run("relay", "doctor")).toMatch(/held by the running relay/)
    } finally {
      run("userdel", "oncall")
      reset()
    }
  })

  test("a secret that is empty or missing is named by validate, and ends the service without a restart for ever", async () => {
    const path = machine.path("/etc/relay/secrets/scheduling")
    try {
      for (const [spoil, said, ended] of [
        [() => writeFileSync(path, ""), "a secret can't be empty", "78"],
        [() => rmSync(path), "there is no such file", "243"],
      ] as const) {
        spoil()
        for (const command of ["validate", "doctor"]) {
          const { code, stderr } = machine.run("relay", command)
          expect([command, code, stderr]).toEqual([command, 78, expect.stringContaining(said)])
          expect(stderr).toContain("webhooks.scheduling.secrets[0].value")
        }
        machine.run("systemctl", "restart", "relay")
        await until(() => isActive() === "failed")
        const shown = ["show", "--property", "ExecMainStatus", "--value", "relay"]
        expect(run("systemctl", ...shown).trim()).toBe(ended)
      }
    } finally {
      writeFileSync(path, secret, { mode: 0o600 })
      reset()
    }
  })

  /** Replaces the journal with a large one. */
  const keepMany = async () => {
    const home = join(directory, "kept")
    mkdirSync(home)
    await Effect.runPromise(
      Fill.run(join(home, "journal.db"), { events: keptEvents, lane: "archive", isDelivered: true }),
    )
    run("sh", "-c", "systemctl stop relay && rm /var/lib/relay/journal.db*")
    cpSync(home, machine.path("/var/lib/relay"), { recursive: true })
    run("sh", "-c", "chown relay:relay /var/lib/relay/journal.db* && chmod 600 /var/lib/relay/journal.db*")
    run("systemctl", "start", "relay")
  }

  test(
    `it is upgraded and restarted under 300 deliveries a second (rounds: ${rounds}): none fails, none is lost, and the config stays as it was edited`,
    async () => {
      writeFileSync(machine.path(config), edited())
      await keepMany()
      const [deliveries, admin] = ["127.0.0.1:8080", "127.0.0.1:9080"]
      const clients = await DeliveryClients.start({
        deliveries,
        admin,
        secret,
        home: directory,
        there: machine.onItsNetwork,
      })
      const replace = (version: string, action: () => string) => {
        const old = mainPid()
        action()
        expect([status().version, mainPid() === old]).toEqual([version, false])
      }
      const install = (tree: string) => () => run("sh", "-c", `dpkg --install --force-confold /opt/${tree}/*.deb`)
      const holds: Array<number> = []
      let figures: DeliveryClients.Figures
      try {
        for (let round = 1; round <= rounds; round++) {
          replace("99.0.0", install("1"))
          replace("99.0.0", () => {
            const printed = run("relay", "restart", "--json", "-c", config)
            holds.push(JSON.parse(printed).took)
            return printed
          })
          if (round < rounds) replace(manifest.version, install("0"))
        }
        figures = await clients.end()
      } finally {
        await clients.stop()
      }

      expect(readFileSync(machine.path(config), "utf8")).toBe(edited())
      expect(readFileSync(machine.path(`${config}.dpkg-dist`), "utf8")).toStartWith("// The next version's.")
      await until(() => status().lanes.every(({ backlog }: { readonly backlog: number }) => backlog === 0))
      const arrived = archived()
      const isThere = new Set(arrived)
      const lost = figures.accepted.filter((number) => !isThere.has(number))
      console.log(
        `upgraded and restarted ${rounds} times with ${keptEvents} kept events: ${figures.accepted.length} accepted, ${lost.length} lost, ${arrived.length - isThere.size} duplicates; held ${Math.max(...holds)} ms at most, slowest response ${figures.longest} ms`,
      )
      for (const [client, statuses] of Object.entries(figures.counts)) {
        expect([client, Object.keys(statuses)]).toEqual([client, ["202"]])
      }
      expect(lost).toEqual([])
    },
    120_000 + rounds * 60_000 + keptEvents / 5,
  )

  test("the old version continues if the new version refuses the config", () => {
    const running = mainPid()
    writeFileSync(machine.path(config), '{ "admin": { "token": "file:/etc/relay/admin-token" } }')
    const { stderr } = machine.run("sh", "-c", "dpkg --install --force-confold /opt/0/*.deb")
    expect(stderr).toContain("this version refuses the config, so the one before still runs")
    expect([isActive(), mainPid(), status().version]).toEqual(["active", running, "99.0.0"])
    writeFileSync(machine.path(config), edited())
  })

  test("it waits for a decision about a changed config, and runs on until then", () => {
    run("sh", "-c", "dpkg --install --force-confold /opt/0/*.deb")
    expect([isActive(), status().version]).toEqual(["active", manifest.version])
    const running = mainPid()
    expect(machine.run("sh", "-c", "dpkg --install /opt/1/*.deb </dev/null").code).not.toBe(0)
    expect([isActive(), mainPid()]).toEqual(["active", running])
    run("dpkg", "--configure", "--force-confold", "relay")
    expect([isActive(), status().version]).toEqual(["active", "99.0.0"])
    expect(readFileSync(machine.path(config), "utf8")).toBe(edited())
  })

  test("it is removed and leaves the journal, the config and the secrets", () => {
    const kept = head()
    run("dpkg", "--remove", "relay")
    expect([isActive(), there("/usr/bin/relay")]).toEqual(["inactive", false])
    expect(readFileSync(machine.path(config), "utf8")).toBe(edited())
    expect(there("/etc/relay/secrets/scheduling")).toBe(true)
    expect(run(program, "journal", "check", "/var/lib/relay/journal.db")).toContain(
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

  test("it is installed again where its group has a member, and is purged after an interrupted upgrade", () => {
    shell(installing[0] ?? "")
    run("useradd", "--user-group", "--groups", "relay", "oncall")
    try {
      run("dpkg", "--purge", "relay")
      shell(installing.join("\n"))
      expect([isActive(), run("id", "--name", "--groups", "oncall").trim()]).toEqual(["active", "oncall relay"])
      run("sh", "-c", "dpkg --unpack /opt/1/*.deb")
      expect(isActive()).toBe("active")
      run("dpkg", "--purge", "relay")
      expect(isActive()).toBe("inactive")
      expect(machine.run("getent", "passwd", "relay").code).toBe(2)
    } finally {
      run("userdel", "oncall")
      machine.run("groupdel", "relay")
    }
    expect(named()).toEqual([...before])
  })

  test("a package continues the journal of a relay that was installed by hand, as the unit says", async () => {
    const steps = readFileSync(join(root, "config/deploy/relay.service"), "utf8").matchAll(/^# {3}(.*)$/gm)
    // A manual installation has no group that may read a token.
    const text = readFileSync(join(root, "config/deploy/packaged.json"), "utf8")
    writeFileSync(machine.path("/opt/0/relay.config.json"), text.replace(/, "token": "[^"]*"/, ""))
    shell(
      [
        `PATH=$PATH:${dirname(program)}; cd $(mktemp -d); cp /opt/0/* ${program} .`,
        ...[...steps].map(([, step]) => step),
      ].join("\n"),
    )
    trigger()
    await until(() => there(archive) && archived().length === 1)
    expect(run("readlink", "/var/lib/relay")).toBe("private/relay\n")
    shell(procedure("Replacing a manual installation by a package").join("\n"))
    expect(status()).toMatchObject({ version: manifest.version, journal: { head: 1 } })
    trigger()
    await until(() => archived().length === 2)
    expect(owned("/var/lib/relay/journal.db")).toBe("600 relay")
    run("dpkg", "--purge", "relay")
    expect(named()).toEqual([...before])
  })

  const rpm = Bun.which("rpm") !== null
  if (!rpm) console.warn("skipped: the .rpm is installed by rpm: it needs rpm (apt-get install rpm)")
  test.skipIf(!rpm)(
    "the .rpm is installed, upgraded and downgraded while it runs, and erased but for the journal and the config",
    () => {
      // Dependencies are not checked, because rpm has no list of Debian's packages. rpm has no purge either.
      const rpmRun = (flag: string, ...words: ReadonlyArray<string>) => shell(`rpm ${flag} --nodeps ${words.join(" ")}`)
      expect(rpmRun("-i", "*.rpm")).toContain("Put the webhook's signing secret")
      shell(installing.slice(1).join("\n"))
      trigger()
      writeFileSync(machine.path(config), edited())
      const old = mainPid()
      rpmRun("-U", "../1/*.rpm")
      expect(mainPid()).not.toBe(old)
      expect([isActive(), status().version, status().journal.head]).toEqual(["active", "99.0.0", 1])
      expect(readFileSync(machine.path(config), "utf8")).toBe(edited())
      expect(there(`${config}.rpmnew`)).toBe(true)
      // The previous version can read the journal, because the schema is the same.
      const upgraded = mainPid()
      rpmRun("-U --oldpackage", "*.rpm")
      expect(mainPid()).not.toBe(upgraded)
      expect([isActive(), status().version, status().journal.head]).toEqual(["active", manifest.version, 1])
      expect(readFileSync(machine.path(config), "utf8")).toBe(edited())
      rpmRun("-e", "relay")
      expect([isActive(), there("/usr/bin/relay"), there("/usr/lib/systemd/system/relay.service")]).toEqual([
        "inactive",
        false,
        false,
      ])
      expect(there("/var/lib/relay/journal.db")).toBe(true)
      expect(readFileSync(machine.path(`${config}.rpmsave`), "utf8")).toBe(edited())
    },
  )

  test.skipIf(!rpm)("the .rpm is installed again where its group has a member, and goes on from its journal", () => {
    run("useradd", "--user-group", "--groups", "relay", "oncall")
    try {
      // The group stays, because it has a member.
      run("userdel", "relay")
      expect(run("getent", "group", "relay")).toContain("oncall")
      shell("rpm -i --nodeps *.rpm")
      expect(run("id", "--name", "--groups", "oncall").trim()).toBe("oncall relay")
      expect(run("id", "--name", "--group", "relay").trim()).toBe("relay")
      shell(installing.slice(1).join("\n"))
      expect([isActive(), status().journal.head]).toEqual(["active", 1])
      trigger()
      expect(status().journal.head).toBe(2)
      expect(owned("/var/lib/relay/journal.db")).toBe("600 relay")
    } finally {
      machine.run("rpm", "-e", "--nodeps", "relay")
      run("userdel", "oncall")
    }
    expect([isActive(), there("/usr/bin/relay")]).toEqual(["inactive", false])
  })
})
