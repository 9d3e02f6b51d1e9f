/** Loads data once or repeatedly, and keeps the last result and the last error. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks"
import { problemOf } from "./AdminCalls.ts"
import { connections } from "./RelayLink.ts"
import { Message } from "./Shown.tsx"

interface Loaded<A> {
  readonly value: A | undefined
  readonly problem: string
  readonly isBusy: boolean
  readonly again: () => void
}

/** Asks whenever `key` changes or the relay answers again; an answer to an older question is dropped. */
export const useLoaded = <A,>(key: string, ask: () => Promise<A>): Loaded<A> => {
  const [state, setState] = useState<{ readonly value?: A; readonly problem: string; readonly isBusy: boolean }>({
    problem: "",
    isBusy: true,
  })
  const asked = useRef(0)
  const current = useRef(ask)
  current.current = ask
  const again = useCallback(() => {
    asked.current += 1
    const mine = asked.current
    setState((before) => ({ ...before, isBusy: true }))
    current.current().then(
      (value) => {
        if (mine === asked.current) setState({ value, problem: "", isBusy: false })
      },
      (error: unknown) => {
        if (mine === asked.current) setState((before) => ({ ...before, problem: problemOf(error), isBusy: false }))
      },
    )
  }, [])
  // The key identifies the request
  useEffect(() => {
    again()
    return () => {
      asked.current += 1
    }
  }, [key, connections.value])
  return { value: state.value, problem: state.problem, isBusy: state.isBusy, again }
}

export const Problem = ({ of = "" }: { readonly of?: string | undefined }) =>
  of === "" ? null : (
    <p class="problem" role="alert">
      <Message of={of} max={2_000} />
    </p>
  )
