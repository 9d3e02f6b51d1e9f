/** Asks for the token of the admin API. It is kept in memory alone. */
import { useState } from "preact/hooks"
import { token } from "./AdminCalls.ts"
import { unlock } from "./RelayLink.ts"

export const TokenForm = () => {
  const [text, setText] = useState("")
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
          <code>admin.token</code> of the config. It stays in this tab’s memory and is forgotten when the tab is closed.
        </p>
      </form>
    </main>
  )
}
