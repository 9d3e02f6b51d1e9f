/**
 * The socket of the NATS project's client, with what a process that runs for
 * long needs besides: nothing is left of a connection that was given up, and the
 * certificate is held against the host that the config names.
 */
import type { Socket } from "node:net"
import { connect, type TLSSocket } from "node:tls"
import type { NodeConnectionOptions } from "@nats-io/transport-node"
import { errors, Kind, Parser, type ParserEvent, parseSemVer } from "@nats-io/transport-node/lib/nats-base-client.js"
import { NodeTransport, nodeResolveHost } from "@nats-io/transport-node/lib/node_transport.js"

/** The message of the error when a server demands TLS and the config has none. */
export const tlsMissing = "the server demands TLS"

/** Stands for the words of a server that refuses the relay during the handshake of TLS, which can't be read. */
const answerInPlain = "without TLS, as a server does that takes no more connections"

/**
 * The longest line or message of a server, in bytes. The first line names the servers of a cluster, and the messages
 * tell of streams and of what they have stored.
 */
const longest = 1024 * 1024

type Host = Parameters<NodeTransport["connect"]>[0]

/** An error of a socket that was given up ends the process where nothing listens for it. */
const guarded = <S extends Socket>(socket: S): S => {
  const remove = socket.removeAllListeners.bind(socket)
  const ignore = () => {}
  socket.removeAllListeners = (...event: [string?]) => {
    remove(...event)
    return socket.on("error", ignore)
  }
  return socket.on("error", ignore)
}

class Transport extends NodeTransport {
  /** The server's words before the client answers them. */
  #greeting = ""
  /** Whether the server has reported an error after its greeting. */
  #isRefused = false
  /** Frames to be written together. */
  readonly #frames: Array<Uint8Array> = []

  override async connect(host: Host, options: NodeConnectionOptions): Promise<void> {
    // Without a host, the certificate of one that is given by its address is held against "localhost".
    const named = { ...options.tls, host: host.tlsName || host.hostname }
    await super.connect(host, options.tls ? { ...options, tls: named } : options).finally(() => {
      // A server that takes no more connections says so after its greeting, without TLS, and closes.
      const [, refusal] = /^-ERR '(.*)'/m.exec(this.#greeting) ?? []
      if (refusal === undefined) return
      // The client would not try its other servers after the end of a connection.
      this.connected = false
      throw new errors.ProtocolError(refusal)
    })
  }

  /** The client reports `closeError`, and the server's last error only without it. The server's error says more. */
  override closed() {
    return super.closed().finally(() => {
      if (this.#isRefused) delete this.closeError
    })
  }

  /** The server waits for the handshake before it greets. */
  override async tlsFirst(host: Host): Promise<TLSSocket> {
    this.socket = await this.dial(host)
    this.socket.removeAllListeners()
    return this.#greetedBy(await this.startTLS())
  }

  override async dial(host: Host): Promise<Socket> {
    return this.#greetedBy(guarded(await super.dial(host)))
  }

  /** Bounds the greeting: the client collects the first line for as long as it has no end, and then takes all listeners off. */
  #greetedBy<S extends Socket>(socket: S): S {
    return socket.on("data", (bytes: Buffer) => {
      this.#greeting += bytes
      if (this.#greeting.length > longest) socket.destroy(new SyntaxError("a greeting without an end"))
    })
  }

  override startTLS(): Promise<TLSSocket> {
    const { tls } = this.options
    if (!tls) return Promise.reject(new Error(tlsMissing))
    return new Promise((resolve, reject) => {
      // Guarded from the first moment: what the server has against the certificate may come with its consent to TLS.
      const socket = guarded(
        connect({ ...tls, socket: this.socket, servername: this.tlsName }, () => {
          socket.removeAllListeners()
          resolve(socket)
        }),
      )
      let failure: Error | undefined
      socket.on("error", (error: NodeJS.ErrnoException) => {
        const isPlain = error.code === "ERR_SSL_WRONG_VERSION_NUMBER" && this.#greeting !== ""
        failure = isPlain ? new errors.ProtocolError(answerInPlain) : error
      })
      socket.on("close", () => reject(failure))
    })
  }

  /**
   * Writes the frames of a login in one packet. If the server has closed the connection, the second of two writes fails,
   * and the socket is closed before the server's words are read.
   */
  override send(frame: Uint8Array): void {
    if (this.#frames.push(frame) === 1) queueMicrotask(() => super.send(Buffer.concat(this.#frames.splice(0))))
  }

  /**
   * The client collects a line however long it is. At what it does not understand it prints what came, stops reading and
   * keeps the connection. So it is given neither, and the connection ends.
   */
  override async *iterate(): AsyncIterableIterator<Uint8Array> {
    let begun = 0
    const push = ({ kind, data }: ParserEvent): void => {
      begun = 0
      if (kind === Kind.ERR) this.#isRefused = true
      if (kind === Kind.INFO) parseSemVer(JSON.parse(String(Buffer.from(data ?? []))).version)
    }
    const reader = new Parser({ push })
    try {
      for await (const bytes of super.iterate()) {
        if (begun > longest) return
        begun += bytes.length
        reader.parse(bytes)
        yield bytes
      }
    } catch {
      // It is not understood.
    } finally {
      void this.close(new SyntaxError("not understood"))
    }
  }

  override close(error?: Error): Promise<void> {
    // The client would leave open what it has given up before the server's first word.
    if (!this.connected) this.discard()
    return super.close(error)
  }
}

export const transport = { factory: () => new Transport(), dnsResolveFn: nodeResolveHost }
