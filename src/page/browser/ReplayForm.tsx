/** Replays events. A dry run first shows the events that would be sent. */
import { useEffect, useState } from "preact/hooks"
import { replayWords } from "../../admin/replay/ReplayCommand.ts"
import type { Replay, ReplayEvents, ReplayRequest } from "../../admin/replay/ReplayReport.ts"
import type { Status } from "../../admin/status/Status.ts"
import { count, plain, relayCommand } from "../../formats/Texts.ts"
import { outcomes } from "./EventSearch.tsx"
import { Previewed, sinksOf } from "./parts/Actions.tsx"
import { admin, problemOf } from "./parts/AdminCalls.ts"
import { confirm, WhyReadOnly } from "./parts/Confirm.tsx"
import {
  anyEvent,
  Button,
  Choice,
  EventFields,
  Filters,
  TextField,
  timesOf,
  useForm,
  webhooksOf,
} from "./parts/Fields.tsx"
import { Problem, useLoaded, Waiting } from "./parts/Loading.tsx"
import { place } from "./parts/Location.ts"
import { connections, isReadOnly, status as latest } from "./parts/RelayLink.ts"
import { Message, Moment, Nothing, number, Pill, Text, TypeName } from "./parts/Shown.tsx"

const everyMillis = 500

const empty = { ...anyEvent, id: "", sink: "", to: "", rate: "" }

const requestOf = (form: typeof empty): ReplayRequest => {
  const [first, ...more] = form.type.split(/[\s,]+/).filter((one) => one !== "")
  const outcome = outcomes.find((one) => one === form.outcome)
  const events: ReplayEvents = {
    ...(form.id.trim() !== "" && { id: form.id.trim() }),
    ...(first !== undefined && { types: [first, ...more] }),
    ...(form.account.trim() !== "" && { account: form.account.trim() }),
    ...(form.object.trim() !== "" && { object: form.object.trim() }),
    ...(form.webhook !== "" && { webhook: form.webhook }),
    ...(outcome !== undefined && { outcome }),
    ...(form.sink !== "" && { sink: form.sink }),
    ...timesOf(form),
  }
  const rate = form.rate.trim()
  return { events, to: form.to === "" ? "routed" : { sink: form.to }, ...(rate !== "" && { rate: Number(rate) }) }
}

const target = ({ to }: Pick<Replay, "to">): string =>
  to === "routed" ? "the sinks each was routed to" : plain(to.sink)

const leftOutWords = {
  copies: "copies that earlier replays or moves made",
  quarantined: "in quarantine",
  erased: "erased",
  unrouted: "routed to no sink of the config",
  gone: "no longer in the journal",
} as const

const Summary = ({ replay }: { readonly replay: Replay }) => {
  const { groups, others, undelivered, leftOut, removedSinks } = replay
  const left = Object.entries(leftOutWords).filter(([key]) => leftOut[key as keyof typeof leftOut] > 0)
  return (
    <>
      {groups.length > 0 && (
        <ul class="groups">
          {groups.slice(0, 12).map(({ type, sink, count: many }) => (
            <li key={`${sink} ${type}`}>
              <span class="amount">{number(many)}</span> <TypeName of={type} max={80} /> → <Text of={sink} />
            </li>
          ))}
        </ul>
      )}
      {(others > 0 || groups.length > 12) && <p class="quiet">and others</p>}
      {undelivered > 0 && (
        <p class="advice">
          {number(undelivered)} of these {undelivered === 1 ? "is" : "are"} still pending or retrying at a sink, which
          will receive {undelivered === 1 ? "it" : "them"} twice.
        </p>
      )}
      <Previewed {...replay} />
      {left.map(([key, words]) => (
        <p key={key} class="quiet">
          Left out: {number(leftOut[key as keyof typeof leftOut])} {words}.
        </p>
      ))}
      {removedSinks.map(({ sink, count: many }) => (
        <p key={sink} class="quiet">
          Left out: {number(many)} for <Text of={sink} />, which the config no longer has.
        </p>
      ))}
    </>
  )
}

const send = (dry: Replay, onStarted: () => void): void => {
  const { events, to, rate } = dry
  confirm({
    title: `Send ${count(dry.count, "event")} again?`,
    what: (
      <>
        <p>
          {count(dry.count, "event")} will be sent to {target(dry)} again, with a new idempotency key: those that the
          dry run found and no others.
        </p>
        <Summary replay={dry} />
      </>
    ),
    command: relayCommand(...replayWords(dry)),
    yes: `Send ${number(dry.count)}`,
    act: async () => {
      await admin.startReplay({ events, to, ...(rate !== undefined && { rate }) })
      onStarted()
      return "The replay has started."
    },
  })
}

const cancel = ({ id, count: done }: Replay, onDone: () => void): void =>
  confirm({
    title: "Cancel the replay?",
    what: <p>{count(done, "event")} queued so far will be delivered; no others will be.</p>,
    command: relayCommand("replay", "cancel", id),
    yes: "Cancel the replay",
    isDangerous: true,
    act: async () => {
      const ended = await admin.cancelReplay(id)
      onDone()
      return `The replay ended with ${count(ended.count, "event")} queued.`
    },
  })

const tones = { running: "quiet", waiting: "warn", finished: "good", cancelled: "warn", failed: "bad" } as const

const ReplayRow = ({ replay, onChange }: { readonly replay: Replay; readonly onChange: () => void }) => {
  const { dryRun, state, message, share, count: events, endedAt, startedAt } = replay
  const isOver = endedAt !== undefined
  return (
    <li class="card">
      <div class="heading">
        <h2>
          {dryRun ? "Dry run" : "Replay"} to {target(replay)}
        </h2>
        <Pill tone={tones[state]}>{state}</Pill>
        <span class="quiet">
          <Moment at={startedAt} />
        </span>
        <span class="spring" />
        {!isOver && <Button text="Cancel…" onClick={() => cancel(replay, onChange)} />}
        {isOver && dryRun && state === "finished" && events > 0 && (
          <Button text={`Send ${number(events)}…`} class="primary" onClick={() => send(replay, onChange)} />
        )}
      </div>
      {!isOver && (
        <progress max={1} value={share} aria-label={`${Math.floor(share * 100)} % of the journal looked at`} />
      )}
      <p>
        {count(events, "event")} {dryRun ? "would be sent" : "queued"}
        {message !== "" && (
          <>
            ; <Message of={message} />
          </>
        )}
      </p>
      <Summary replay={replay} />
    </li>
  )
}

export const ReplayForm = ({ status }: { readonly status: Status }) => {
  const { id = "" } = place.value.query
  const { form, field } = useForm({ ...empty, id })
  const [problem, setProblem] = useState("")
  const list = useLoaded("replays", admin.replays)
  const isRunning = list.value?.some(({ endedAt }) => endedAt === undefined) === true
  // Each answer requests the next part
  useEffect(() => {
    if (!isRunning) return
    const timer = setTimeout(list.again, everyMillis)
    return () => clearTimeout(timer)
  }, [list.value])
  const { startedAt } = latest.value ?? status
  // A restart forgets them
  useEffect(list.again, [startedAt])
  useEffect(() => setProblem(""), [connections.value])
  const dryRun = () => {
    setProblem("")
    const started = admin.startReplay({ ...requestOf(form), dryRun: true })
    started.then(list.again, (error: unknown) => setProblem(problemOf(error)))
  }
  return (
    <section aria-labelledby="replay">
      <h1 id="replay">Replay</h1>
      <p class="quiet">Sends events that the journal holds again. A dry run counts them first and sends nothing.</p>
      <Filters onSubmit={dryRun}>
        <TextField label="Id" {...field("id")} placeholder="evt_… or seq_…" />
        <EventFields typeLabel="Types" {...{ field, outcomes }} webhooks={webhooksOf(status)} />
        <Choice label="Sink" {...field("sink")} of={sinksOf(status)} />
        <Choice label="To" {...field("to")} of={sinksOf(status)} any="those of its routing" />
        <TextField label="Events a second" {...field("rate")} placeholder="no limit" />
        <button type="submit" class="primary" disabled={isReadOnly.value}>
          Dry run
        </button>
      </Filters>
      <WhyReadOnly />
      <Problem of={problem} />
      <Waiting of={list} />
      {list.value?.length === 0 && <Nothing>No replay since the start.</Nothing>}
      <ul class="replays">
        {list.value?.map((replay) => (
          <ReplayRow key={replay.id} replay={replay} onChange={list.again} />
        ))}
      </ul>
    </section>
  )
}
