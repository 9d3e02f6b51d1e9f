/** The checks of `relay doctor`: ports, journal, disk, certificates, secrets, clients and clock. */
import { Clock, Duration, Effect, FileSystem, Option, Path, type PlatformError, Result } from "effect"
import { ChildProcess, ChildProcessSpawner } from "effect/process"
import { health, levelOf, type State } from "../../admin/status/Health.ts"
import type { Status } from "../../admin/status/Status.ts"
import * as Address from "../../config/Address.ts"
import type { Certificate } from "../../config/Certificate.ts"
import {
  type ClientsConfig,
  expiresWithin,
  haveExpired,
  isExpiring,
  type JournalConfig,
  noticeOfExpiry,
  type RelayConfig,
  successorOf,
  type Webhook,
} from "../../config/Config.ts"
import type { CertificateFault } from "../../config/load/Load.ts"
import { mistakenSecrets } from "../../config/rules/SecretText.ts"
import * as Clients from "../../enrichment/Clients.ts"
import type { Bytes, EpochMillis, Millis } from "../../event/Quantities.ts"
import type { Inspected, JournalFile } from "../../journal/JournalType.ts"
import * as WallClock from "../../journal/WallClock.ts"
import { codeOf } from "../../runtime/Errors.ts"
import { diskOf, whyNotWritten } from "../../runtime/FileSystem.ts"
import {
  fileIdentity,
  type Holder,
  isOfServiceUser,
  lockHolder,
  portHolder,
  seesAll,
  unchecked,
} from "../../runtime/Files.ts"
import { type ServeError, serve } from "../../runtime/Runtime.ts"
import { ask } from "../support/adminClient.ts"
import { bytes, count, span } from "../support/output.ts"
import { lazily, withDeadline } from "../support/Program.ts"

/** The result of one check of `doctor`. */
export type Verdict = "wrong" | "warning" | "ok"

export interface Finding {
  readonly part:
    | "config"
    | "journal"
    | "clients"
    | "certificate"
    | "sink"
    | "disk"
    | "clock"
    | "port"
    | "secret"
    | "relay"
  /** The name of the sink, the port and so on. */
  readonly name: string
  readonly verdict: Verdict
  /** The problem and what to do, or the fact that is in order. */
  readonly message: string
}

export type Findings = ReadonlyArray<Finding>

export const finder =
  (part: Finding["part"], name: string) =>
  (verdict: Verdict, message: string): Finding => ({ part, name, verdict, message })

// Explains which process holds a port or the journal if no relay of the config has answered.
//
// **Guarantee.** It says "stop it" only about a relay whose program and config were read. If this user
// can't see a fact, the finding names the fact and is a warning.

type Found = readonly [Verdict, string]

/** The port or journal that is held, and the alternative for this config. */
interface Held {
  /** The first words of a sentence, such as `127.0.0.1:8080 is taken`. */
  readonly what: string
  /** An alternative, such as `use another port`. */
  readonly otherwise: string
}

const asRoot = (): string => (seesAll() ? "" : ": run this command as root")

/** Returns the finding on the process that holds it. `file` is the config. */
export const judge = (holder: Holder | undefined, file: string, { what, otherwise }: Held): Found => {
  if (holder === undefined) {
    return [
      "warning",
      `${what}, by a process that can't be seen here, so it is not known whether it is the relay${asRoot()}`,
    ]
  }
  const by = `${what} by ${holder.words}`
  if (holder.program === undefined) return ["warning", `${by}, whose command can't be read here${asRoot()}`]
  if (!holder.isRelay) return ["wrong", `${by}, which runs ${holder.program} and is not a relay: ${otherwise}`]
  const { config } = holder
  if (config === undefined) return ["warning", `${by}, a relay whose config can't be seen here${asRoot()}`]
  if (fileIdentity(config) === fileIdentity(file)) return ["ok", `${by}, a relay that runs this config`]
  return ["wrong", `${by}, a relay that runs another config, ${config}: stop it, or ${otherwise}`]
}

// Checks whether the relay that answers, another process, or no process holds the journal.

/** `runs` means that a relay of this config answers. `file` is the config's file. */
export const holding = ({ path, lock }: Pick<JournalFile, "path" | "lock">, runs: boolean, file: string): Finding => {
  const at = finder("journal", path)
  const holder = lockHolder(lock)
  if (holder !== undefined) {
    if (runs) return at("ok", `held by the running relay, ${holder.words}`)
    return at(...judge(holder, file, { what: "held", otherwise: 'give this config its own "journal.path"' }))
  }
  return runs
    ? at(
        "warning",
        "held by no process that can be seen here, although the relay runs: it is in a container, or its journal is another",
      )
    : at("ok", "held by no process that can be seen here")
}

// Checks that the ports are free or taken by the running relay, and reports the status of that relay.

/** Reports whether a process listens at the address. Fails if no process can. */
const isTaken = Effect.fnUntraced(function* (
  address: Address.Address,
  { tls, socket }: Pick<RelayConfig, "tls" | "socket"> = {},
) {
  // The sender repeats a delivery that arrives at this moment.
  const handler = () => new Response(null, { status: 503, headers: { "retry-after": "1", connection: "close" } })
  return yield* Effect.scoped(serve({ address, handler, socket, ...(tls && { tls }) })).pipe(
    Effect.as(false),
    Effect.catchIf(
      (error) => error.isTaken === true,
      () => Effect.succeed(true),
    ),
  )
})

const askStatus = ask((client) => client.status()).pipe(
  withDeadline((time) => Effect.fail({ message: `what listens at admin.listen does not answer within ${time}` })),
  Effect.result,
)

/** Facts about this user, the config's file, and whether a relay of this config answered. */
interface Known {
  readonly runs: boolean
  readonly file: string
  /** Whether this user may see every process and listen on every port. */
  readonly seesAll: boolean
}

export const port = (
  key: string,
  address: Address.Address,
  taken: Result.Result<boolean, ServeError>,
  { runs, file, seesAll }: Known,
): Finding => {
  const at = finder("port", key)
  const where = Address.format(address)
  if (Result.isFailure(taken)) {
    const { isDenied, message } = taken.failure
    // The service may have the privilege that this user lacks.
    if (isDenied === true && !seesAll) {
      return at("warning", `${where} was not checked: this user may not listen there; run this command as root`)
    }
    return at("wrong", message)
  }
  if (taken.success) {
    if (runs) return at("ok", `${where} is taken by the running relay`)
    const otherwise = `use another ${address.unix === undefined ? "port" : "path"}`
    const holder = address.unix === undefined ? portHolder(address.port) : undefined
    return at(...judge(holder, file, { what: `${where} is taken`, otherwise }))
  }
  return runs && (address.port !== 0 || address.unix !== undefined)
    ? at("warning", `${where} is free although the relay runs: it was started with another config, so restart it`)
    : at("ok", `${where} is free`)
}

/** Finds certificates whose renewed files the relay has not loaded yet. */
const untaken = ({ certificates }: Status, config: RelayConfig): Findings =>
  certificates
    .filter((one) =>
      config.certificates.some(({ key, fingerprint }) => key === one.key && fingerprint !== one.fingerprint),
    )
    .map(({ key }) =>
      finder("certificate", key)("warning", "it was renewed, and the running relay has the one before: `relay reload`"),
    )

/** States that the checks of the config's secrets and certificates already report. */
const ofConfig: ReadonlyArray<State> = [
  "no-valid-secret",
  "secret-expired",
  "secret-expiring",
  "certificate-expired",
  "certificate-expiring",
  "certificate-incomplete",
  "certificate-issuer-unknown",
]

/** Joins texts into the line of a finding. Some texts end with a full stop. */
const sentences = (texts: ReadonlyArray<string>): string =>
  texts
    .map((text) => text.trim())
    .filter((text) => text !== "")
    .reduce((before, text) => `${before}${/[.!?:]$/.test(before) ? "" : "."} ${text[0]?.toUpperCase()}${text.slice(1)}`)

/** Returns the findings on the relay that answered. */
const relay = (status: Status, config: RelayConfig): Findings => {
  const { version, now, startedAt, lanes } = status
  const summary = `${version} is up ${span(now - startedAt)} with ${count(lanes.length, "lane")}`
  const problems = health(status).problems.filter(({ state }) => !ofConfig.includes(state))
  const found = problems.map((problem) =>
    finder("relay", problem.name)(
      levelOf(problem) === "critical" ? "wrong" : "warning",
      sentences([...problem.lines, ...(problem.action === "" ? [] : [`What to do: ${problem.action}`])]),
    ),
  )
  return [finder("relay", "status")("ok", summary), ...found, ...untaken(status, config)]
}

/** Reports whether the relay requires a token that this user can't read. */
const wasDenied = (error: { readonly message: string; readonly isDenied?: boolean | undefined }): boolean =>
  error.isDenied === true

/** Returns the finding on a relay that did not report its status. It is a warning if this user lacks the token. */
const unanswered = (error: Parameters<typeof wasDenied>[0]): Finding => {
  const at = finder("relay", "status")
  const why = sentences(error.message.split("\n"))
  return wasDenied(error) ? at("warning", `not checked: ${why}`) : at("wrong", why)
}

/** Returns the findings, and whether a relay of this config answers. `file` is the config's file. */
export const ports = Effect.fnUntraced(function* (config: RelayConfig, file: string) {
  const { listen, admin } = config
  const adminTaken = yield* Effect.result(isTaken(admin.listen))
  const listenTaken = yield* Effect.result(isTaken(listen, config))
  const status = Result.isSuccess(adminTaken) && adminTaken.success ? yield* askStatus : undefined
  const runs = status !== undefined && Result.isSuccess(status)
  const known = { runs, file, seesAll: seesAll() }
  const isDenied = status !== undefined && Result.isFailure(status) && wasDenied(status.failure)
  const ofAdmin = isDenied
    ? finder("port", "admin.listen")("ok", `${Address.format(admin.listen)} is taken by a relay, which wants a token`)
    : port("admin.listen", admin.listen, adminTaken, known)
  const both = [port("listen", listen, listenTaken, known), ofAdmin]
  const at = finder("relay", "status")
  const ofRelay: Findings =
    status === undefined
      ? [at("ok", `not running: nothing listens at ${Address.format(admin.listen)}`)]
      : Result.isSuccess(status)
        ? relay(status.success, config)
        : [unanswered(status.failure)]
  return { findings: [...both, ...ofRelay], runs }
})

// Checks the journal's disk: write permission, the duration of a sync, free space. It leaves no file behind.

/** A sync that takes longer is reported, because every response waits for one. */
const slowSync: Millis = 100
const syncs = 5

/** Measures the time until a small write is on disk: the median of several. */
const timeSync = Effect.fnUntraced(function* (directory: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* fs.makeTempFileScoped({ directory, prefix: ".relay-doctor-" })
  const file = yield* fs.open(path, { flag: "w" })
  const times: Array<number> = []
  for (let n = 0; n < syncs; n++) {
    yield* file.writeAll(new Uint8Array(4096))
    const [took] = yield* Effect.timed(file.sync)
    times.push(Duration.toMillis(took))
  }
  return times.toSorted((a, b) => a - b)[syncs >> 1] ?? 0
}, Effect.scoped)

/** Returns the directory or its nearest existing parent, because the relay creates missing directories. */
const nearestExisting = Effect.fnUntraced(function* (directory: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  let found = path.resolve(directory)
  // A directory that this user can't read counts as missing.
  const isThere = Effect.suspend(() => Effect.orElseSucceed(fs.exists(found), () => false))
  while (!(yield* isThere) && path.dirname(found) !== found) found = path.dirname(found)
  return found
})

const sizeOf = (path: string) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) =>
    Effect.match(fs.stat(path), { onSuccess: ({ size }) => Number(size), onFailure: () => 0 }),
  )

const refused = (
  what: string,
  { reason }: PlatformError.PlatformError,
  { of = "", directory = "" }: { readonly of?: string; readonly directory?: string } = {},
): readonly [Verdict, string] => {
  const cause = codeOf("cause" in reason ? reason.cause : undefined)
  const known = reason._tag === "PermissionDenied" || directory === "" ? undefined : whyNotWritten(cause, directory)
  if (known !== undefined) return ["wrong", `${what} can't be written: ${known}`]
  if (reason._tag === "BadResource") return ["wrong", `${what} is a file, not a directory: correct "journal.path"`]
  const why = reason._tag === "PermissionDenied" ? "permission denied" : (reason.description ?? reason._tag)
  return [
    "wrong",
    `${what} can't be written (${why}${of}): make it writable for the relay's user, or run this command as that user`,
  ]
}

/** Finds a file that can't be written. The journal or a file beside it may belong to another user that once ran the relay. */
const mayWrite = (file: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const [mayAccess, found] = yield* Effect.all([
      Effect.result(fs.access(file, { writable: true })),
      Effect.option(fs.stat(file)),
    ])
    if (Result.isSuccess(mayAccess) || mayAccess.failure.reason._tag !== "PermissionDenied") return []
    const of = Option.match(found, {
      onNone: () => "",
      onSome: ({ uid, mode }) =>
        `; it belongs to the user ${Option.getOrElse(uid, () => "?")} and has the mode ${(mode & 0o7777).toString(8).padStart(4, "0")}`,
    })
    return [refused(`the journal's file ${file}`, mayAccess.failure, { of })]
  })

const beside = ["", "-wal", "-shm", "-lock", "-mark"]

const check = Effect.fnUntraced(function* ({ path: journal, maxSize, minFree }: JournalFile) {
  const directory = (yield* Path.Path).dirname(journal)
  const nearest = yield* nearestExisting(directory)
  const at = finder("disk", directory)
  const shown = (yield* Path.Path).resolve(directory) === nearest ? directory : nearest
  const isUnknown = ({ reason }: PlatformError.PlatformError) =>
    reason._tag === "PermissionDenied" && isOfServiceUser(nearest)
  const written = yield* Effect.result(timeSync(nearest))
  const writing = Result.match(written, {
    onSuccess: sync,
    onFailure: (error): readonly [Verdict, string] =>
      isUnknown(error)
        ? ["warning", `${shown} ${unchecked}`]
        : refused(`the journal's directory ${shown}`, error, { directory: shown }),
  })
  const own =
    Result.isFailure(written) && isUnknown(written.failure)
      ? []
      : (yield* Effect.forEach(beside, (suffix) => mayWrite(journal + suffix))).flat()
  const used = (yield* sizeOf(journal)) + (yield* sizeOf(`${journal}-wal`))
  const found = yield* diskOf(nearest)
  return [
    at(...writing),
    ...own.map((found) => at(...found)),
    at(...room({ free: found?.freeBytes, used, maxSize, minFree })),
    ...few(found?.freeFiles).map((found) => at(...found)),
    ...(found?.volatility === undefined ? [] : [at("warning", `the journal is on ${found.volatility}`)]),
  ]
})

export const disk = (journal: JournalFile) =>
  withDeadline((time) =>
    Effect.succeed([finder("disk", journal.path)("wrong", `the disk does not answer within ${time}`)]),
  )(check(journal))

export const sync = (took: Millis): readonly [Verdict, string] =>
  took > slowSync
    ? ["warning", `a sync takes ${took.toFixed(0)} ms, and every answer waits for one: use a faster disk`]
    : ["ok", `writable; a sync takes ${took.toFixed(1)} ms`]

interface Room {
  /** The free bytes on the disk; `undefined` if unknown. */
  readonly free: Bytes | undefined
  readonly used: Bytes
  readonly maxSize: Bytes
  readonly minFree: Bytes
}

export const room = ({ free, used, maxSize, minFree }: Room): readonly [Verdict, string] => {
  if (free === undefined) return ["warning", "the free space is unknown here"]
  const left = `${bytes(free)} free`
  if (free < minFree) {
    return [
      "wrong",
      `${left}, and ${bytes(minFree)} must stay free (journal.minFree): deliveries get a 503 until space is freed`,
    ]
  }
  const growth = Math.max(0, maxSize - used)
  return free - minFree < growth
    ? [
        "warning",
        `${left}, but the journal may grow by ${bytes(growth)} (journal.maxSize): the disk fills first; free space, or lower maxSize`,
      ]
    : ["ok", `${left}, enough for a journal of ${bytes(maxSize)}`]
}

/** The journal's own files, and a temporary one. */
const neededFiles = 16

/** Reports a disk that has space, and can hold hardly any more files. */
export const few = (free: number | undefined): ReadonlyArray<readonly [Verdict, string]> =>
  free === undefined || free >= neededFiles
    ? []
    : [
        [
          "warning",
          `room for only ${count(free, "more file")}, though the disk has free space (df -i): delete files there`,
        ],
      ]

// Checks that the config's certificates are usable, don't expire soon, and have a complete chain.

const wrong = ({ key, message, hint = "" }: CertificateFault): Finding =>
  finder("certificate", key)("wrong", hint === "" ? message : `${message}: ${hint}`)

const lasting = (certificate: Certificate, now: EpochMillis): Finding => {
  const at = finder("certificate", certificate.key)
  const message = `${certificate.subject}, expires in ${span(certificate.notAfter - now)}`
  if (certificate.chain !== undefined)
    return at("warning", `${message}; ${certificate.chain.message}: ${certificate.chain.hint}`)
  return isExpiring(certificate, now) ? at("warning", `${message}: renew it, then \`relay reload\``) : at("ok", message)
}

export const certificates = (
  { certificates }: RelayConfig,
  faults: ReadonlyArray<CertificateFault>,
  now: EpochMillis,
): Findings => [
  ...faults.map(wrong),
  ...certificates.filter(({ key }) => !faults.some((fault) => fault.key === key)).map((one) => lasting(one, now)),
]

// Finds signing secrets that have expired, expire soon, or can't be secrets.

export const secrets = (webhooks: ReadonlyArray<Webhook>, now: EpochMillis): Findings =>
  webhooks.flatMap(({ name, secrets }) => {
    const at = finder("secret", name)
    if (secrets.length === 0) return [at("ok", "no secret, because nothing verifies its deliveries")]
    if (haveExpired(secrets, now)) {
      return [at("wrong", "every secret has expired, so every delivery is refused: add the current one")]
    }
    const mistaken = mistakenSecrets(secrets, now).map(({ name: secret, message, hint }) =>
      finder("secret", `${name}/${secret}`)("warning", `${message}: ${hint}`),
    )
    const expiring = secrets.filter((secret) => expiresWithin(secret, noticeOfExpiry, now))
    if (mistaken.length + expiring.length === 0) {
      return [at("ok", `${count(secrets.length, "secret")}, none about to expire`)]
    }
    const soon = expiring.map((secret) => {
      const { expires = now } = secret
      const hasSuccessor = successorOf(secret, secrets) !== undefined
      const advice = hasSuccessor ? "the sender must sign with another by then" : "add its successor to the config"
      const message =
        expires <= now ? "has expired and verifies nothing: remove it" : `expires in ${span(expires - now)}: ${advice}`
      return finder("secret", `${name}/${secret.name}`)("warning", message)
    })
    return [...mistaken, ...soon]
  })

// Checks the sender's API for client details by requesting a client that doesn't exist.

export const clients = Effect.fnUntraced(function* (config: ClientsConfig | undefined): Effect.fn.Return<Findings> {
  if (config === undefined) return []
  const at = finder("clients", config.baseUrl)
  return yield* Effect.scoped(Effect.flatMap(Clients.make(config), ({ get }) => get(nobody))).pipe(
    Effect.match({
      // If the API has this client, its answers say nothing about real clients.
      onSuccess: () => [
        at("warning", `it answers with details of a client that does not exist, ${nobody}: check "clients.baseUrl"`),
      ],
      onFailure: ({ reason, message }) =>
        reason === "unknown"
          ? [at("ok", "reached: it knows no client of a made-up id")]
          : [at("wrong", message.replace(/^client details: /, ""))],
    }),
  )
})

/** An id that no client has. */
const nobody = "cli_relay_doctor"

// Checks the clock's date, whether it jumps, and whether a time server synchronizes it.

const watched = Duration.millis(500)
/** The maximum deviation of the wall clock from the monotonic clock during the check. */
const tolerance: Millis = 250
/** A clock with an earlier time is wrong, because this program is newer. */
const earliest = Date.UTC(2026, 0, 1)

/** Asks systemd whether the clock is synchronized. Returns `undefined` without systemd. */
const synchronized = Effect.flatMap(ChildProcessSpawner.ChildProcessSpawner, (spawner) =>
  spawner.string(ChildProcess.make("timedatectl", ["show", "--property=NTPSynchronized", "--value"])),
).pipe(
  Effect.map((answer) => ({ yes: true, no: false })[answer.trim()]),
  Effect.timeout("2 seconds"),
  Effect.orElseSucceed(() => undefined),
)

export const clock = Effect.gen(function* () {
  const { drift } = WallClock.make(yield* Clock.Clock)
  yield* Effect.sleep(watched)
  return time({ now: yield* Clock.currentTimeMillis, drift: drift(), synchronized: yield* synchronized })
})

interface Time {
  readonly now: EpochMillis
  /** The wall clock's lead over the monotonic clock at the end of the check. */
  readonly drift: Millis
  readonly synchronized: boolean | undefined
}

export const time = ({ now, drift, synchronized }: Time): Finding => {
  const at = finder("clock", "time")
  const shown = new Date(now).toISOString()
  if (now < earliest) {
    return at("wrong", `the clock shows ${shown}: set it, because ages, expiry and certificates depend on it`)
  }
  if (Math.abs(drift) > tolerance) {
    return at(
      "warning",
      `the clock was moved by ${drift.toFixed(0)} ms within ${Duration.format(watched)}: it is being set, or a time service corrects it`,
    )
  }
  if (synchronized === false) {
    return at("warning", `${shown}, not synchronized by a time server: \`timedatectl set-ntp true\` enables that`)
  }
  return at(
    "ok",
    synchronized === undefined
      ? `${shown}; whether a time server synchronizes it can't be read here (no answer from timedatectl)`
      : `${shown}, synchronized by a time server`,
  )
}

// The journal and its file's directory, checked without opening the journal.

/** Returns the problems of a journal's file, directory and disk that stop a relay from running. */
export const checkJournalFile = Effect.fnUntraced(function* (config: JournalConfig) {
  const { fileOf } = yield* lazily(() => import("../../journal/Journals.ts"))
  const file = fileOf(config)
  if (file === undefined) return []
  const found = yield* disk(file)
  return found
    .filter(({ verdict }) => verdict !== "ok")
    .map(({ verdict, message }): Inspected => ({ verdict, message }))
})

/** Returns the findings of the journal's type, such as an unusable database or a file that is not a journal. */
export const checkJournal = Effect.fnUntraced(function* (config: JournalConfig) {
  const { inspect } = yield* lazily(() => import("../../journal/Journals.ts"))
  const unanswered = (time: string): ReadonlyArray<Inspected> => [
    { verdict: "wrong", message: `no answer within ${time}` },
  ]
  return yield* withDeadline((time) => Effect.succeed(unanswered(time)))(inspect(config))
})
