import { eventsContract } from "../contract/eventsContract.ts"
import { journalContract } from "../contract/journalContract.ts"
import * as MemoryJournal from "./MemoryJournal.ts"

const create = () => {
  const layer = MemoryJournal.create()
  return () => layer
}
journalContract("MemoryJournal", create)
eventsContract("MemoryJournal", create)
