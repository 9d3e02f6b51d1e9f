/** The command line's help as a manual page, and its completions. */
import { execFile } from "node:child_process"
import { promisify } from "node:util"
import type { Version } from "./Version.ts"

/** The command that starts the relay, such as `["dist/relay"]`. */
export type Program = ReadonlyArray<string>

const shells = ["bash", "zsh", "fish"] as const

export interface Help {
  /** The manual page relay(1) as roff. */
  readonly manual: string
  readonly completions: Readonly<Record<(typeof shells)[number], string>>
}

const said = async ([command = "", ...words]: Program, ...args: ReadonlyArray<string>): Promise<string> => {
  const env = { PATH: process.env.PATH, NO_COLOR: "1" }
  return (await promisify(execFile)(command, [...words, ...args], { env, maxBuffer: 1 << 24 })).stdout
}

const completions = async (program: Program): Promise<Help["completions"]> => {
  const [bash = "", zsh = "", fish = ""] = await Promise.all(
    shells.map((shell) => said(program, "--completions", shell)),
  )
  return { bash, zsh, fish }
}

/** A command's help by heading, such as `USAGE` with the lines below it. */
type Sections = ReadonlyMap<string, ReadonlyArray<string>>

const sections = (help: string): Sections => {
  const found = new Map<string, Array<string>>()
  let lines: Array<string> = []
  for (const line of help.trimEnd().split("\n")) {
    if (/^[A-Z][A-Z ]*$/.test(line)) {
      lines = []
      found.set(line, lines)
    } else if (line !== "" || lines.length > 0) lines.push(line.replace(/^ {2}/, ""))
  }
  for (const all of found.values()) while (all.at(-1) === "") all.pop()
  return found
}

/** The subcommands of a command, from its help. */
const below = (help: Sections): ReadonlyArray<string> =>
  (help.get("SUBCOMMANDS") ?? []).flatMap((line) => /^[a-z][a-z-]*/.exec(line)?.[0] ?? [])

/** A command's path with its help, followed by all commands below it. */
const commands = async (
  program: Program,
  path: ReadonlyArray<string> = [],
): Promise<ReadonlyArray<readonly [path: string, help: Sections]>> => {
  const help = sections(await said(program, ...path, "--help"))
  const others = await Promise.all(below(help).map((name) => commands(program, [...path, name])))
  return [[["relay", ...path].join(" "), help], ...others.flat()]
}

/** Escapes text so that roff prints it unchanged. */
const roff = (text: string): string =>
  text.replaceAll("\\", "\\e").replaceAll("-", "\\-").replace(/^[.']/, "\\&$&").trimEnd()

/** A line of help, such as `--flag VALUE    its meaning`, or a single word. */
const definition = (line: string): ReadonlyArray<string> => {
  const [, term = line, text = ""] = /^(\S.*?) {2,}(.*)$/.exec(line) ?? []
  return [".TP", `.B ${roff(term)}`, roff(text)]
}

const verbatim = (lines: ReadonlyArray<string>): ReadonlyArray<string> => [".nf", ...lines.map(roff), ".fi"]
const described = (help: Sections): ReadonlyArray<string> =>
  (help.get("DESCRIPTION") ?? []).map((line) => (line === "" ? ".PP" : roff(line)))
const listed = (title: string, lines: ReadonlyArray<string> = []): ReadonlyArray<string> =>
  lines.length === 0 ? [] : [".PP", title, ...lines.flatMap(definition)]

/** The manual page relay(1), with a section for each command. */
const manualPage = async (program: Program, { version, time }: Version): Promise<string> => {
  const [[, relay] = ["", new Map() as Sections], ...others] = await commands(program)
  const day = new Date(time * 1000).toISOString().slice(0, 10)
  return [
    `.TH RELAY 1 "${day}" "relay ${version}" "User Commands"`,
    ".SH NAME",
    "relay \\- receives signed webhook deliveries, keeps them, and relays them",
    ".SH SYNOPSIS",
    ...verbatim(relay.get("USAGE") ?? []),
    ".SH DESCRIPTION",
    ...described(relay),
    ".SH FLAGS OF EVERY COMMAND",
    ...(relay.get("GLOBAL FLAGS") ?? []).flatMap(definition),
    ".SH COMMANDS",
    ...others.flatMap(([path, help]) => [
      `.SS ${roff(path)}`,
      ...described(help),
      ".PP",
      ...verbatim(help.get("USAGE") ?? []),
      ...listed("Arguments:", help.get("ARGUMENTS")),
      ...listed("Flags:", help.get("FLAGS")),
      ...(help.has("EXAMPLES") ? [".PP", "Examples:", ".PP", ...verbatim(help.get("EXAMPLES") ?? [])] : []),
    ]),
    "",
  ].join("\n")
}

export const helpOf = async (program: Program, version: Version): Promise<Help> => {
  const [manual, completing] = await Promise.all([manualPage(program, version), completions(program)])
  return { manual, completions: completing }
}
