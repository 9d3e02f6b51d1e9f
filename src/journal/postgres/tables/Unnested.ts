/** Rows as the parameters of `unnest`: an array for each of `width` columns. */
export const unnested = <A>(
  width: number,
  items: ReadonlyArray<A>,
  rowOf: (item: A) => ReadonlyArray<unknown>,
): ReadonlyArray<ReadonlyArray<unknown>> => {
  const rows = items.map(rowOf)
  return Array.from({ length: width }, (_, column) => rows.map((row) => row[column]))
}
