/** The commands, each with a sentence about its task. Help, completions and the README's table are made from this list. */
import { Record } from "effect"
import { Command } from "effect/cli"

/** A command that is loaded when it is called. Otherwise only its name and description are needed, for help. */
const lazy =
  <Name extends string, Input, Context, E, R>(load: () => Promise<Command.Command<Name, Input, Context, E, R>>) =>
  async (description: string) =>
    Command.withDescription(await load(), description)

const loaders = {
  alerts: lazy(async () => (await import("./commands/alerts.ts")).alerts),
  audit: lazy(async () => (await import("./commands/audit.ts")).audit),
  backtest: lazy(async () => (await import("./commands/backtest.ts")).backtest),
  dlq: lazy(async () => (await import("./commands/dlq.ts")).dlq),
  doctor: lazy(async () => (await import("./commands/doctor.ts")).doctor),
  events: lazy(async () => (await import("./commands/events.ts")).events),
  explain: lazy(async () => (await import("./commands/explain.ts")).explain),
  init: lazy(async () => (await import("./commands/init.ts")).init),
  journal: lazy(async () => (await import("./commands/journal.ts")).journal),
  lanes: lazy(async () => (await import("./commands/lanes.ts")).lanes),
  reload: lazy(async () => (await import("./commands/reload.ts")).reload),
  replay: lazy(async () => (await import("./commands/replay.ts")).replay),
  restart: lazy(async () => (await import("./commands/restart.ts")).restart),
  run: lazy(async () => (await import("./commands/run.ts")).run),
  runbook: lazy(async () => (await import("./commands/runbook.ts")).runbook),
  schema: lazy(async () => (await import("./commands/schema.ts")).schema),
  status: lazy(async () => (await import("./commands/status.ts")).status),
  tap: lazy(async () => (await import("./commands/tap.ts")).tap),
  test: lazy(async () => (await import("./commands/test.ts")).test),
  trigger: lazy(async () => (await import("./commands/trigger.ts")).trigger),
  validate: lazy(async () => (await import("./commands/validate.ts")).validate),
}

const descriptions: Readonly<Record<keyof typeof loaders, string>> = {
  alerts: "List, acknowledge and resolve the alerts of sinks with `alert`",
  audit: "List what operators changed, newest first: who, when, and how it ended",
  backtest:
    "Show what a config would have done with the journal's events; exits 1 if anything changes that --allow doesn't name",
  dlq: "List dead letters, send them again, or delete them",
  doctor:
    "Check sinks, journal, disk, clock, ports, secrets, certificates and the running relay; exits 1 if something is wrong",
  events: "List the events in the journal, newest first, and the outcome of each",
  explain: "Show which routes match an event type and why, or everything about one event",
  init: "Write a commented config to start from",
  journal: "Maintain the journal: check, backup, salvage, import, copy, acknowledge",
  lanes: "List, pause, resume, move and drop the lanes",
  reload: "Reload the running relay's config atomically",
  replay: "Replay events from the journal, each with a new idempotency key",
  restart: "Start the running relay's program again, without refusing a delivery",
  run: "Receive, store and relay deliveries until stopped",
  runbook: "Print what a state of `relay status` means and what to do",
  schema: "Print the JSON Schema of relay.config.json",
  status: "Show the running relay's health, worst first; exits 1 if critical",
  tap: "Follow accepted events live, and without --type and --sink the requests that are refused, at most 100 a second",
  test: "Run the config's tests: which sinks events reach, and with which payload",
  trigger: "Send correctly signed samples of an event type to a running relay",
  validate: "Check the config, and that its sinks can be reached",
}

export const commands = Record.map(loaders, (load, name) => ({
  description: descriptions[name],
  load: () => load(descriptions[name]),
}))
