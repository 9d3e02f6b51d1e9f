/** The commands, each with a sentence about its task. Help, completions and the README's table are made from this list. */
import { Command } from "effect/cli"

/** A command that is loaded when it is called. Otherwise only its name and description are needed, for help. */
const command = <Name extends string, Input, Context, E, R>(
  description: string,
  load: () => Promise<Command.Command<Name, Input, Context, E, R>>,
) => ({
  description,
  load: async () => Command.withDescription(await load(), description),
})

export const commands = {
  alerts: command(
    "List, acknowledge and resolve the alerts of sinks with `alert`",
    async () => (await import("./commands/alerts.ts")).alerts,
  ),
  audit: command(
    "List what operators changed, newest first: who, when, and how it ended",
    async () => (await import("./commands/audit.ts")).audit,
  ),
  backtest: command(
    "Show what a config would have done with the journal's events; exits 1 if anything changes that --allow doesn't name",
    async () => (await import("./commands/backtest.ts")).backtest,
  ),
  dlq: command(
    "List dead letters, send them again, or delete them",
    async () => (await import("./commands/dlq.ts")).dlq,
  ),
  doctor: command(
    "Check sinks, journal, disk, clock, ports, secrets, certificates and the running relay; exits 1 if something is wrong",
    async () => (await import("./commands/doctor.ts")).doctor,
  ),
  events: command(
    "List the events in the journal, newest first, and the outcome of each",
    async () => (await import("./commands/events.ts")).events,
  ),
  explain: command(
    "Show which routes match an event type and why, or everything about one event",
    async () => (await import("./commands/explain.ts")).explain,
  ),
  init: command("Write a commented config to start from", async () => (await import("./commands/init.ts")).init),
  journal: command(
    "Maintain the journal: check, backup, salvage, import, copy, acknowledge",
    async () => (await import("./commands/journal.ts")).journal,
  ),
  lanes: command(
    "List, pause, resume, move and drop the lanes",
    async () => (await import("./commands/lanes.ts")).lanes,
  ),
  reload: command(
    "Reload the running relay's config atomically",
    async () => (await import("./commands/reload.ts")).reload,
  ),
  replay: command(
    "Replay events from the journal, each with a new idempotency key",
    async () => (await import("./commands/replay.ts")).replay,
  ),
  restart: command(
    "Start the running relay's program again, without refusing a delivery",
    async () => (await import("./commands/restart.ts")).restart,
  ),
  run: command(
    "Receive, store and relay deliveries until stopped",
    async () => (await import("./commands/run.ts")).run,
  ),
  runbook: command(
    "Print what a state of `relay status` means and what to do",
    async () => (await import("./commands/runbook.ts")).runbook,
  ),
  schema: command(
    "Print the JSON Schema of relay.config.json",
    async () => (await import("./commands/schema.ts")).schema,
  ),
  status: command(
    "Show the running relay's health, worst first; exits 1 if critical",
    async () => (await import("./commands/status.ts")).status,
  ),
  tap: command(
    "Follow accepted events live, and without --type and --sink the requests that are refused, at most 100 a second",
    async () => (await import("./commands/tap.ts")).tap,
  ),
  test: command(
    "Run the config's tests: which sinks events reach, and with which payload",
    async () => (await import("./commands/test.ts")).test,
  ),
  trigger: command(
    "Send correctly signed samples of an event type to a running relay",
    async () => (await import("./commands/trigger.ts")).trigger,
  ),
  validate: command(
    "Check the config, and that its sinks can be reached",
    async () => (await import("./commands/validate.ts")).validate,
  ),
}
