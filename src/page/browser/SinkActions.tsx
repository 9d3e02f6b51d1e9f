/** An operator does these things with a sink's lane, each after a question. */
import type { Lane, Status } from "../../admin/Api.ts"
import { quarantine } from "../../event/Event.ts"
import { count } from "../../formats/Amounts.ts"
import { plain } from "../../formats/Terminal.ts"
import { admin } from "./AdminCalls.ts"
import { confirm } from "./Confirm.tsx"
import { number } from "./Shown.tsx"

const pause = ({ name, backlog }: Lane): void =>
  confirm({
    title: `Pause ${plain(name)}?`,
    what: (
      <p>
        Nothing is sent to it until it is resumed, also after a restart. {count(backlog, "event")} and all that come are
        kept.
      </p>
    ),
    command: `relay lanes pause ${plain(name)}`,
    yes: "Pause",
    act: async () => {
      await admin.pause(name)
      return `${plain(name)} is paused.`
    },
  })

const resume = ({ name, backlog, condition }: Lane): void =>
  confirm({
    title:
      condition === "waiting" || condition === "misconfigured" ? `Retry ${plain(name)} now?` : `Resume ${plain(name)}?`,
    what: (
      <p>{backlog === 0 ? "Nothing waits for it." : `${count(backlog, "event")} will be sent to it from now on.`}</p>
    ),
    command: `relay lanes resume ${plain(name)}`,
    yes: condition === "waiting" || condition === "misconfigured" ? "Retry now" : "Resume",
    act: async () => {
      await admin.resume(name)
      return `${plain(name)} is resumed.`
    },
  })

const move = ({ name, backlog, deadLetters }: Lane, sinks: ReadonlyArray<string>): void => {
  let to = sinks[0] ?? ""
  confirm({
    title: `Move what waits for ${plain(name)}?`,
    what: (
      <>
        <p>
          {count(backlog, "event")} will be sent to another sink instead.
          {deadLetters > 0 && ` Its ${count(deadLetters, "dead letter")} stay.`}
        </p>
        <label class="field">
          <span>To the sink</span>
          <select
            onChange={(event) => {
              to = event.currentTarget.value
            }}
          >
            {sinks.map((sink) => (
              <option key={sink}>{plain(sink)}</option>
            ))}
          </select>
        </label>
      </>
    ),
    command: `relay lanes move ${plain(name)} TO`,
    yes: `Move ${count(backlog, "event")}`,
    act: async () => `${count((await admin.move(name, to)).count, "event")} moved to ${plain(to)}.`,
  })
}

const drop = ({ name, backlog, deadLetters }: Lane): void =>
  confirm({
    title: `Drop what waits for ${plain(name)}?`,
    what: (
      <p>
        {count(backlog, "event")} {deadLetters > 0 && `and ${count(deadLetters, "dead letter")} `}
        will never be delivered there. This can't be undone.
      </p>
    ),
    command: `relay lanes drop ${plain(name)}`,
    yes: `Drop ${number(backlog)}`,
    isDangerous: true,
    act: async () => `${plain(name)} is dropped, with ${count((await admin.drop(name)).count, "event")}.`,
  })

/** Sinks that the config has. */
export const sinksOf = ({ lanes }: Status): ReadonlyArray<string> =>
  lanes.flatMap(({ name, condition }) => (name === quarantine || condition === "orphaned" ? [] : name))

/** `sinks`: those that a removed sink's events can go to. */
export const SinkActions = ({ lane, sinks }: { readonly lane: Lane; readonly sinks: ReadonlyArray<string> }) => {
  const name = plain(lane.name)
  if (lane.condition === "orphaned") {
    return (
      <div class="row-actions">
        <button
          type="button"
          aria-label={`Move ${name}`}
          disabled={sinks.length === 0}
          onClick={() => move(lane, sinks)}
        >
          Move…
        </button>
        <button type="button" aria-label={`Drop ${name}`} onClick={() => drop(lane)}>
          Drop…
        </button>
      </div>
    )
  }
  const isWaiting = lane.condition === "waiting" || lane.condition === "misconfigured"
  const isStopped = lane.condition === "paused" || lane.condition === "blocked"
  return (
    <div class="row-actions">
      {isWaiting && (
        <button type="button" aria-label={`Retry ${name} now`} onClick={() => resume(lane)}>
          Retry now
        </button>
      )}
      {isStopped ? (
        <button type="button" aria-label={`Resume ${name}`} onClick={() => resume(lane)}>
          Resume
        </button>
      ) : (
        <button type="button" aria-label={`Pause ${name}`} onClick={() => pause(lane)}>
          Pause
        </button>
      )}
    </div>
  )
}
