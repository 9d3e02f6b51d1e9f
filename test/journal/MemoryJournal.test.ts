import { eventsContract } from "../contract/eventsContract.ts"
import { journalContract } from "../contract/journalContract.ts"
import * as MemoryJournal from "./MemoryJournal.ts"

const create = (maxSize?: number) => {
  const layer = MemoryJournal.create(maxSize)
  return () => layer
}
journalContract("MemoryJournal", create)
eventsContract("MemoryJournal", create)
