/** Asks before anything is changed. Shows what will happen and the equivalent command, and can be cancelled. */
import { signal } from "@preact/signals"
import type { ComponentChildren } from "preact"
import { useEffect, useRef } from "preact/hooks"
import { problemOf, Refusal } from "./AdminCalls.ts"
import { Button } from "./Fields.tsx"
import { place } from "./Location.ts"
import { say } from "./Messages.ts"
import { askNow, isReadOnly, link, status } from "./RelayLink.ts"
import { Message, Text } from "./Shown.tsx"

interface Question {
  readonly title: string
  /** Says what will happen. */
  readonly what: ComponentChildren
  /** The equivalent command. */
  readonly command: ComponentChildren
  readonly yes: string
  readonly isDangerous?: boolean
  /** Makes the change. Returns the message to show afterwards. */
  readonly act: () => Promise<string>
}

const question = signal<Question | undefined>(undefined)
const isBusy = signal(false)
const problem = signal<Refusal | undefined>(undefined)

export const confirm = (asked: Question): void => {
  problem.value = undefined
  question.value = asked
}

const close = (): void => {
  question.value = undefined
}
// The confirmation belongs to the view that opened it.
place.subscribe(close)
link.subscribe((now) => now === "locked" && close())

/** Reports whether the change succeeded. */
const answerYes = async (asked: Question): Promise<boolean> => {
  isBusy.value = true
  try {
    say(await asked.act())
    askNow()
    return true
  } catch (error) {
    if (question.peek() === asked) problem.value = error instanceof Refusal ? error : new Refusal(0, String(error))
    else say(problemOf(error), true)
    return false
  } finally {
    isBusy.value = false
  }
}

/** Says why a button is disabled for a token that may only read. */
export const WhyReadOnly = () =>
  isReadOnly.value ? (
    <p class="advice">
      The token <Text of={status.value?.caller.name ?? ""} /> may only read. This needs one with the role operate.
    </p>
  ) : null

export const ConfirmDialog = () => {
  const dialog = useRef<HTMLDialogElement>(null)
  const asked = question.value
  useEffect(() => {
    if (asked !== undefined && dialog.current?.open === false) dialog.current.showModal()
  }, [asked])
  if (asked === undefined) return null
  // Closing the dialog returns the focus to the button that opened it.
  const onYes = async (asked: Question) => {
    if (await answerYes(asked)) dialog.current?.close()
  }
  const { title, what, command, yes, isDangerous = false } = asked
  return (
    <dialog
      ref={dialog}
      aria-labelledby="confirm-title"
      aria-describedby="confirm-what"
      onClose={close}
      onCancel={(event) => isBusy.peek() && event.preventDefault()}
    >
      <h2 id="confirm-title">{title}</h2>
      <div id="confirm-what">{what}</div>
      <p class="command">
        <span>On the command line:</span> <code>{command}</code>
      </p>
      {problem.value !== undefined && (
        <div class="problem" role="alert">
          <p>
            <Message of={problem.value.message} max={2_000} />
          </p>
          {problem.value.lines.slice(0, 10).map((line) => (
            <p key={line}>
              <Message of={line} max={500} />
            </p>
          ))}
        </div>
      )}
      <WhyReadOnly />
      <div class="actions">
        <Button text="Cancel" onClick={() => dialog.current?.close()} disabled={isBusy.value} />
        <Button
          text={isBusy.value ? "Working…" : yes}
          class={isDangerous ? "danger" : "primary"}
          disabled={isBusy.value || isReadOnly.value}
          onClick={() => void onYes(asked)}
        />
      </div>
    </dialog>
  )
}
