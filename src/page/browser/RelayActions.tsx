/** An operator does these things with the relay as a whole. */
import { plain } from "../../formats/Terminal.ts"
import { admin } from "./AdminCalls.ts"
import { confirm } from "./Confirm.tsx"
import { say } from "./Messages.ts"
import { Message } from "./Shown.tsx"

export const reload = (file: string): void =>
  confirm({
    title: "Reload the config?",
    what: (
      <p>
        The relay reads <code>{plain(file)}</code> again and puts all of it in force, or nothing of it where something
        is wrong. What was accepted keeps its route.
      </p>
    ),
    command: "relay reload",
    yes: "Reload",
    act: async () => {
      const { changes, notes, warnings } = await admin.reload()
      for (const one of [...notes, ...warnings.map(({ message }) => message)].slice(0, 3)) say(plain(one))
      const told = changes.map(({ what, name, change }) => `${what} ${plain(name)} ${change}`)
      return changes.length === 0 ? "Reloaded: nothing has changed." : `Reloaded: ${told.slice(0, 6).join(", ")}.`
    },
  })

export const acknowledge = (message: string): void =>
  confirm({
    title: "Acknowledge the loss?",
    what: (
      <>
        <p>The journal is red until an operator acknowledges it:</p>
        {message.split("\n").map((line) => (
          <p key={line}>
            <Message of={line} max={1_000} />
          </p>
        ))}
        <p>This clears the alarm and repairs nothing; the next loss raises it again.</p>
      </>
    ),
    command: "relay journal acknowledge",
    yes: "Acknowledge",
    act: async () => {
      await admin.acknowledge()
      return "Acknowledged."
    },
  })
