/** Loads data once or repeatedly, and keeps the last result and the last error. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks"
import { problemOf } from "./AdminCalls.ts"
import { connections } from "./RelayLink.ts"
import { Message } from "./Shown.tsx"

interface State<A> {
  readonly value?: A
  readonly problem: string
  readonly isBusy: boolean
}

interface Loaded<A> extends State<A> {
  readonly again: () => void
}

const waiting = { problem: "", isBusy: true }

/**
 * Asks when `question` or `revision` changes, and when the relay answers again. While a new revision loads, the last
 * value stays. A value or an error is only shown for its own question, and an answer to an older request is dropped.
 */
export const useLoaded = <A,>(question: string, ask: () => Promise<A>, revision = ""): Loaded<A> => {
  const [state, setState] = useState<State<A> & { readonly question: string }>({ ...waiting, question })
  const asked = useRef(0)
  const current = useRef({ question, ask })
  current.current = { question, ask }
  const again = useCallback(() => {
    asked.current += 1
    const mine = asked.current
    const { question, ask } = current.current
    const put = (next: Partial<State<A>>) => {
      if (mine !== asked.current) return
      setState((before) => ({ ...(before.question === question ? before : { ...waiting, question }), ...next }))
    }
    put({ isBusy: true })
    ask().then(
      (value) => put({ value, problem: "", isBusy: false }),
      (error: unknown) => put({ problem: problemOf(error), isBusy: false }),
    )
  }, [])
  useEffect(() => {
    again()
    return () => {
      asked.current += 1
    }
  }, [question, revision, connections.value])
  return { ...(state.question === question ? state : waiting), again }
}

/**
 * Returns a function that asks and passes the answer on, unless a later request was made or the view or `question`
 * changed meanwhile.
 */
export const useLatest = (question = "") => {
  const asked = useRef(0)
  useEffect(
    () => () => {
      asked.current += 1
    },
    [question],
  )
  return <A,>(ask: Promise<A>, onAnswer: (answer: A) => void, onProblem: (problem: string) => void): void => {
    asked.current += 1
    const mine = asked.current
    ask.then(
      (answer) => mine === asked.current && onAnswer(answer),
      (error: unknown) => mine === asked.current && onProblem(problemOf(error)),
    )
  }
}

export const Problem = ({ of = "" }: { readonly of?: string | undefined }) =>
  of === "" ? null : (
    <p class="problem" role="alert">
      <Message of={of} max={2_000} />
    </p>
  )

/** Shows that no value came yet, or why. */
export const Waiting = ({ of: { value, problem } }: { readonly of: State<unknown> }) =>
  value === undefined && problem === "" ? <p class="quiet loading">Loading…</p> : <Problem of={problem} />
