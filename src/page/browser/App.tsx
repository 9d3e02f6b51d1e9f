/** The page: the relay's health in one line, and the view that the address names. */

import { effect, signal } from "@preact/signals"
import { render } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import { health, levelOf } from "../../admin/status/Health.ts"
import type { Status } from "../../admin/status/Status.ts"
import { span } from "../../formats/Texts.ts"
import { AlertList, alertingSinks } from "./AlertList.tsx"
import { AuditLog } from "./AuditLog.tsx"
import { DeadLetterList } from "./DeadLetterList.tsx"
import { EventSearch } from "./EventSearch.tsx"
import { EventStory } from "./EventStory.tsx"
import { Overview } from "./Overview.tsx"
import { token } from "./parts/AdminCalls.ts"
import { ConfirmDialog } from "./parts/Confirm.tsx"
import { Button, EventTypes } from "./parts/Fields.tsx"
import { linkTo, place } from "./parts/Location.ts"
import { dismiss, messages } from "./parts/Messages.ts"
import { connect, heardAt, isOutdated, isReadOnly, link, linkProblem, status, unlock } from "./parts/RelayLink.ts"
import { isUtc, Message, number, switchZone, Text } from "./parts/Shown.tsx"
import { ReplayForm } from "./ReplayForm.tsx"
import { RouteExplainer } from "./RouteExplainer.tsx"
import { SinkView } from "./SinkView.tsx"
import { Tail } from "./Tail.tsx"

/** Asks for the token of the admin API. It is kept only in memory. */
const TokenForm = () => {
  const [text, setText] = useState("")
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => input.current?.focus(), [])
  const wasWrong = token.value !== ""
  return (
    <main id="main" class="token">
      <h1>relay</h1>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          unlock(text)
        }}
      >
        <label class="field">
          <span>Admin token</span>
          <input
            ref={input}
            type="password"
            value={text}
            autocomplete="off"
            aria-describedby="token-help"
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        {wasWrong && (
          <p class="problem" role="alert">
            This is not the token.
          </p>
        )}
        <button type="submit" class="primary" disabled={text === ""}>
          Continue
        </button>
        <p id="token-help" class="quiet">
          <code>admin.token</code> of the config, or one of <code>admin.tokens</code>. This tab keeps it in memory alone
          and forgets it when it is closed or loaded again; nothing is stored in the browser.
        </p>
      </form>
    </main>
  )
}

const views = [
  ["", "Overview"],
  ["live", "Live"],
  ["events", "Events"],
  ["alerts", "Alerts"],
  ["dead-letters", "Dead letters"],
  ["replay", "Replay"],
  ["routes", "Routes"],
  ["audit", "Audit"],
] as const

/** This machine's clock, updated each second. The age of the shown data is computed from it. */
const clock = signal(Date.now())
setInterval(() => {
  clock.value = Date.now()
}, 1_000)

const headline = (now: Status): { readonly tone: string; readonly text: string } => {
  const { level, problems } = health(now)
  const many = (wanted: string) => problems.filter((one) => levelOf(one) === wanted).length
  const critical = many("critical")
  const warnings = many("warning")
  const warned = `${warnings} warning${warnings === 1 ? "" : "s"}`
  if (level === "ok") return { tone: "good", text: "All is well" }
  if (level === "warning") return { tone: "warn", text: warned }
  return { tone: "bad", text: `${critical} critical${warnings === 0 ? "" : `, ${warned}`}` }
}

/** The tab's title shows the number of problems, and says if the relay does not answer. */
effect(() => {
  const now = status.value
  const found = now === undefined ? "" : headline(now).text
  const parts = link.value === "locked" ? [] : [...(link.value === "away" ? ["Disconnected"] : []), found]
  document.title = [...parts.filter((text) => text !== ""), "relay"].join(" · ")
})

const LinkState = () => {
  const silent = Math.max(0, clock.value - heardAt.value)
  if (link.value === "live") return <span class="link live">Live</span>
  if (heardAt.value === 0) return <span class="link">Connecting…</span>
  return <span class="link away">Not connected; {span(silent)} old</span>
}

const Header = () => {
  const now = status.value
  const isAway = link.value !== "live"
  const { tone, text } =
    now === undefined || isAway
      ? { tone: "quiet", text: isAway && now !== undefined ? "Last known" : "" }
      : headline(now)
  const { view } = place.value
  const shown = view === "event" ? "events" : view
  const hasAlerts = now !== undefined && alertingSinks(now).length > 0
  const letters = now?.lanes.reduce((sum, { deadLetters }) => sum + deadLetters, 0) ?? 0
  return (
    <header>
      <div class="top">
        <a class="brand" href={linkTo("")}>
          relay
        </a>
        <span class={`state ${tone}`} role="status">
          {text}
        </span>
        <span class="spring" />
        {isReadOnly.value && <span class="link">{now?.caller.name} may only read</span>}
        <LinkState />
        <Button text="Times in UTC" class="small" isPressed={isUtc.value} onClick={switchZone} />
      </div>
      <nav aria-label="Views">
        {views
          .filter(([name]) => name !== "alerts" || hasAlerts)
          .map(([name, title]) => (
            <a key={name} href={linkTo(name)} {...(shown === name && { "aria-current": "page" as const })}>
              {title}
              {name === "dead-letters" && letters > 0 && <span class="badge">{number(letters)}</span>}
            </a>
          ))}
      </nav>
    </header>
  )
}

const Unknown = () => (
  <section aria-labelledby="unknown">
    <h1 id="unknown">No such view</h1>
    <p class="quiet">
      The page has no view <Text of={location.hash} max={120} />. Go to the <a href={linkTo("")}>Overview</a>.
    </p>
  </section>
)

const View = ({ now }: { readonly now: Status }) => {
  const { view, of, query } = place.value
  switch (view) {
    case "live":
      return <Tail status={now} />
    case "events":
      return <EventSearch key={JSON.stringify(query)} status={now} />
    case "event":
      return <EventStory key={of} id={of} status={now} />
    case "sink":
      return <SinkView key={of} name={of} status={now} />
    case "alerts":
      return <AlertList status={now} />
    case "dead-letters":
      return <DeadLetterList status={now} />
    case "replay":
      return <ReplayForm key={JSON.stringify(query)} status={now} />
    case "audit":
      return <AuditLog key={JSON.stringify(query)} />
    case "routes":
      return <RouteExplainer status={now} />
    case "":
      return <Overview status={now} />
    default:
      return <Unknown />
  }
}

const Messages = () => (
  <div class="messages" role="log" aria-live="polite" aria-label="Messages">
    {messages.value.map(({ id, text, isError }) => (
      <p key={id} class={isError ? "problem" : ""}>
        <Message of={text} max={1_000} />
        <Button text="×" label="Dismiss" onClick={() => dismiss(id)} />
      </p>
    ))}
  </div>
)

const App = () => {
  if (link.value === "locked") return <TokenForm />
  const now = status.value
  const isAway = link.value !== "live"
  return (
    <>
      <Button text="Skip to the content" class="skip" onClick={() => document.getElementById("main")?.focus()} />
      <Header />
      <main id="main" tabIndex={-1} class={isAway && now !== undefined ? "stale" : ""}>
        {isAway && linkProblem.value !== "" && (
          <p class="banner" role="alert">
            <Message of={linkProblem.value} max={500} />; trying again.
            {now !== undefined && " The page shows the last known state."}
          </p>
        )}
        {isOutdated.value && (
          <p class="banner">
            The relay is another version now.{" "}
            <a href="./" onClick={() => location.reload()}>
              Load the page again
            </a>
          </p>
        )}
        {now === undefined ? (
          <p class="nothing">{linkProblem.value === "" ? "Connecting…" : ""}</p>
        ) : (
          <View now={now} />
        )}
      </main>
      <EventTypes />
      <ConfirmDialog />
      <Messages />
    </>
  )
}

const root = document.getElementById("page")
if (root !== null) render(<App />, root)
void connect()
