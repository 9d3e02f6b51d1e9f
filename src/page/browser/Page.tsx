/** The page begins here. */
import { render } from "preact"
import { App } from "./App.tsx"
import { connect } from "./RelayLink.ts"

const root = document.getElementById("page")
if (root !== null) render(<App />, root)
void connect()
