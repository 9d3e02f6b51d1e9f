/** The whole program with NATS sinks. */
import { expect } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { credsAuthenticator } from "@nats-io/transport-node"
import { startNats } from "../../parts/Nats.ts"
import { makeOperator } from "../../parts/natsOperator.ts"
import { makeStream, type Stream } from "../../parts/Streams.ts"
import { programContract } from "../programContract.ts"
import { withNats } from "./natsSink.ts"

withNats("the whole program with NATS sinks", (shared) => {
  const nats = (server: string, more: object) => ({ type: "nats", servers: [server], ...more })
  const bodiesOf = (stream: Stream) => async (sent: ReadonlyArray<string>) =>
    (await stream.received(sent.length)).map(({ body }) => Buffer.from(body).toString())

  programContract({
    service: "NATS",
    delivers: {
      how: "with a login by a credentials file",
      make: async (cwd) => {
        const operator = makeOperator()
        const own = await startNats(operator.config)
        const credentials = operator.credentials()
        writeFileSync(join(cwd, "relay.creds"), credentials)
        const authenticator = credsAuthenticator(new TextEncoder().encode(credentials))
        const stream = await makeStream(own.server, {}, { authenticator })
        const auth = { credentials: "file:relay.creds" }
        const [, jwt = ""] = credentials.split("\n")
        return {
          sinks: { stream: nats(own.server, { subject: `${stream.name}.{{type}}`, order: "key", auth }) },
          advises: "raise max_payload",
          received: { stream: bodiesOf(stream) },
          ordered: ["stream"],
          secrets: [jwt, /^SU.*$/m.exec(credentials)?.[0] ?? ""],
          stop: own.stop,
        }
      },
    },
    refuses: {
      what: "that no stream takes the subject",
      make: async () => ({
        sinks: { nowhere: nats(shared().server, { subject: "nowhere.at.all" }) },
        says: { nowhere: "subject nowhere.at.all: no stream takes this subject: make one" },
      }),
    },
    waits: async () => {
      const late = await startNats()
      const stream = await makeStream(late.server)
      await late.kill()
      return {
        sink: nats(late.server, { subject: `${stream.name}.events` }),
        failure: `NATS ${late.server} can't be reached: nothing listens there`,
        start: late.start,
        received: bodiesOf(stream),
        stop: late.stop,
      }
    },
    example: {
      file: "nats",
      sends: "everything, and bookings as CloudEvents,",
      make: async () => {
        const all = await makeStream(shared().server, { subjects: ["scheduling.>"] })
        const bookings = await makeStream(shared().server, { subjects: ["bookings"] })
        return {
          env: { NATS_SERVER: shared().server },
          types: ["client.updated", "appointment.created"],
          check: async () => {
            expect((await all.received(2)).map(({ subject }) => subject)).toEqual([
              "scheduling.client.updated",
              "scheduling.appointment.created",
            ])
            const [booking] = await bookings.received(1)
            expect(booking?.headers["ce-type"]).toBe("appointment.created")
          },
        }
      },
    },
  })
})
