/** Says why the URL of an HTTP service is wrong, in words that hold none of it: it may be a secret. */

/** Why a text is no `http://` or `https://` URL; `undefined` when it is one. */
export const problemOf = (url: string): string | undefined => {
  const example = "write it in full, such as https://example.com/hooks"
  if (/^\s|\s$/.test(url)) return "this is no URL: there is a blank before or after it"
  if (/^["'“‘]/.test(url)) return "this is no URL: it begins with a quotation mark"
  const [, scheme] = /^([a-z][a-z0-9+.-]*):\/\//i.exec(url) ?? []
  if (scheme === undefined) {
    if (/^https?:/i.test(url)) return `this is no URL: \`http:\` or \`https:\` is followed by \`//\`; ${example}`
    return `this is no URL: it has no \`https://\` in front; ${example}`
  }
  if (!/^https?$/i.test(scheme)) return `this is no URL of HTTP: it begins with another scheme; ${example}`
  const [, authority = ""] = /^https?:\/\/([^/?#\\]*)/i.exec(url) ?? []
  if (authority === "") return `this is no URL: no host follows \`://\`; ${example}`
  if (/\s/.test(url)) return "this is no URL: it contains a blank; write it as %20"
  if (URL.canParse(url)) return undefined
  const [, port] = /:([^:\]]*)$/.exec(authority) ?? []
  if (port !== undefined && !(/^\d*$/.test(port) && Number(port) <= 65_535)) {
    return "this is no URL: what follows the `:` behind its host is no port; a port is a number up to 65535"
  }
  return `this is no URL: its host is none; ${example}`
}
