import * as MemoryJournal from "../../src/journal/MemoryJournal.ts"
import { journalContract } from "../contract/journalContract.ts"

journalContract("MemoryJournal", () => MemoryJournal.layer)
