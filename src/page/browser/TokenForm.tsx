/** Asks for the token of the admin API. It is kept in memory alone. */
import { useEffect, useRef, useState } from "preact/hooks"
import { token } from "./AdminCalls.ts"
import { unlock } from "./RelayLink.ts"

export const TokenForm = () => {
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
