/** Sinks that misbehave, and sinks that are away. */
import type { Line } from "../Line.ts"
import { brokerAway, receiverAway } from "./Away.ts"
import { mailServerKilled } from "./Killed.ts"
import { eventBridgeKilled, s3Killed, sqsKilled } from "./KilledAws.ts"
import { natsKilled } from "./KilledNats.ts"
import { rabbitMqKilled } from "./KilledRabbitMq.ts"
import { mutants } from "./Mutants.ts"
import { roomLine, waitingLine } from "./Room.ts"
import { trials } from "./Trials.ts"

export const lines: ReadonlyArray<Line> = [
  ...trials,
  receiverAway,
  brokerAway,
  mailServerKilled,
  sqsKilled,
  eventBridgeKilled,
  s3Killed,
  natsKilled,
  rabbitMqKilled,
  roomLine,
  waitingLine,
]
export { mutants }
