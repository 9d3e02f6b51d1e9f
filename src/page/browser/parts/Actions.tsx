/** Actions on sinks, alerts and dead letters. Each asks for confirmation first, and shows a message afterwards. */
import { type Signal, signal } from "@preact/signals"
import type { AlertReport } from "../../../admin/api/Api.ts"
import type { Selection } from "../../../admin/api/DeadLetterApi.ts"
import type { DeadLettersPreview } from "../../../admin/replay/ReplayReport.ts"
import type { Lane, Status } from "../../../admin/status/Status.ts"
import { quarantine } from "../../../event/Event.ts"
import { count, plain, relayCommand, span } from "../../../formats/Texts.ts"
import { admin } from "./AdminCalls.ts"
import { confirm } from "./Confirm.tsx"
import { Button, Choice, TextField } from "./Fields.tsx"
import { EventLink, Message, Moment, number, Text, TypeName } from "./Shown.tsx"

/** The lengths of a pause in milliseconds, by the flag's value. */
const lengths: Readonly<Record<string, number>> = { "1h": 3_600_000, "8h": 28_800_000, "1d": 86_400_000 }

const endingLabels = {
  deliver: "deliver the events that came meanwhile",
  digest: "send them as one digest",
  drop: "drop them, which can't be undone",
} as const

/** Binds a choice to a signal. */
const bound = (chosen: Signal<string>) => ({
  value: chosen.value,
  onChange: (value: string) => {
    chosen.value = value
  },
})

const pause = ({ name, backlog, alerts }: Lane): void => {
  const length = signal("")
  const ending = signal("deliver")
  const mutes = () => alerts === true && length.value !== ""
  const flags = () => [
    ...(length.value === "" ? [] : ["--for", length.value]),
    ...(mutes() && ending.value !== "deliver" ? ["--then", ending.value] : []),
  ]
  const Fields = () => (
    <>
      <Choice label="For" {...bound(length)} of={Object.keys(lengths)} any="until it is resumed" />
      {mutes() && (
        <Choice label="Then" {...bound(ending)} of={Object.keys(endingLabels)} labels={endingLabels} any="" />
      )}
    </>
  )
  const Command = () => <>{relayCommand("lanes", "pause", name, ...flags())}</>
  confirm({
    title: `Pause ${plain(name)}?`,
    what: (
      <>
        <p>
          Nothing is sent to it until the pause ends, also after a restart. Its events are kept until then
          {backlog > 0 && `; ${count(backlog, "event")} ${backlog === 1 ? "is" : "are"} pending now`}.
        </p>
        <Fields />
      </>
    ),
    command: <Command />,
    yes: "Pause",
    act: async () => {
      const forMillis = lengths[length.value]
      await admin.pause(name, {
        ...(forMillis !== undefined && { for: forMillis }),
        ...(mutes() && { ending: ending.value }),
      })
      return `${plain(name)} is paused${length.value === "" ? "" : ` for ${length.value}`}.`
    },
  })
}

const resume = ({ name, backlog, condition }: Lane): void =>
  confirm({
    title:
      condition === "waiting" || condition === "misconfigured" ? `Retry ${plain(name)} now?` : `Resume ${plain(name)}?`,
    what: (
      <p>{backlog === 0 ? "Nothing waits for it." : `${count(backlog, "event")} will be sent to it from now on.`}</p>
    ),
    command: relayCommand("lanes", "resume", name),
    yes: condition === "waiting" || condition === "misconfigured" ? "Retry now" : "Resume",
    act: async () => {
      await admin.resume(name)
      return `${plain(name)} is resumed.`
    },
  })

const move = ({ name, backlog, deadLetters }: Lane, sinks: ReadonlyArray<string>): void => {
  const to = signal(sinks[0] ?? "")
  const Command = () => <>{relayCommand("lanes", "move", name, to.value)}</>
  const Target = () => <Choice label="To the sink" {...bound(to)} of={sinks} any="" />
  confirm({
    title: `Move the backlog of ${plain(name)}?`,
    what: (
      <>
        <p>
          {count(backlog, "event")} will be sent to another sink instead.
          {deadLetters > 0 && ` Its ${count(deadLetters, "dead letter")} stay.`}
        </p>
        <Target />
      </>
    ),
    command: <Command />,
    yes: `Move ${count(backlog, "event")}`,
    act: async () => `${count((await admin.move(name, to.value)).count, "event")} moved to ${plain(to.value)}.`,
  })
}

const drop = ({ name, backlog, deadLetters }: Lane): void =>
  confirm({
    title: `Drop the backlog of ${plain(name)}?`,
    what: (
      <p>
        {count(backlog, "event")} {deadLetters > 0 && `and ${count(deadLetters, "dead letter")} `}
        will never be delivered there. This can't be undone.
      </p>
    ),
    command: relayCommand("lanes", "drop", name),
    yes: `Drop ${number(backlog)}`,
    isDangerous: true,
    act: async () => `${plain(name)} is dropped, with ${count((await admin.drop(name)).count, "event")}.`,
  })

/** Sinks that the config has. */
export const sinksOf = ({ lanes }: Status): ReadonlyArray<string> =>
  lanes.flatMap(({ name, condition }) => (name === quarantine || condition === "orphaned" ? [] : name))

/** `sinks` are the sinks to which a removed sink's events can be moved. */
export const SinkActions = ({ lane, sinks }: { readonly lane: Lane; readonly sinks: ReadonlyArray<string> }) => {
  const name = plain(lane.name)
  if (lane.condition === "orphaned") {
    return (
      <div class="row-actions">
        <Button text="Move…" label={`Move ${name}`} disabled={sinks.length === 0} onClick={() => move(lane, sinks)} />
        <Button text="Drop…" label={`Drop ${name}`} onClick={() => drop(lane)} />
      </div>
    )
  }
  const isWaiting = lane.condition === "waiting" || lane.condition === "misconfigured"
  const isStopped = lane.condition === "paused" || lane.condition === "blocked"
  // This lane sends nothing, so it can't be paused.
  if (lane.name === quarantine && !isStopped) return null
  return (
    <div class="row-actions">
      {isWaiting && <Button text="Retry now" label={`Retry ${name} now`} onClick={() => resume(lane)} />}
      {isStopped ? (
        <Button text="Resume" label={`Resume ${name}`} onClick={() => resume(lane)} />
      ) : (
        <Button text="Pause" label={`Pause ${name}`} onClick={() => pause(lane)} />
      )}
    </div>
  )
}

/** Incremented by each change on this page, so that lists reload. */
export const changes = signal(0)

const changed = (text: string): string => {
  changes.value += 1
  return text
}

const acknowledge = ({ sink, id }: AlertReport): void =>
  confirm({
    title: `Acknowledge alert ${id} of ${plain(sink)}?`,
    what: (
      <p>
        It sends no more reminders. If the sink has <code>resolve</code>, its end is still sent.
      </p>
    ),
    command: relayCommand("alerts", "ack", sink, String(id)),
    yes: "Acknowledge",
    act: async () => {
      await admin.acknowledgeAlert(sink, id)
      return changed(`Alert ${id} of ${plain(sink)} is acknowledged.`)
    },
  })

const resolve = ({ sink, id, status }: AlertReport): void =>
  confirm({
    title: `Resolve alert ${id} of ${plain(sink)}?`,
    what: (
      <p>
        It ends, and its next failure begins another alert.
        {status !== "pending" && (
          <>
            {" "}
            If the sink has <code>resolve</code>, its end is sent.
          </>
        )}
      </p>
    ),
    command: relayCommand("alerts", "resolve", sink, String(id)),
    yes: "Resolve",
    act: async () => {
      await admin.resolveAlert(sink, id)
      return changed(`Alert ${id} of ${plain(sink)} is resolved.`)
    },
  })

const mute = ({ sink, id }: AlertReport): void => {
  const length = signal("8h")
  const Length = () => <Choice label="For" {...bound(length)} of={Object.keys(lengths)} any="" />
  const Command = () => <>{relayCommand("alerts", "mute", sink, String(id), "--for", length.value)}</>
  confirm({
    title: `Mute alert ${id} of ${plain(sink)}?`,
    what: (
      <>
        <p>
          It sends nothing until then, also after a restart, and its failures are counted. If it changed meanwhile, one
          message says so.
        </p>
        <Length />
      </>
    ),
    command: <Command />,
    yes: "Mute",
    act: async () => {
      await admin.muteAlert(sink, id, lengths[length.value] ?? 0)
      return changed(`Alert ${id} of ${plain(sink)} is muted for ${length.value}.`)
    },
  })
}

export const AlertActions = ({ alert }: { readonly alert: AlertReport }) => {
  const { sink, id, status } = alert
  const name = `alert ${id} of ${plain(sink)}`
  if (status === "resolved") return null
  return (
    <div class="row-actions">
      {status === "firing" && (
        <Button text="Acknowledge" label={`Acknowledge ${name}`} onClick={() => acknowledge(alert)} />
      )}
      <Button text="Mute" label={`Mute ${name}`} onClick={() => mute(alert)} />
      <Button text="Resolve" label={`Resolve ${name}`} onClick={() => resolve(alert)} />
    </div>
  )
}

/** The first and last events that are replayed, and the sinks that would get them after newer events. */
export const Previewed = ({ first, last, newer }: Pick<DeadLettersPreview, "first" | "last" | "newer">) => (
  <>
    {newer.map(({ sink, count: many, atLeast }) => (
      <p key={sink} class="advice">
        {atLeast === true && "At least "}
        {count(many, "newer event")} of the same keys {many === 1 ? "was" : "were"} delivered to <Text of={sink} />{" "}
        already. It would get older events of these keys after them.
      </p>
    ))}
    {first.length > 0 && (
      <details>
        <summary>{last.length === 0 ? "These events" : "The first and last of these events"}</summary>
        <ul class="ends">
          {[...first, ...last].map(({ sequence, id, type, accountId, receivedAt }) => (
            <li key={sequence}>
              <EventLink id={id} sequence={sequence} /> <TypeName of={type} max={80} /> <Text of={accountId} />{" "}
              <span class="quiet">
                received <Moment at={receivedAt} />
              </span>
            </li>
          ))}
        </ul>
      </details>
    )}
  </>
)

const LetterNotes = ({ stayed, erased, ...preview }: Omit<DeadLettersPreview, "count">) => (
  <>
    {stayed.map(({ why, count: many }) => (
      <p key={why} class="advice">
        {number(many)} would stay in quarantine: <Message of={why} />
      </p>
    ))}
    {erased > 0 && <p class="quiet">Left out: {number(erased)} erased.</p>}
    <Previewed {...preview} />
  </>
)

const mayHoldQuarantined = (selection: Selection): boolean =>
  "ids" in selection
    ? selection.ids.some((id) => id.startsWith(`${quarantine}:`))
    : selection.sink === undefined || selection.sink === quarantine

/** Asks whether to replay dead letters. Without a preview, it shows only their number. */
export const confirmReplay = (
  selection: Selection,
  { count: amount, ...preview }: { readonly count: number } | DeadLettersPreview,
  command: string,
): void => {
  const rate = signal("")
  const given = () => rate.value.trim()
  const Rate = () => (
    <>
      <TextField label="Events a second" {...bound(rate)} placeholder="no limit" />
      {Number(given()) > 0 && <p class="quiet">This takes {span((amount / Number(given())) * 1_000)}.</p>}
    </>
  )
  const Command = () => (
    <>
      {command}
      {given() !== "" && ` --rate ${given()}`}
    </>
  )
  confirm({
    title: `Replay ${count(amount, "dead letter")}?`,
    what: (
      <>
        <p>
          {amount === 1 ? "It is" : "They are"} sent to {amount === 1 ? "its sink" : "their sinks"} again.
          {mayHoldQuarantined(selection) && " Events in quarantine are routed by the config in force."}
        </p>
        {"first" in preview && <LetterNotes {...preview} />}
        {amount > 1 && <Rate />}
      </>
    ),
    command: <Command />,
    yes: "Replay",
    act: async () => {
      const {
        count: done,
        stayed,
        erased,
      } = await admin.replayDeadLetters({
        ...selection,
        ...(given() !== "" && { rate: Number(given()) }),
      })
      const left = stayed.map(({ why, count: many }) => ` ${many} stayed in quarantine: ${plain(why)}.`)
      return changed(
        `${count(done, "dead letter")} queued again.${left.join("")}${erased === 0 ? "" : ` ${erased} left out, because erased.`}`,
      )
    },
  })
}

export const confirmDrop = (
  selection: Selection,
  { count: amount }: { readonly count: number },
  command: string,
): void => {
  confirm({
    title: `Delete ${count(amount, "dead letter")}?`,
    what: <p>Their events will not be delivered. This can’t be undone.</p>,
    command,
    yes: "Delete",
    isDangerous: true,
    act: async () => changed(`${count((await admin.dropDeadLetters(selection)).count, "dead letter")} deleted.`),
  })
}
