/**
 * The manifests for Kubernetes. Their names, ports and paths agree with each other, with their config, with the
 * container image and with the page.
 */
import { describe, expect, test } from "bun:test"
import { Duration } from "effect"
import manifest from "../../package.json" with { type: "json" }
import { stopDeadline } from "../../src/config/Config.ts"
import { load } from "../../src/config/load/Load.ts"
import { journalTypes } from "../../src/journal/Journals.ts"
import { sinkTypes } from "../../src/sinks/SinkTypes.ts"
import { readFile } from "../config/fixture.ts"
import { readPage } from "../lib/docs.ts"
import { it } from "../lib/effect.ts"

interface Named {
  readonly name: string
}
interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string }
}
interface Container {
  readonly image: string
  readonly args: ReadonlyArray<string>
  readonly env?: ReadonlyArray<Named>
  readonly ports: ReadonlyArray<Named & { readonly containerPort: number }>
  readonly startupProbe: Probe
  readonly livenessProbe: Probe
  readonly readinessProbe: Probe
  readonly volumeMounts: ReadonlyArray<Named & { readonly mountPath: string }>
}
interface Labels {
  readonly matchLabels: Readonly<Record<string, string>>
}
interface Workload {
  readonly kind: string
  readonly spec: {
    readonly replicas: number
    readonly serviceName?: string
    readonly selector: Labels
    readonly template: {
      readonly metadata: { readonly labels: Readonly<Record<string, string>> }
      readonly spec: {
        readonly terminationGracePeriodSeconds: number
        readonly securityContext: { readonly runAsUser: number; readonly runAsGroup: number; readonly fsGroup: number }
        readonly containers: readonly [Container]
        readonly volumes: ReadonlyArray<
          Named & { readonly configMap?: Named; readonly secret?: { readonly secretName: string } }
        >
      }
    }
    readonly volumeClaimTemplates?: ReadonlyArray<{ readonly metadata: Named }>
  }
}
interface Service {
  readonly kind: string
  readonly metadata: Named
  readonly spec: {
    readonly selector: Readonly<Record<string, string>>
    readonly ports: ReadonlyArray<{ readonly targetPort: string }>
  }
}
interface ConfigMap {
  readonly kind: string
  readonly metadata: Named
  readonly data: Readonly<Record<string, string>>
}

const page = readPage("config/deploy/kubernetes.md")
const container = readPage("config/deploy/Containerfile")
const [, command = "[]"] = /^CMD (.*)$/m.exec(container) ?? []
const [, user] = /^USER (\d+):\d+$/m.exec(container) ?? []
const exposed = (/^EXPOSE (.*)$/m.exec(container)?.[1] ?? "").split(" ").map(Number)

const partsOf = (file: string) => {
  const all = Bun.YAML.parse(readPage(file)) as ReadonlyArray<{ readonly kind: string }>
  const of = <A>(...kinds: ReadonlyArray<string>) => all.find(({ kind }) => kinds.includes(kind)) as A
  const workload = of<Workload>("StatefulSet", "Deployment")
  const pod = workload.spec.template.spec
  return {
    workload,
    pod,
    relay: pod.containers[0],
    service: of<Service>("Service"),
    config: of<ConfigMap>("ConfigMap"),
    budget: of<{ readonly spec: { readonly minAvailable: number; readonly selector: Labels } } | undefined>(
      "PodDisruptionBudget",
    ),
  }
}

for (const file of ["config/deploy/kubernetes-sqlite.yaml", "config/deploy/kubernetes-postgres.yaml"]) {
  describe(file, () => {
    const { workload, pod, relay, service, config, budget } = partsOf(file)
    const mountOf = (volume: string) => relay.volumeMounts.find(({ name }) => name === volume)?.mountPath
    const configured = config.data["relay.config.json"] ?? ""

    test("the Kubernetes manifest selects its own pods, and names ports and volumes that they have", () => {
      const { labels } = workload.spec.template.metadata
      expect(workload.spec.selector.matchLabels).toEqual(labels)
      expect(service.spec.selector).toEqual(labels)
      if (budget !== undefined) {
        expect(budget.spec.selector.matchLabels).toEqual(labels)
        expect(budget.spec.minAvailable).toBeLessThan(workload.spec.replicas)
      }
      if (workload.kind === "StatefulSet") expect(workload.spec.serviceName).toBe(service.metadata.name)
      const ports = relay.ports.map(({ name }) => name)
      for (const { targetPort } of service.spec.ports) expect(ports).toContain(targetPort)
      const volumes = [...pod.volumes, ...(workload.spec.volumeClaimTemplates ?? []).map(({ metadata }) => metadata)]
      expect(relay.volumeMounts.map(({ name }) => name).toSorted()).toEqual(volumes.map(({ name }) => name).toSorted())
      expect(pod.volumes.find(({ name }) => name === "config")?.configMap?.name).toBe(config.metadata.name)
    })

    test("the Kubernetes manifest probes the admin API, and its service has only the port of deliveries", () => {
      const probes = [relay.startupProbe, relay.livenessProbe, relay.readinessProbe].map(({ httpGet }) => httpGet)
      expect(probes).toEqual(["/healthz", "/healthz", "/readyz"].map((path) => ({ path, port: "admin" })))
      expect(service.spec.ports.map(({ targetPort }) => targetPort)).toEqual(["deliveries"])
    })

    test("the Kubernetes manifest starts the image as it is built, as its user", () => {
      expect(relay.args.slice(0, -1)).toEqual(JSON.parse(command))
      expect(relay.args.at(-1)).toBe("--watch")
      const { runAsUser, runAsGroup, fsGroup } = pod.securityContext
      expect([runAsUser, runAsGroup, fsGroup].map(String)).toEqual([user, user, user].map(String))
      expect(relay.image).toEndWith(`/relay:${manifest.version}`)
      expect(relay.ports.map(({ containerPort }) => containerPort)).toEqual(exposed)
      expect(`${mountOf("config")}/${Object.keys(config.data)[0]}`).toBe(relay.args[2] ?? "")
    })

    it.effect(
      "has a config that loads with its secrets, listens on its ports, keeps its journal on the volume, and has time to stop",
      function* () {
        const secrets = [...configured.matchAll(/"file:(.*?)"/g)].map(([, path = ""]) => path)
        const created = [...page.matchAll(/--from-file=(\S+)/g)].map(([, key = ""]) => `${mountOf("secrets")}/${key}`)
        for (const path of secrets) expect(created).toContain(path)
        const [, secret] = /create secret generic (\S+)/.exec(page) ?? []
        expect(pod.volumes.find(({ name }) => name === "secrets")?.secret?.secretName).toBe(secret ?? "")

        const env = Object.fromEntries((relay.env ?? []).map(({ name }) => [name, "relay-7d4b9"]))
        const files = Object.fromEntries(secrets.map((path) => [path, "a-secret-of-this-test"]))
        const read = readFile({ ...files, "relay.config.json": configured })
        const loaded = yield* load("relay.config.json", { sinkTypes, journalTypes, env, readFile: read })
        // The page explains both warnings.
        expect(loaded.warnings.map(({ key }) => key)).toEqual(["listen", "admin.listen"])
        const { listen, admin, journal, drain } = loaded.config
        expect(drain.delay).toEqual(Duration.seconds(5))
        expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(Duration.toSeconds(stopDeadline(drain)))
        expect([listen.port, admin.listen.port]).toEqual(relay.ports.map(({ containerPort }) => containerPort))
        expect([listen.host, admin.listen.host]).toEqual(["0.0.0.0", "0.0.0.0"])
        if (workload.kind === "StatefulSet") {
          expect(workload.spec.replicas).toBe(1)
          expect(String(Reflect.get(journal, "path"))).toStartWith(`${mountOf("data")}/`)
        } else {
          expect(workload.spec.replicas).toBeGreaterThan(1)
          expect(journal).toMatchObject({ type: "postgres", name: "relay-7d4b9" })
        }
      },
    )
  })
}
