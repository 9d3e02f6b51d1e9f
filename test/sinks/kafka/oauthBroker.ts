/** Apache Kafka with an OAUTHBEARER listener that validates tokens with the keys of an OAuth server. */
import { freePort } from "../../lib/port.ts"
import { type Broker, makeBroker } from "../../parts/Kafka.ts"
import { audience, client, type OAuthServer, scope, startOAuthServer } from "../../parts/OAuthServer.ts"

/** Lifetime of a token in seconds. */
export const lifetime = 12

export interface OAuthBroker extends Broker {
  /** OAUTHBEARER over TLS. */
  readonly oauth: string
  readonly server: OAuthServer
}

const listener = "listener.name.oauth"
const packageName = "org.apache.kafka.common.security.oauthbearer"

export const startOAuthBroker = async (): Promise<OAuthBroker> => {
  const [server, port] = [await startOAuthServer(lifetime), await freePort()]
  const broker = await makeBroker({}, [{ name: "OAUTH", protocol: "SASL_SSL", port, advertised: port }], {
    properties: {
      [`${listener}.sasl.enabled.mechanisms`]: "OAUTHBEARER",
      [`${listener}.oauthbearer.sasl.jaas.config`]: `${packageName}.OAuthBearerLoginModule required;`,
      [`${listener}.oauthbearer.sasl.server.callback.handler.class`]: `${packageName}.OAuthBearerValidatorCallbackHandler`,
      [`${listener}.oauthbearer.connections.max.reauth.ms`]: 3_600_000,
      [`${listener}.sasl.oauthbearer.jwks.endpoint.url`]: server.jwks,
      [`${listener}.sasl.oauthbearer.expected.audience`]: audience,
      [`${listener}.sasl.oauthbearer.expected.issuer`]: server.issuer,
    },
    options: [`-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=${server.jwks}`],
  })
  await broker.start()
  return { ...broker, oauth: `127.0.0.1:${port}`, server, stop: () => broker.stop().then(server.stop) }
}

/** Config keys of a sink that logs in with tokens from the server. */
export const byToken = ({ oauth, certificates, server }: OAuthBroker, more: object = {}) => ({
  brokers: [oauth],
  requestTimeout: "30 seconds",
  tls: { ca: certificates.ca },
  sasl: {
    mechanism: "OAUTHBEARER",
    extensions: { logicalCluster: "lkc-1", identityPoolId: "pool-1" },
    oauth: { tokenUrl: server.tokenUrl, clientId: client.id, clientSecret: client.secret, scope, ...more },
  },
})
