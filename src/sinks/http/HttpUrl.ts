/** URLs of a config, which are never shown: for many services the URL is the secret. */
import { Schema } from "effect"
import { httpUrlProblem } from "../../config/schema/Units.ts"
import * as Template from "../../formats/Template.ts"

/** Describes the mistake in a URL. Returns `undefined` for a correct URL. */
const problemOf = (url: string, isTemplate: boolean): string | undefined => {
  if (slackToken.test(url)) {
    return 'this is a token of Slack\'s API, and not a URL: a slack sink takes it as "token", with a "channel"; the URL of an incoming webhook begins with https://hooks.slack.com/services/'
  }
  const authority = /^https?:\/\/([^/?#\\\s]+)/i.exec(url)?.[1]
  if (authority === undefined) return httpUrlProblem(url)
  if (Template.hasPlaceholder(authority)) {
    return "the host of a URL can't hold a placeholder: an event would decide who gets it"
  }
  if (!isTemplate && Template.hasPlaceholder(url))
    return "this URL is the same for every event: it holds no placeholder"
  if (authority.includes("@")) return 'a URL holds no user and password: put them into "headers", as authorization'
  return httpUrlProblem(Template.withoutPlaceholders(url))
}

interface Doc {
  readonly description: string
  readonly examples: ReadonlyArray<string>
  readonly default?: string
  /** The service's hosts, if it has few. */
  readonly hosts?: ReadonlyArray<string>
  readonly paths?: ReadonlyArray<string>
  readonly retired?: Readonly<Record<string, string>>
}

/** A token of Slack's API. */
const slackToken = /^xox[a-z]-|^xapp-/

const urlOf = (doc: Doc, isTemplate: boolean) =>
  Schema.RedactedFromValue(
    Schema.String.annotate({
      ...doc,
      postsTo: true,
      target: "servers",
      ...(isTemplate && { template: true, ofAlert: true }),
      shown: false,
    }).check(
      Schema.makeFilter((text: string) => problemOf(text, isTemplate), {
        expected: "an http:// or https:// URL",
        toJsonSchema: () => ({ pattern: "^[Hh][Tt][Tt][Pp][Ss]?://" }),
      }),
    ),
  )

/** A URL to send to; its path and query may hold placeholders. */
export const url = (doc: Doc) => urlOf(doc, true)

/** A URL that is the same for every event. */
export const fixedUrl = (doc: Doc) => urlOf(doc, false)
