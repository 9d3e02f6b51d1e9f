/** The words of an expression with their places, which the library's errors leave out. */

export interface Token {
  readonly text: string
  /** The character where it begins, from 0. */
  readonly start: number
}

/** Blanks, names, texts in three kinds of quotes, variables, numbers and signs. */
const token =
  /[\t\n\r ]+|[A-Za-z_][A-Za-z0-9_]*|(["'`])(?:(?!\1)[^\\]|\\.)*\1|\$(?:[A-Za-z_][A-Za-z0-9_]*)?|-?[0-9][0-9-]*|&&|\|\||[<>=!]=|\[\?|\[\]|\/\/|[.*,:@{}()[\]?+\-%−×÷!<>=&|/]/sy

/** The words of a text, and where what is no word begins; `undefined` where all are. */
export const read = (text: string): { readonly tokens: ReadonlyArray<Token>; readonly odd: number | undefined } => {
  const tokens: Array<Token> = []
  token.lastIndex = 0
  let start = 0
  for (let found = token.exec(text); found !== null; found = token.exec(text)) {
    if (found[0].trim() !== "") tokens.push({ text: found[0], start })
    start = token.lastIndex
    if (start === text.length) break
  }
  return { tokens, odd: start === text.length ? undefined : start }
}

/** The first `=` that gives no variable a value. */
export const unnamed = (tokens: ReadonlyArray<Token>): Token | undefined =>
  tokens.find(({ text }, index) => text === "=" && !/^\$\w/.test(tokens[index - 1]?.text ?? ""))

/** The first word that follows another with no sign between them: the library takes some of these. */
export const unjoined = (tokens: ReadonlyArray<Token>): Token | undefined =>
  tokens.find(({ text }, index) => {
    const before = tokens[index - 1]?.text ?? "let"
    return (
      /^[A-Za-z_"'`@${]/.test(text) && /[\w"'`@$\])}]$/.test(before) && text !== "in" && !/^(?:let|in)$/.test(before)
    )
  })
