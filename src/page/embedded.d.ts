/** Files that are embedded as text. */
declare module "*.txt" {
  const text: string
  export default text
}
declare module "*.service" {
  const text: string
  export default text
}
declare module "*.md" {
  const text: string
  export default text
}
