/**
 * The contract of a journal. `create` makes a new, empty journal. Each layer that the result returns opens the same
 * journal again.
 *
 * Tests use only the contract, so they hold for every engine.
 */
import { auditContract } from "./journal/auditContract.ts"
import { deadLettersContract } from "./journal/deadLettersContract.ts"
import { duplicatesContract } from "./journal/duplicatesContract.ts"
import { durabilityContract } from "./journal/durabilityContract.ts"
import { erasedAlertsContract } from "./journal/erasedAlertsContract.ts"
import { erasureContract } from "./journal/erasureContract.ts"
import { importContract } from "./journal/importContract.ts"
import { lanesContract } from "./journal/lanesContract.ts"
import { logContract } from "./journal/logContract.ts"
import { movedLanesContract } from "./journal/movedLanesContract.ts"
import { renamedLanesContract } from "./journal/renamedLanesContract.ts"
import { roomContract } from "./journal/roomContract.ts"
import type { Create } from "./journal/sessions.ts"

/** Tests a journal: `name` is in the titles, and `create` is called once a test. */
export const journalContract = (name: string, create: Create): void => {
  logContract(name, create)
  duplicatesContract(name, create)
  lanesContract(name, create)
  movedLanesContract(name, create)
  renamedLanesContract(name, create)
  deadLettersContract(name, create)
  importContract(name, create)
  roomContract(name, create)
  auditContract(name, create)
  erasureContract(name, create)
  erasedAlertsContract(name, create)
  durabilityContract(name, create)
}
