/** The email sink under each condition. The SMTP server replies as public reports say. */
import { once } from "node:events"
import { writeFileSync } from "node:fs"
import { type AddressInfo, createServer } from "node:net"
import { join } from "node:path"
import type { SMTPServerOptions } from "smtp-server"
import { numberOf } from "../faults/relay/Traffic.ts"
import { lacking as lacksCertificates } from "../lib/authority.ts"
import { reply, type Smtp, startSmtp } from "../sinks/email/smtpServer.ts"
import type { Column, Scenario } from "./Column.ts"
import type { Condition, Place } from "./Play.ts"
import * as Wires from "./Wires.ts"

const { special } = Wires
const on = Wires.on(undefined)
const [first, second] = ["first@example.com", "second@example.com"]

type Refuse = (value: string) => Error | undefined

/** The server's refusals, by the command that is refused. */
interface Script {
  connect?: Refuse
  auth?: Refuse
  from?: Refuse
  to?: Refuse
  /** With the id of the event. */
  data?: Refuse
}

interface Mails extends Wires.Target {
  /** Replaces the refusals of the server. */
  readonly refuse: (script: Script) => void
  /** The numbers of the events that a recipient has got. */
  readonly got: (recipient: string) => ReadonlyArray<number>
  readonly stop: () => Promise<void>
  readonly start: () => Promise<void>
}

const makeServer =
  (keys: object = {}, recipients: ReadonlyArray<string> = [first], more: SMTPServerOptions = {}) =>
  async (): Promise<Mails> => {
    let script: Script = {}
    const taken: Array<{ readonly to: string; readonly number: number }> = []
    const options: SMTPServerOptions = {
      onConnect: (_, done) => done(script.connect?.("")),
      onAuth: ({ password }, _, done) => {
        const error = script.auth?.(password ?? "")
        return error === undefined ? done(null, { user: "relay" }) : done(error)
      },
      onMailFrom: ({ address }, _, done) => done(script.from?.(address)),
      onRcptTo: ({ address }, _, done) => done(script.to?.(address)),
      onData: async (stream, { envelope }, done) => {
        const parts = await Array.fromAsync(stream).catch(() => undefined)
        if (parts === undefined) return
        const raw = Buffer.concat(parts).toString()
        const [, id = ""] = /^Subject: .*\b(evt_\d+)/m.exec(raw) ?? []
        const error = stream.sizeExceeded ? reply(552, "5.3.4 Message size exceeds fixed limit") : script.data?.(id)
        if (error !== undefined) return done(error)
        for (const { address } of envelope.rcptTo) taken.push({ to: address, number: numberOf(id) })
        done()
      },
      ...more,
    }
    let smtp: Smtp | undefined = await startSmtp(options)
    const { port } = smtp
    const got = (recipient: string) => taken.filter(({ to }) => to === recipient).map(({ number }) => number)
    const stop = async () => {
      await smtp?.close()
      smtp = undefined
    }
    return {
      port,
      sink: (server, ca) => ({
        type: "email",
        server,
        security: ca === undefined ? "none" : "tls",
        ...(ca !== undefined && { tls: { ca } }),
        from: "relay@example.com",
        to: recipients,
        subject: "{{id}}",
        ...keys,
      }),
      // An event has arrived when each recipient has it.
      arrived: () => {
        const [one = "", ...others] = recipients
        return got(one).filter((number) => others.every((other) => got(other).includes(number)))
      },
      refuse: (next) => {
        script = next
      },
      got,
      stop,
      start: async () => {
        smtp ??= await startSmtp(options, port)
      },
      close: stop,
    }
  }
const make = makeServer()

/** A scenario in which the server refuses a command while the condition holds. */
const refuses = (
  what: string,
  script: Script,
  more: Omit<Condition, "what" | "start">,
  target: Wires.MakeTarget<Mails> = make,
): Scenario =>
  on(what, {
    start: Wires.byProxy(
      target,
      ({ target, wire }) => {
        target.refuse(script)
        // The next mail logs in again.
        wire.cut()
      },
      ({ target }) => target.refuse({}),
    ),
    ...more,
  })

const all = (code: number, text: string) => () => reply(code, text)
const one =
  (code: number, text: string): Refuse =>
  (id) =>
    id === `evt_${special}` ? reply(code, text) : undefined
const letters = (number: number) => number === special

/** The login's password, which is in a file. */
const withPassword = async (place: Place) => {
  const keep = (password: string) => writeFileSync(join(place.directory, "password"), password)
  keep("one")
  const options: SMTPServerOptions = { authMethods: ["PLAIN"], allowInsecureAuth: true }
  const target = await makeServer(
    { auth: { username: "relay", password: `file:${join(place.directory, "password")}` } },
    [first],
    options,
  )()
  return { ...target, keep }
}

/** A server that answers 250 to each command, as a probe of a firewall does. */
const agreeing = async () => {
  const server = createServer((socket) => {
    socket.on("error", () => {})
    socket.write("220 ready\r\n")
    socket.on("data", () => socket.write("250 ok\r\n"))
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  return { port: (server.address() as AddressInfo).port, close: () => server.close() }
}

const agrees = on("something answers 250 to each command, also to DATA; no mail counts as delivered", {
  start: async (place) => {
    const server = await agreeing()
    const goTo = ({ wire }: Wires.Behind<Mails>, port: number) => {
      wire.pointTo(port)
      wire.cut()
    }
    const service = await Wires.byProxy(
      make,
      (behind) => goTo(behind, server.port),
      (behind) => goTo(behind, behind.target.port),
    )(place)
    return {
      ...service,
      close: async () => {
        await service.close()
        server.close()
      },
    }
  },
  says: /misconfigured: .*answered DATA without 354/,
})

/** The copies of a recipient show whether a retry goes to those alone that lack the mail. */
const partly = on("one of two recipients is refused for a while; the retry goes to this one alone", {
  start: async (place) => {
    const two = makeServer({}, [first, second])
    let target: Mails | undefined
    const service = await Wires.byProxy(
      async () => {
        target = await two()
        return target
      },
      () =>
        target?.refuse({ to: (address) => (address === second ? reply(450, "4.2.1 The user is busy") : undefined) }),
      () => target?.refuse({}),
    )(place)
    return {
      ...service,
      // Copies for the first recipient count against the bound.
      arrived: async () => [...(await service.arrived())],
    }
  },
  says: /waiting: .*did not take the mail for "to"\[1\] \(450 4\.2\.1; it says "The user is busy"\); the other addresses have it/,
  bound: { copies: 0, because: "a recipient who has the mail gets no other copy" },
})

const pause = { wait: 60_000, because: "SMTP names no time, so the lane waits for a minute" }

export const column: Column = {
  sink: "email",
  cells: {
    a: Wires.forgets(on, make),
    b: [
      ...Wires.moves(on, make, /waiting: .*can't be reached/),
      on("the name gets another address, and the old server says that it shuts down; the mail goes to the new one", {
        names: true,
        start: Wires.byName(
          make,
          ({ lead, target }) => {
            lead(Wires.addresses.second)
            target.refuse({ from: all(421, "4.3.2 Service shutting down") })
          },
          undefined,
          make,
        ),
      }),
    ],
    c: [
      on("the password is replaced at the server; the file follows, and a reload", {
        start: Wires.byProxy(
          withPassword,
          ({ target, wire }) => {
            target.refuse({
              auth: (password) =>
                password === "two" ? undefined : reply(535, "5.7.8 Authentication credentials invalid"),
            })
            wire.cut()
          },
          async ({ target, place }) => {
            target.keep("two")
            await place.reload()
          },
        ),
        says: /misconfigured: .*refuses the user or its password.*535 5\.7\.8; it says "Authentication credentials invalid"/,
      }),
    ],
    d: [
      refuses(
        "the only recipient does not exist, until the address is made",
        { to: all(550, "5.1.1 User unknown in virtual mailbox table") },
        {
          says: /misconfigured: .*takes mails for none of the addresses.*550 5\.1\.1; it says "User unknown/,
          isQuick: true,
        },
      ),
      refuses(
        "the recipient's mailbox is moved, and refused for a while",
        { to: all(450, "4.2.1 Mailbox temporarily disabled") },
        { says: /waiting: .*does not take the mail now \(450 4\.2\.1; it says "Mailbox temporarily disabled"\)/ },
      ),
    ],
    e: Wires.answersLate(on, make, /waiting: no answer within 3s/),
    f: [partly],
    g: [
      refuses(
        "by DMARC, after DATA; the lane waits",
        {
          data: all(550, "5.7.26 Unauthenticated email from example.com is not accepted due to domain's DMARC policy."),
        },
        { says: /misconfigured: .*SPF, DKIM, DMARC.*550 5\.7\.26; it says "Unauthenticated email/ },
      ),
      refuses(
        "this machine is on a block list; the lane waits",
        { to: all(554, "5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org") },
        { says: /misconfigured: .*takes no mails of this machine.*blocked using zen/ },
      ),
      refuses(
        "its disk is full; the lane waits",
        { from: all(452, "4.3.1 Insufficient system storage") },
        { says: /waiting: .*can't take mails now \(452 4\.3\.1; it says "Insufficient system storage"\)/ },
      ),
      refuses(
        "with words that may be about one mail",
        { data: all(554, "5.7.1 Message rejected by policy") },
        { says: /misconfigured: refused 3 different events.*Message rejected by policy/ },
      ),
      refuses(
        "one mail is refused for its content; it alone is a dead letter",
        { data: one(554, "5.6.0 Message content rejected") },
        { says: /for its content \(554 5\.6\.0; it says "Message content rejected"\)/, letters, isQuick: true },
      ),
      refuses(
        "one mail is too large; it alone is a dead letter",
        { data: one(552, "5.3.4 Message size exceeds fixed limit") },
        { says: /larger than it takes \(552 5\.3\.4/, letters },
      ),
    ],
    h: [
      agrees,
      ...Wires.answersHttp(on, make, /no answer within 3s|does not answer/),
      refuses(
        "a full mailbox is refused for good, and has room again; the mail is retried",
        { data: all(552, "5.2.2 The recipient's mailbox is over quota") },
        { says: /waiting: .*a mailbox is full \(552 5\.2\.2/ },
      ),
    ],
    i: Wires.clocks(on, make),
    j: [
      refuses(
        "it asks for fewer mails, and names no time",
        { from: all(451, "4.7.500 Server busy. Please slow down") },
        { says: /waiting: .*asks for fewer mails/, bound: pause },
      ),
      refuses(
        "a recipient is on a grey list for a while, which is a matter of that mail",
        { to: all(451, "4.7.1 Greylisting in action, please come back in 00:05:00") },
        { says: /waiting: .*Greylisting in action/ },
      ),
    ],
    k: Wires.severalAddresses(on, make),
    l: [
      on("the server restarts", {
        start: Wires.byProxy(
          make,
          ({ target }) => target.stop(),
          ({ target }) => target.start(),
        ),
        says: /waiting: .*can't be reached/,
        isQuick: true,
      }),
      refuses(
        "it shuts down, and says so to each client",
        { connect: all(421, "4.3.2 Service shutting down") },
        { says: /waiting: .*421 4\.3\.2; it says "Service shutting down"/ },
      ),
    ],
    m: Wires.behindFront(Wires.on(lacksCertificates), make),
    n: [
      on("events of 1 MiB fit a server that takes mails of 1 MiB", {
        start: Wires.byProxy(makeServer({ text: "{{/data/object}}" }, [first], { size: 1024 * 1024 }), () => {}),
        body: (number) => Wires.sized(number, 1024 * 1024),
      }),
    ],
  },
}
