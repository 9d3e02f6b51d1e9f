/** Random numbers, and whether two texts are one. */
import type { Random } from "../../faults/senders/fuzz/Random.ts"

/** A number as JSON has it, of up to fifty digits. */
export const decimal = (random: Random): string => {
  const digit = () => random.pick([..."0123456789"])
  const digits = (most: number) => random.some(most, digit).join("")
  const whole = `${random.pick(["", "-"])}${random.chance(0.2) ? "0" : random.pick([..."123456789"]) + digits(random.pick([4, 25]))}`
  const fraction = random.chance(0.5) ? `.${digit()}${digits(random.pick([4, 25]))}` : ""
  return `${whole}${fraction}${random.chance(0.3) ? `${random.pick(["e", "E"])}${random.pick(["", "-", "+"])}${random.below(400)}` : ""}`
}

/** Whether two texts are one number: equal digits, at equal powers of ten. */
export const sameNumber = (one: string, other: string): boolean => {
  const normal = (text: string) => {
    const [, sign = "", whole = "", fraction = "", power = "0"] =
      /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? []
    const all = (whole + fraction).replace(/^0+/, "")
    const digits = all.replace(/0+$/, "")
    return digits === "" ? "0" : `${sign}${digits}e${Number(power) - fraction.length + (all.length - digits.length)}`
  }
  return normal(one) === normal(other)
}
