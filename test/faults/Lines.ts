/** The campaign: every line and every mutant. A new fault needs a file in a folder and a line here. */

import * as Alerts from "./alerts/Lines.ts"
import * as Attacks from "./attacks/Lines.ts"
import * as Cuts from "./cuts/Lines.ts"
import * as Fleet from "./fleet/Lines.ts"
import * as SimulatedFleet from "./fleet/simulation/Lines.ts"
import type { Line, Mutant } from "./Line.ts"
import * as Night from "./night/Night.ts"
import * as Relay from "./relay/Lines.ts"
import * as Reload from "./reload/Lines.ts"
import * as Senders from "./senders/Lines.ts"
import * as Simulation from "./simulation/Lines.ts"
import * as Sinks from "./sinks/Lines.ts"
import * as Words from "./words/Lines.ts"

export const lines: ReadonlyArray<Line> = [
  ...Simulation.lines,
  ...SimulatedFleet.lines,
  ...Relay.lines,
  ...Fleet.lines,
  ...Reload.lines,
  ...Sinks.lines,
  ...Cuts.lines,
  ...Alerts.lines,
  ...Senders.lines,
  ...Night.lines,
  ...Attacks.lines,
  ...Words.lines,
]
export const mutants: ReadonlyArray<Mutant> = [
  ...Simulation.mutants,
  ...SimulatedFleet.mutants,
  ...Relay.mutants,
  ...Fleet.mutants,
  ...Reload.mutants,
  ...Sinks.mutants,
  ...Cuts.mutants,
  ...Alerts.mutants,
  ...Senders.mutants,
  ...Night.mutants,
  ...Attacks.mutants,
  ...Words.mutants,
]
