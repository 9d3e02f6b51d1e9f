/** Seeded text of every kind that an alert service might fail on or interpret. */
import { seeded } from "../../lib/seeded.ts"

const pieces = [
  "a",
  "acct_1",
  " ",
  "   ",
  "\r\nx-evil: 1",
  "\0",
  "\t",
  "\u0007",
  "\u009b31m",
  "\x1b[2J",
  "\u2028",
  "\u2029",
  "\u202e",
  "\u2066",
  "\ud800",
  "\udc00",
  '"',
  "\\",
  "/",
  "&",
  "<",
  ">",
  "&amp;",
  "<!channel>",
  "<!here|here>",
  "<@U012AB3CD>",
  "<https://example.com|click>",
  "@everyone",
  "@here",
  "<@&123456789012345678>",
  "<at>somebody</at>",
  "**bold**",
  "__u__",
  "~~s~~",
  "||spoiler||",
  "`code`",
  "```",
  "# head",
  "> quote",
  "- item",
  "[text](https://example.com)",
  "https://example.com/x?y=z&a=b",
  "{{type}}",
  "{{DATE(2026-01-01T00:00:00Z)}}",
  "é",
  "ü",
  "漢字",
  "😀",
  "👨‍👩‍👧‍👦",
  "🇩🇪",
  "👍🏽",
  "e\u0301",
  `z${"\u0300\u0301\u0302".repeat(30)}`,
]

/** A text of up to `length` pieces. Sometimes another piece follows, repeated many times. */
export const hostile = (random: () => number, length = 12): string => {
  const pick = () => pieces[Math.floor(random() * pieces.length)] ?? ""
  const text = Array.from({ length: Math.floor(random() * length) }, pick).join("")
  return random() < 0.3 ? `${text}${pick().repeat(Math.floor(random() * 200))}` : text
}

export const hostiles = (count: number, seed = 20_261_121): ReadonlyArray<string> => {
  const random = seeded(seed)
  return Array.from({ length: count }, () => hostile(random))
}

/** Texts of 2 MB made of characters that grow most when they are escaped or encoded. */
export const huge = ["<", "漢", "\\", "\0", "👨‍👩‍👧‍👦", " "].map((piece) =>
  piece.repeat(Math.ceil((2 * 1024 * 1024) / piece.length)),
)
