/** The claims of README.md that a command proves, with the figures in its output. */

/** A figure of the README, and its precision. */
interface Stated {
  /** A pattern of the README's words, with the figure as its only group. */
  readonly words: RegExp
  /** Whether a measured figure agrees with the stated one. */
  readonly agrees: (stated: number, measured: number) => boolean
}

export interface Figure {
  readonly name: string
  /** The figure is the first group in the command's output. The matches of a global pattern are added up. */
  readonly pattern: RegExp
  readonly stated?: Stated
}

export interface Claim {
  /** The name of its file in docs/evidence. */
  readonly name: string
  /** The bold word of its item in the README. */
  readonly title: string
  /** The README's command; an evidence run may add flags. */
  readonly command: string
  readonly flags?: string
  /** The conditions of the claim, and the limits of its evidence. */
  readonly condition: string
  readonly figures: ReadonlyArray<Figure>
  /** The command measures, and has bounds of its own that are stricter than the claim. It exits 1 beyond them. */
  readonly measures?: boolean
}

const about =
  (share: number) =>
  (stated: number, measured: number): boolean =>
    Math.abs(measured - stated) <= share * stated

const missed: Figure = { name: "bounds of the benchmark missed", pattern: / {2}(MISSED)$/gm }

/** A column of the campaign's table, summed over all lines that hold. */
const column = (name: string, before: number): Figure => ({
  name,
  pattern: new RegExp(`^[a-z0-9-]+: .*?(?: +\\d+){${before}} +(\\d+)(?: +\\S+){${4 - before}} +\\d+ {2}ok$`, "gm"),
})
const campaign: ReadonlyArray<Figure> = [
  { name: "lines that held", pattern: /^[a-z0-9-]+: .* \d+ +\S+ +\d+ {2}(ok)$/gm },
  column("rounds", 0),
  column("acknowledged events", 1),
  column("lost events", 2),
]
const ofFaults = "Each round's cases come from a seed."

export const claims: ReadonlyArray<Claim> = [
  {
    name: "durable",
    title: "Durable",
    command: "bun run faults",
    condition:
      "A shim between the relay and its files simulates power cuts and failing disks: it loses or keeps writes that were not synced. It can't show a disk that reports a sync that it has not made.",
    figures: campaign,
  },
  {
    name: "safeguards",
    title: "Tested tests",
    command: "bun run faults --mutants",
    condition:
      "The safeguards were picked by hand. `bun run mutants` changes random places instead. A run that was stopped continues: the seconds of work are of all of them.",
    figures: [
      { name: "safeguards removed", pattern: /^\d+ of (\d+) removed guards were noticed/gm },
      { name: "noticed", pattern: /^(\d+) of \d+ removed guards were noticed/gm },
      { name: "seconds of work", pattern: /^\d+ of \d+ removed guards were noticed.*; (\d+) s of work/gm },
    ],
  },
  {
    name: "isolation",
    title: "Isolated sinks",
    command: "bun run isolation",
    condition: "1,000 events a second. Two sinks refuse or hang; the others are HTTP sinks on this machine.",
    figures: [
      { name: "requirements met", pattern: / {2}(ok)$/gm },
      { name: "requirements missed", pattern: / {2}(MISSED)$/gm },
    ],
  },
  {
    name: "failover",
    title: "Failover",
    command: "bun run faults --only fleet-kill",
    condition: `Relays on one PostgreSQL server of this machine are killed by SIGKILL under load. ${ofFaults}`,
    figures: campaign,
  },
  {
    name: "hardened",
    title: "Hardened",
    command: "bun run faults --only requests",
    condition: "The requests are a list by the authors of the relay.",
    figures: [
      {
        name: "hostile requests",
        pattern: /^ +(\d+) requests of \d+ kinds/m,
        stated: { words: /the over (\d+) forged/, agrees: (stated, measured) => measured > stated },
      },
      ...campaign,
    ],
  },
  {
    name: "reload",
    title: "Atomic reloads",
    command: "bun run faults --only reload",
    condition: `Configs are replaced under load. ${ofFaults}`,
    figures: campaign,
  },
  {
    name: "overhead",
    title: "Low overhead",
    command: "bun run bench",
    flags: "--rows bare,file",
    measures: true,
    condition: "At full load of 64 connections on one machine. At fewer events a second each costs more.",
    figures: [
      {
        name: "CPU an event, of a server that only verifies and parses",
        pattern: /^file(?: +\S+ \(\S+\)){3} +([\d.]+) \(/gm,
        stated: { words: /takes about ([\d.]+) times the CPU of only verifying/, agrees: about(0.25) },
      },
      missed,
    ],
  },
  {
    name: "start",
    title: "Small",
    command: "bun run bench --only start",
    measures: true,
    condition: "The binary, idle for three seconds after its start.",
    figures: [
      {
        name: "idle memory, MiB",
        pattern: /^relay run, until ready .* (\d+) \[\d+\.\.\d+\]$/gm,
        stated: { words: /idle relay takes about (\d+) MB/, agrees: about(0.1) },
      },
      {
        name: "CPU of --help above an empty program's, ms",
        pattern: /^relay --help: CPU more than .*? ≤ 30 ms +(-?[\d.]+) /gm,
        stated: { words: /command takes about (\d+) ms more CPU/, agrees: about(0.5) },
      },
      missed,
    ],
  },
]

/** The figures in an output. A match that isn't a number, such as "ok", counts as one. */
export const figuresIn = (claim: Claim, output: string): Readonly<Record<string, number>> =>
  Object.fromEntries(
    claim.figures.flatMap(({ name, pattern }) => {
      const matches = pattern.global ? [...output.matchAll(pattern)] : [pattern.exec(output) ?? []]
      const found = matches.map(([, figure = ""]) => {
        const number = Number(figure)
        return Number.isNaN(number) ? 1 : number
      })
      const sum = found.reduce((sum, one) => sum + one, 0)
      return [[name, Number(sum.toFixed(2))]]
    }),
  )
