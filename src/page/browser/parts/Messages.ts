/** Short messages about completed or failed actions. They disappear by themselves. */
import { signal } from "@preact/signals"

interface Message {
  readonly id: number
  readonly text: string
  readonly isError: boolean
}

const stayFor = 8_000
const most = 4
let last = 0

export const messages = signal<ReadonlyArray<Message>>([])

export const dismiss = (id: number): void => {
  messages.value = messages.value.filter((one) => one.id !== id)
}

export const say = (text: string, isError = false): void => {
  last += 1
  const id = last
  messages.value = [...messages.value, { id, text, isError }].slice(-most)
  setTimeout(() => dismiss(id), isError ? stayFor * 2 : stayFor)
}
