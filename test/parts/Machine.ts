/**
 * A machine to install on. It runs a copy of this Debian's files that is thrown away, with systemd as the first
 * process, in namespaces of its own. It leaves no trace here, and ends with the test process.
 */
import { spawn, spawnSync } from "node:child_process"
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const systemd = "/lib/systemd/systemd"
const namespaces = ["--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "--fork", "--kill-child"]

/** The path of cgroups version 2, also on a machine that has version 1 as well. */
const cgroups = (): string | undefined =>
  /^cgroup2 (\S+) cgroup2 /m.exec(existsSync("/proc/mounts") ? readFileSync("/proc/mounts", "utf8") : "")?.[1] ??
  undefined

/** Why such a machine can't run here, or `undefined` if it can. */
export const reasonToSkip = (): string | undefined => {
  if (process.env.RELAY_PARTS !== "1") return "RELAY_PARTS=1 bun test runs it, as root on Debian"
  if (!existsSync("/etc/debian_version")) return "it needs Debian"
  if (process.getuid?.() !== 0) return "it needs root"
  if (!existsSync(systemd)) return "it needs systemd (apt-get install systemd)"
  if (cgroups() === undefined) return "it needs cgroups of version 2"
  const overlay =
    'd=$(mktemp -d); mount -t tmpfs t "$d" && mkdir "$d/u" "$d/w" "$d/r" && mount -t overlay o -o "lowerdir=/,upperdir=$d/u,workdir=$d/w" "$d/r"; code=$?; umount -l "$d"; rmdir "$d"; exit $code'
  const { status, stderr } = spawnSync("unshare", [...namespaces, "sh", "-c", overlay], { encoding: "utf8" })
  return status === 0 ? undefined : `it needs to mount in namespaces of its own: ${stderr.trim()}`
}

export interface Ran {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

export interface Machine {
  /** Runs a command there as root, and waits for its end. */
  readonly run: (...command: ReadonlyArray<string>) => Ran
  /** Wraps a command of this machine to run it on that machine's network. */
  readonly onItsNetwork: (command: ReadonlyArray<string>) => readonly [program: string, ...args: ReadonlyArray<string>]
  /** This machine's path of a file on that machine, for reading and writing. */
  readonly path: (path: string) => string
  readonly stop: () => Promise<void>
}

/** Kills the machine when its standard input ends, which is the test process's. */
const guarded = '"$@" </dev/null & pid=$!; exec 3<&0; (read -r _ <&3; kill -9 $pid 2>/dev/null) & wait $pid'

const removeCgroup = (directory: string): void => {
  const { stdout } = spawnSync("find", [directory, "-depth", "-type", "d"], { encoding: "utf8" })
  for (const path of stdout.split("\n").filter((line) => line !== "")) rmdirSync(path)
}

/** Starts a machine, and waits until its systemd accepts commands. */
export const startMachine = async (): Promise<Machine> => {
  const directory = mkdtempSync(join(tmpdir(), "relay-machine-"))
  const cgroup = join(cgroups() ?? "", `relay-machine-${process.pid}`)
  mkdirSync(cgroup)
  let said = ""
  const enter = `echo $$ >${join(cgroup, "cgroup.procs")} && exec unshare ${namespaces.join(" ")} sh "$@"`
  const shell = spawn(
    "sh",
    ["-c", guarded, "sh", "sh", "-c", enter, "sh", join(import.meta.dir, "machine.sh"), directory],
    {
      stdio: ["pipe", "pipe", "pipe"],
    },
  )
  for (const stream of [shell.stdout, shell.stderr]) stream.on("data", (chunk) => (said += chunk))

  const stop = async (): Promise<void> => {
    shell.stdin.end()
    while (shell.exitCode === null && shell.signalCode === null) await Bun.sleep(20)
    for (let tries = 0; ; tries++) {
      try {
        removeCgroup(cgroup)
        break
      } catch (error) {
        // The machine's processes need a moment to end.
        if (tries === 250) throw error
        await Bun.sleep(20)
      }
    }
    rmSync(directory, { recursive: true, force: true })
  }

  /** The process id of its first process on this machine. */
  const first = (): string | undefined => {
    const file = join(cgroup, "init.scope", "cgroup.procs")
    return existsSync(file) ? (readFileSync(file, "utf8").split("\n")[0] ?? "") || undefined : undefined
  }
  const enterBy = (pid: string, ...kinds: ReadonlyArray<string>) => ["--target", pid, ...kinds, "--"]
  const run = (...command: ReadonlyArray<string>): Ran => {
    const pid = first()
    if (pid === undefined) throw new Error(`the machine has ended: ${said}`)
    const { status, stdout, stderr } = spawnSync("nsenter", [...enterBy(pid, "--all"), ...command], {
      encoding: "utf8",
      maxBuffer: 64 * 1024 * 1024,
      env: {
        PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        DEBIAN_FRONTEND: "noninteractive",
        LC_ALL: "C.UTF-8",
      },
    })
    return { code: status ?? -1, stdout, stderr }
  }
  const isUp = () => first() !== undefined && run("systemctl", "is-active", "machine.target").code === 0
  while (!isUp()) {
    if (shell.exitCode !== null) {
      await stop()
      throw new Error(`the machine did not start: ${said}`)
    }
    await Bun.sleep(50)
  }
  return {
    run,
    onItsNetwork: (command) => ["nsenter", ...enterBy(first() ?? "", "--net"), ...command],
    path: (path) => `/proc/${first()}/root${path}`,
    stop,
  }
}
